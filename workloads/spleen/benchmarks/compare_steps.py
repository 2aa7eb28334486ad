"""The step of `turbo` by the code here and by that of another checkout, in fresh processes on one GPU, by turns.

    python workloads/spleen/benchmarks/compare_steps.py OTHER [--rounds 3] [--patches 8] [--steps 300]

OTHER: the root of a checkout of this project. It prints a line a process: the median ms of a step of synthetic patches of 96³,
the 10th and 90th percentile, and losses from the same seed, which differ by rounding only; at the end, the median of each
checkout's medians, and their ratio. Steps are timed by device events, launched one behind the other, as in training.
"""

import argparse
import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles

ROOT = Path(__file__).parents[3]
_WARM_UPS = 20  # steps; the fourth is recorded as graphs


def list_packages(root: Path) -> str:
    """Return the path by which Python finds a checkout's packages before those installed."""
    own = map(str, [root, root / "src", *sorted((root / "workloads").glob("*/"))])
    return os.pathsep.join([*own, *filter(None, [os.environ.get("PYTHONPATH")])])


def time_steps(root: Path, patches: int, steps: int) -> dict[str, object]:
    """Return what this process' packages take for steps of `turbo`."""
    import torch

    from speedproof_spleen.config import load_config
    from speedproof_spleen.segmentation import build_case
    from speedproof_spleen.training.ranks import Ranks
    from speedproof_spleen.training.rehearsal import rehearse
    from speedproof_spleen.training.run import build_training_step
    from speedproof_spleen.training.techniques import fix_randomness

    config, device = load_config(root / "config.yaml"), torch.device("cuda")
    variant = config.variants["turbo"]
    fix_randomness(variant, 0)
    case = build_case(config.case, config.workload, variant, device)
    rehearse(case, variant, device)  # kernels are compiled side by side
    _, step = build_training_step(case, variant, device, Ranks())
    for group in step.optimizer.param_groups:
        group["lr"].fill_(1e-3)
    images = torch.rand(patches, 1, 96, 96, 96, device=device, dtype=torch.float16)
    labels = (images > 0.7).to(torch.uint8)
    events = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
    losses = []
    for number in range(_WARM_UPS + steps):
        if number >= _WARM_UPS:
            events[number - _WARM_UPS].record()
        loss = step.forward(images, labels)
        step.backward()
        step.update()
        if number in (0, 9, _WARM_UPS - 1):
            losses.append(float(loss))
    events[-1].record()
    torch.cuda.synchronize()
    taken = [begin.elapsed_time(end) for begin, end in pairwise(events)]
    tenths = quantiles(taken, n=10)
    return {"ms": median(taken), "from": tenths[0], "to": tenths[-1], "losses": losses, "gpu": torch.cuda.get_device_name()}


def main() -> None:
    """Print a line a process, and the ratio."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("other", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--patches", type=int, default=8)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--only", action="store_true", help="in this process, by the packages of OTHER that it finds")
    given = parser.parse_args()
    if given.only:
        print(json.dumps(time_steps(given.other, given.patches, given.steps)))
        return
    found: dict[str, list[float]] = {"other": [], "here": []}
    for _ in range(given.rounds):
        for name, root in (("other", given.other.resolve()), ("here", ROOT)):
            options = ["--only", "--patches", str(given.patches), "--steps", str(given.steps)]
            environment = os.environ | {"PYTHONPATH": list_packages(root)}
            command = [sys.executable, __file__, str(root), *options]
            done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True)
            if done.returncode:
                print(f"{name}: failed\n{done.stderr[-2000:]}", flush=True)
                continue
            one = json.loads(done.stdout.splitlines()[-1])
            found[name].append(one["ms"])
            losses = " ".join(f"{loss:.5f}" for loss in one["losses"])
            print(
                f"{name:6} {one['ms']:.4f} ms ({one['from']:.4f} to {one['to']:.4f}), losses {losses}, {one['gpu']}", flush=True
            )
    if all(found.values()):
        other, here = median(found["other"]), median(found["here"])
        print(f"other {other:.4f} ms, here {here:.4f} ms: {other / here:.3f} times as fast, {(other - here) * 1e3:.0f} us less")


if __name__ == "__main__":
    main()
