"""Shorter trainings, for measurements: fewer iterations per epoch and fewer epochs than nnU-Net's default."""

import os
from typing import Any

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


class nnUNetTrainerShortEpochs(nnUNetTrainer):  # noqa: N801  # nnU-Net's naming
    """nnU-Net's own trainer, but for the length of epochs and training; see :data:`SETTINGS`."""

    def __init__(self, plans: dict, configuration: str, fold: int, dataset_json: dict, device: Any) -> None:
        """Take what nnU-Net's trainer takes."""
        super().__init__(plans, configuration, fold, dataset_json, device)
        shorten_epochs(self)
