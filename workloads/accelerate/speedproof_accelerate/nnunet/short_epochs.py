"""Shorter trainings with a seed, for measurements: nnU-Net's default takes 1000 epochs and sets no seed."""

import os
from typing import Any

import numpy as np
import torch
from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

# Environment variables, each with the trainer's attribute that it sets.
SETTINGS = {
    "SPEEDPROOF_NNUNET_ITERATIONS": "num_iterations_per_epoch",
    "SPEEDPROOF_NNUNET_VALIDATION_ITERATIONS": "num_val_iterations_per_epoch",
    "SPEEDPROOF_NNUNET_EPOCHS": "num_epochs",
}


def shorten_epochs(trainer: Any) -> None:
    """Set the trainer's attributes of those variables that are set.

    Raises:
        ValueError: a variable is not a positive integer.
    """
    for variable, attribute in SETTINGS.items():
        value = os.environ.get(variable)
        if value is None:
            continue
        if not value.isdecimal() or int(value) < 1:
            raise ValueError(f"{variable} is {value!r}; set it to a positive integer")
        setattr(trainer, attribute, int(value))


def seed_generators() -> None:
    """Seed this process from `SPEEDPROOF_SEED`, if it is set.

    Otherwise torch begins each process with the same seed, and NumPy with another one.
    """
    if seed := os.environ.get("SPEEDPROOF_SEED"):
        torch.manual_seed(int(seed))
        np.random.seed(int(seed) % 2**32)  # noqa: NPY002  # nnU-Net draws from it


class nnUNetTrainerShortEpochs(nnUNetTrainer):  # noqa: N801  # nnU-Net's naming
    """nnU-Net's own trainer, but for the length of epochs and training, and the seed; see :data:`SETTINGS`."""

    def __init__(self, plans: dict, configuration: str, fold: int, dataset_json: dict, device: Any) -> None:
        """Take what nnU-Net's trainer takes."""
        super().__init__(plans, configuration, fold, dataset_json, device)
        shorten_epochs(self)
        seed_generators()
