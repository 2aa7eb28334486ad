"""`python -m speedproof_nnunet.published_command NAME …`: runs a command of the installed nnU-Net, as its script does.

It needs no folder on PATH.
"""

import sys
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec

import torch


def run_published(name: str, *arguments: str) -> None:
    """Run a command of nnU-Net in this process; end the process if nnU-Net is not installed."""
    found = entry_points(group="console_scripts", name=name)
    if not found:
        sys.exit(f"{name}: {MISSING}")
    make_torchvision_importable()
    sys.argv = [name, *arguments]
    print("Command:", *sys.argv, flush=True)
    next(iter(found)).load()()


def make_torchvision_importable() -> None:
    """Define the operators without which torchvision's CUDA build, the one on the public index, fails beside torch's CPU build.

    nnU-Net imports torchvision, by timm, and calls none of them.
    """
    if find_spec("torchvision") is None:
        return
    try:
        import_module("torchvision")
    except RuntimeError:
        for operator in ("nms", "qnms"):
            torch.library.define(f"torchvision::{operator}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


MISSING = "nnU-Net is not installed; run `make nnunet`, or: pip install './workloads/accelerate[nnunet]'"

if __name__ == "__main__":
    run_published(*sys.argv[1:])
