"""How long training takes to start: with `accelerate`, with graphs and without, and with torch.compile, cold and warm.

`python cold_start.py --out FOLDER [--network NAME …] [--way WAY …]` starts each network in fresh processes, one after another:
first with empty cache folders, then with the folders that the first process left. The results are in FOLDER/cold_start.json,
which is rewritten after each process. Phases are in seconds; `until_step` is the time from the process' start to the end of its
first training step.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

WAYS = ("graphs", "launches", "compile")
_SHOWN = ("until_step", "phases", "accelerate", "remembered", "steps_s", "error")
_STEPS = 6  # torch.compile records its graphs in the second and third


class Phases:
    """Seconds of the phases of a start."""

    def __init__(self, begun: float) -> None:
        """Begin at a time of the system's clock."""
        self._begun = self._last = begun
        self.seconds: dict[str, float] = {}

    def end(self, name: str) -> None:
        """End a phase, and begin the next."""
        now = time.time()
        self.seconds[name] = round(now - self._last, 3)
        self._last = now

    @property
    def total(self) -> float:
        """Return the seconds since the beginning."""
        return round(self._last - self._begun, 3)


def start(name: str, way: str, begun: float) -> dict[str, Any]:
    """Return what a start of training takes in this process."""
    phases = Phases(begun)
    phases.end("interpreter")
    import torch

    phases.end("import torch")
    from networks import HALF, SETTINGS, Trainer, _draw

    torch.zeros(1, device="cuda")
    phases.end("initialize CUDA")
    setting = SETTINGS[name]
    torch.manual_seed(0)
    network = setting.make().cuda()
    images, labels = _draw(setting.shape, setting.classes)
    torch.cuda.synchronize()
    phases.end("build network")
    torch.backends.cudnn.benchmark = True
    found: dict[str, Any] = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    if way == "compile":
        order: Any = torch.channels_last_3d if len(setting.shape) == 5 else torch.channels_last
        called: Any = torch.compile(network.to(memory_format=order), dynamic=False, mode="reduce-overhead")
        phases.end("wrap")
    else:
        from speedproof_accelerate import accelerate

        phases.end("import accelerate")
        report = accelerate(network, images, HALF, graphs=way == "graphs")
        called = network
        torch.cuda.synchronize()
        phases.end("accelerate")
        found |= {"accelerate": report.phases, "remembered": report.remembered, "replaced": len(report.replaced)}
        found |= {"arrangements": report.arrangements, "report": str(report)}
    trainer = Trainer(called, network.parameters())
    steps = []
    for number in range(_STEPS):
        before = time.perf_counter()
        trainer.step(images, labels)
        torch.cuda.synchronize()
        steps.append(round(time.perf_counter() - before, 4))
        if number == 0:
            phases.end("first step")
            found["until_step"] = phases.total
    phases.end("further steps")
    return found | {"phases": phases.seconds, "steps_s": steps, "peak_mib": round(torch.cuda.max_memory_allocated() / 2**20)}


def run(name: str, way: str, caches: Path) -> dict[str, Any]:
    """Start a fresh process with these cache folders; return what it found."""
    folders = {"TRITON_CACHE_DIR": "triton", "TORCHINDUCTOR_CACHE_DIR": "inductor", "CUDA_CACHE_PATH": "cuda"}
    environment = {**os.environ, **{variable: str(caches / folder) for variable, folder in folders.items()}}
    command = [sys.executable, __file__, "--one", name, "--way", way, "--begun", repr(time.time())]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return {"error": done.stderr[-3000:]}
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def main() -> None:
    """Take the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", nargs="+", default=["segresnet_brats"], metavar="NAME", help="of networks.py")
    parser.add_argument("--way", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--begun", type=float, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(start(given.one, given.way[0], given.begun)))
        return
    if given.out is None:
        parser.error("--out: name the folder of the results")
    given.out.mkdir(parents=True, exist_ok=True)
    results = []
    for name in given.network:
        for way in given.way:
            with tempfile.TemporaryDirectory() as caches:
                for state in ("cold", "warm"):
                    found = {"network": name, "way": way, "state": state, **run(name, way, Path(caches))}
                    results.append(found)
                    (given.out / "cold_start.json").write_text(json.dumps(results, indent=1))
                    shown = {
                        key: found.get(key) for key in ("until_step", "phases", "accelerate", "remembered", "steps_s", "error")
                    }
                    print(
                        name, way, state, *(f"{key}: {value}" for key, value in shown.items() if value is not None), flush=True
                    )


if __name__ == "__main__":
    main()
