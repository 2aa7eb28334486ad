"""Whether `accelerate` without graphs is ever slower than AMP: channels last, or as the network was.

`python never_slower.py --out FOLDER [NAME …]` measures each network of networks.py in a process of its own. Ways take turns, so
what else the machine does affects all alike. The results are in FOLDER/never_slower.json: each way's rounds in ms, and how many
times as long AMP takes in each layout, with a 95 % interval over the rounds. A network without replaced parts is torch's own.
"""

import argparse
import copy
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from networks import HALF, SETTINGS, Trainer, _draw
from scipy.stats import t

_WARM_UPS, _ROUNDS, _ROUND_S, _MOST = 3, 12, 0.25, 20


def _time_ms(step: Callable[[], object], count: int) -> float:
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(count):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / count * 1e3


def _compare(slow: list[float], fast: list[float]) -> list[float]:
    """Return the geometric mean of the rounds' ratios, and the ends of its 95 % t interval."""
    logs = [math.log(one / other) for one, other in zip(slow, fast, strict=True)]
    half = float(t.ppf(0.975, len(logs) - 1)) * stdev(logs) / math.sqrt(len(logs))
    return [round(math.exp(fmean(logs) + end), 3) for end in (0.0, -half, half)]


def measure(name: str) -> dict[str, Any]:
    """Return the times of a network's training step by AMP and by `accelerate`."""
    from speedproof_accelerate import accelerate

    setting = SETTINGS[name]
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(0)
    as_it_was = setting.make().cuda()
    last, fast = copy.deepcopy(as_it_was), copy.deepcopy(as_it_was)
    order: Any = torch.channels_last_3d if len(setting.shape) == 5 else torch.channels_last
    last.to(memory_format=order)
    images, labels = _draw(setting.shape, setting.classes)
    report = accelerate(fast, images, HALF)
    steps: dict[str, Callable[[], object]] = {}
    for way, network in {"amp_as_it_was": as_it_was, "amp_channels_last": last, "accelerate": fast}.items():
        given = images.contiguous() if way == "amp_as_it_was" else images
        trainer = Trainer(network, network.parameters())
        steps[way] = lambda trainer=trainer, given=given: trainer.step(given, labels)  # type: ignore[misc]
    for step in steps.values():
        for _ in range(_WARM_UPS):
            step()
    counts = {way: max(min(round(_ROUND_S * 1e3 / _time_ms(step, 2)), _MOST), 1) for way, step in steps.items()}
    rounds: dict[str, list[float]] = {way: [] for way in steps}
    for _ in range(_ROUNDS):
        for way, step in steps.items():
            rounds[way].append(_time_ms(step, counts[way]))
    return {
        "name": name,
        "gpu": torch.cuda.get_device_name(),
        "ratios": {way: _compare(times, rounds["accelerate"]) for way, times in rounds.items() if way != "accelerate"},
        "rounds_ms": rounds,
        "replaced": len(report.replaced),
        "arrangements": report.arrangements,
        "report": str(report),
    }


def main() -> None:
    """Take the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SETTINGS))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.one)))
        return
    if given.out is None:
        parser.error("--out: name the folder of the results")
    given.out.mkdir(parents=True, exist_ok=True)
    results = []
    for name in given.names or SETTINGS:
        done = subprocess.run([sys.executable, __file__, "--one", name], capture_output=True, text=True)
        found = {"name": name, "error": done.stderr[-3000:]} if done.returncode else json.loads(done.stdout.splitlines()[-1])
        results.append(found)
        (given.out / "never_slower.json").write_text(json.dumps(results, indent=1))
        print(name, *(f"{key}: {found[key]}" for key in ("ratios", "replaced", "error") if key in found), flush=True)


if __name__ == "__main__":
    main()
