"""`run_published.py baseline|optimised DATA`: run the published program as it is, with its own options.

They set one by one what `--baseline` and `--optimized` set together, except for the weights of ImageNet, which would be
downloaded: like ours, it begins with random weights. It gets speedproof's seed, and a name that NumPy 2 removed.
"""

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from monai import utils

from speedproof_common.program import run_program

SCRIPT = "programs/performance_profiling/pathology/train_evaluate_nvtx.py"
OPTION_OF = {"rs": "region", "ps": "patch", "bs": "batch", "prob": "share", "cpu": "workers"}
OPTIONS = {
    "baseline": ["--backend=numpy"],
    "optimised": ["--backend=cucim", "--benchmark", "--novograd", "--cos", "--pin", "--amp"],
}


def main(variant: str, data: str) -> None:
    """Run the program in this process."""
    told = json.loads(Path(data, "options.json").read_text("utf-8"))
    seed, seeded = int(os.environ.get("SPEEDPROOF_SEED") or 0), utils.set_determinism
    if variant == "optimised":  # which seeds nothing
        seeded(seed=seed)
        torch.backends.cudnn.deterministic = False
    utils.set_determinism = lambda **_: seeded(seed=seed)
    vars(np).setdefault("Inf", np.inf)
    if not torch.cuda.is_available():
        _range_without_cuda()
    slides = f"{data}/slides"
    run_program(
        f"{data}/{SCRIPT}",
        *OPTIONS[variant],
        *(["--openslide"] if told["reader"] == "openslide" else []),
        f"--root={slides}",
        f"--train-file={slides}/training.csv",
        f"--valid-file={slides}/validation.csv",
        "--logdir=logs",
        f"--ep={os.environ.get('SPEEDPROOF_EPOCHS') or 4}",
        *(f"--{option}={told[name]}" for option, name in OPTION_OF.items()),
        "--pr=1",  # each step's loss: a line in a step of a second
    )


def _range_without_cuda() -> None:
    """Let MONAI's ranges do nothing where torch, built without CUDA, has none."""
    from monai.utils import nvtx

    nvtx._nvtx = SimpleNamespace(rangePushA=lambda name: None, rangePop=lambda: None)


if __name__ == "__main__":
    main(*sys.argv[1:])
