"""`python -m speedproof_nnunet.train`: trains with `nnUNetv2_train`, whose results go to the working folder.

nnU-Net stays as published. Its variables select the data, and the trainers of `speedproof_accelerate.nnunet`.
"""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import torch

from speedproof_nnunet.folders import DATASET, FOLD, RESULTS, list_variables
from speedproof_nnunet.published_command import run_published


def parse(words: Sequence[str] | None = None) -> Namespace:
    """Return the options of a training."""
    parser = ArgumentParser(description="Train with nnUNetv2_train")
    parser.add_argument("--data", type=Path, required=True, help="folder that `prepare` left")
    parser.add_argument("--configuration", required=True, help="3d_fullres or 2d")
    parser.add_argument("--plans", required=True, help="name of nnU-Net's plans")
    parser.add_argument("--trainer", required=True, help="name of the trainer's class")
    parser.add_argument("--iterations", type=int, required=True, help="training iterations per epoch")
    parser.add_argument("--validation-iterations", type=int, required=True, help="validation iterations per epoch")
    parser.add_argument("--epochs", type=int, default=os.environ.get("SPEEDPROOF_EPOCHS", "1000"), help="default: %(default)s")
    parser.add_argument("--augmentation-processes", type=int, help="default: nnU-Net's, 12 or all cores")
    parser.add_argument("--final-validation", action="store_true", help="predict all validation cases at the end")
    return parser.parse_args(words)


def choose_variables(asked: Namespace) -> dict[str, str]:
    """Return the variables of nnU-Net, and of the trainers."""
    package = find_spec("speedproof_accelerate.nnunet")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("speedproof_accelerate.nnunet: not found; install workloads/accelerate")
    variables = list_variables(asked.data, Path(RESULTS)) | {
        "nnUNet_extTrainer": str(Path(package.origin).parent / "trainers"),
        "SPEEDPROOF_NNUNET_ITERATIONS": str(asked.iterations),
        "SPEEDPROOF_NNUNET_VALIDATION_ITERATIONS": str(asked.validation_iterations),
        "SPEEDPROOF_NNUNET_EPOCHS": str(asked.epochs),
        "SPEEDPROOF_NNUNET_FINAL_VALIDATION": str(int(asked.final_validation)),
    }
    if asked.augmentation_processes is not None:
        variables["nnUNet_n_proc_DA"] = str(asked.augmentation_processes)
    return variables


def main() -> None:
    """Train in this process."""
    asked = parse()
    os.environ.update(choose_variables(asked))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    options = ["-p", asked.plans, "-tr", asked.trainer, "-device", device, "--disable_checkpointing"]
    run_published("nnUNetv2_train", DATASET, asked.configuration, str(FOLD), *options)


if __name__ == "__main__":
    main()
