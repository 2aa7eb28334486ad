"""Check whether equal seeds give equal losses, bit by bit: each variant trains twice in fresh processes, in each of two modes.

    python workloads/spleen/benchmarks/determinism.py [--size small] [--epochs 2] [--at-once 4] --out FOLDER

*configured*: the variant of config.yaml. *strict*: with `torch.use_deterministic_algorithms`, which chooses reproducible
operations if torch has them, and names the others. Prints a table and writes it to FOLDER with the losses of all steps
(`determinism.md`, `determinism.json`, one log per process). `turbo_library` is `turbo` with torch's kernels instead of ours.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
VARIANTS = ("regular", "baseline", "fast", "fast_tutorial", "turbo", "turbo_library")
MODES = ("configured", "strict")
VALIDATION_CASES = {"tiny": 2, "small": 3, "medium": 4}
# Torch's messages about an operation that it cannot reproduce, and about cuBLAS without a workspace of its own.
NAMED = re.compile(r"^(\S+) does not have a deterministic implementation|because it uses (CuBLAS)")


def write_config(folder: Path, options: argparse.Namespace) -> Path:
    """Write what lies over config.yaml, and return its path."""
    library = {"extends": "turbo", "title": "Turbo (ours) with torch's kernels", "kernels": [], "launch": "operations"}
    values: dict[str, Any] = {
        "data": {"source": "phantom", "folder": str(folder), "phantom": {"size": options.size}},
        "workload": {"validation_cases": VALIDATION_CASES[options.size]} | ({} if options.size != "tiny" else TINY),
        "measurement": {"epochs": options.epochs, "validate_every": options.epochs, "device": options.device},
        "variants": {"turbo_library": library},
    }
    path = folder / "config.json"
    path.write_text(json.dumps(values))
    return path


TINY = {"spacing_mm": [8, 8, 8], "patch_size": [16, 16, 16], "patches_per_volume": 2, "window_size": [32, 32, 32]}


def train_once(config: Path, dataset: Path, variant: str, mode: str, out: Path) -> None:
    """Train in this process, and write down the loss of each step, a digest of the weights, and what torch named."""
    import torch

    from speedproof.api import Dataset, read_epochs, read_record
    from speedproof_spleen.config import load_config
    from speedproof_spleen.training import run

    named: set[str] = set()

    def note(message: Warning | str, *_: object, **__: object) -> None:
        if found := NAMED.search(str(message)):
            named.add(found[1] or found[2])

    warnings.simplefilter("always")
    warnings.showwarning = note
    if mode == "strict":
        torch.use_deterministic_algorithms(True, warn_only=True)
    losses: list[torch.Tensor] = []
    trainings: list[Any] = []
    build_training = run.build_training

    def build_watched(*args: Any) -> Any:
        training = build_training(*args)
        forward = training.step.forward

        def forward_watched(*batch: torch.Tensor) -> torch.Tensor:
            loss: torch.Tensor = forward(*batch)
            losses.append(loss.detach().clone())
            return loss

        training.step.forward = forward_watched
        trainings.append(training)
        return training

    run.build_training = build_watched
    request = run.Request(variant, "profiled", 0, 0, "none")  # `profiled`: without the probes that follow a timed run
    described = read_record(dataset, Dataset)
    run.run_training(load_config(ROOT / "config.yaml", config), described, described.files(dataset), request, out)
    digest = hashlib.sha256()
    for name, value in trainings[-1].network.state_dict().items():
        digest.update(name.encode() + value.cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    result = {
        "device": str(trainings[-1].device),
        "torch": torch.__version__,
        "steps_per_epoch": len(trainings[-1].training_loader),
        "losses": [float(loss).hex() for loss in losses],
        "weights": digest.hexdigest(),
        "dice": [str(value) for value in read_epochs(out).quality],
        "named": sorted(named),
    }
    (out / "determinism.json").write_text(json.dumps(result))


def start_process(config: Path, dataset: Path, variant: str, mode: str, out: Path) -> dict[str, Any] | None:
    """Train in a fresh process; None where it failed, with the reason in its log."""
    out.mkdir(parents=True)
    command = [sys.executable, __file__, "--once", variant, mode, str(config), str(dataset), str(out)]
    strict = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"} if mode == "strict" else {}
    with (out / "process.log").open("w") as log:
        ended = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **strict})
    result: dict[str, Any] | None = json.loads((out / "determinism.json").read_text()) if ended.returncode == 0 else None
    return result


def compare_runs(first: dict[str, Any] | None, second: dict[str, Any] | None) -> list[str]:
    """Return the columns of a row about two runs: steps, losses, weights, operations."""
    if first is None or second is None:
        return ["–", "a run failed: see its process.log", "–", "–"]
    steps = len(first["losses"])
    differing = next(
        (i for i, pair in enumerate(zip(first["losses"], second["losses"], strict=True)) if pair[0] != pair[1]), None
    )
    if differing is None:
        losses = "the same"
    else:
        epoch, step = divmod(differing, first["steps_per_epoch"])
        apart = abs(float.fromhex(first["losses"][differing]) - float.fromhex(second["losses"][differing]))
        losses = f"differ from epoch {epoch + 1}, step {step + 1} on, there by {apart:.1e}"
    weights = "the same" if first["weights"] == second["weights"] else "differ"
    return [
        str(steps),
        losses,
        weights,
        ", ".join(f"`{name}`" for name in sorted({*first["named"], *second["named"]})) or "none",
    ]


def main() -> None:
    """Train all variants, print the table, and end with 1 where a run failed."""
    if sys.argv[1:2] == ["--once"]:
        variant, mode, config, dataset, out = sys.argv[2:]
        train_once(Path(config), Path(dataset), variant, mode, Path(out))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--size", default="small", choices=list(VALIDATION_CASES), help="of the phantom; tiny: patches are, too"
    )
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=VARIANTS)
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--at-once", type=int, default=4, help="processes that train at the same time")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        config, dataset = write_config(folder, options), folder / "dataset.json"
        configs = [f"--config={ROOT / 'config.yaml'}", f"--config={config}"]
        subprocess.run([sys.executable, "-m", "speedproof_spleen", "data", *configs, f"--out={dataset}"], check=True)
        pairs = list(product(options.variants, MODES))
        with ThreadPoolExecutor(options.at_once) as pool:
            jobs = {
                (variant, mode, number): pool.submit(
                    start_process, config, dataset, variant, mode, folder / f"{variant}-{mode}-{number}"
                )
                for number in (1, 2)
                for variant, mode in pairs
            }
        runs = {key: job.result() for key, job in jobs.items()}
        for variant, mode, number in jobs:
            name = f"{variant}-{mode}-{number}"
            (options.out / f"{name}.log").write_text((folder / name / "process.log").read_text())
    rows = [["variant", "mode", "steps", "losses", "weights", "operations that torch names"], ["---"] * 6]
    for variant, mode in pairs:
        rows.append([f"`{variant}`", mode, *compare_runs(runs[variant, mode, 1], runs[variant, mode, 2])])
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    some = next((run for run in runs.values() if run), {"device": "–", "torch": "–"})
    heading = f"{_name_device(some['device'])}, torch {some['torch']}, {options.size} phantom, {options.epochs} epochs\n\n"
    print(heading + table)
    (options.out / "determinism.md").write_text(heading + table)
    (options.out / "determinism.json").write_text(
        json.dumps({"-".join(map(str, key)): run for key, run in runs.items()}, indent=1)
    )
    sys.exit(any(run is None for run in runs.values()))


def _name_device(device: str) -> str:
    if not device.startswith("cuda"):
        return "CPU"
    import torch

    return torch.cuda.get_device_name(device)


if __name__ == "__main__":
    main()
