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
FINAL_VALIDATION = "SPEEDPROOF_NNUNET_FINAL_VALIDATION"  # 0: none


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


class IterationRanges:
    """An NVTX range around each training iteration, from the request of its batch to the end of its step.

    A profiler counts iterations by it. Ranges exist on a GPU only.
    """

    def __init__(self, device: torch.device) -> None:
        """Take the training device."""
        self._on_gpu = device.type == "cuda"
        self._left = 0

    def begin_epoch(self, iterations: int) -> None:
        """Begin the first range of an epoch with so many."""
        self._left = iterations if self._on_gpu else 0
        self._begin()

    def end_step(self) -> None:
        """End the present range, and begin the next one if the epoch has more iterations."""
        if self._left:
            torch.cuda.nvtx.range_pop()
            self._left -= 1
            self._begin()

    def _begin(self) -> None:
        if self._left:
            torch.cuda.nvtx.range_push("training iteration")


class nnUNetTrainerShortEpochs(nnUNetTrainer):  # noqa: N801  # nnU-Net's naming
    """nnU-Net's own trainer, but for the length of epochs and training, the seed and ranges; see :data:`SETTINGS`."""

    def __init__(self, plans: dict, configuration: str, fold: int, dataset_json: dict, device: Any) -> None:
        """Take what nnU-Net's trainer takes."""
        super().__init__(plans, configuration, fold, dataset_json, device)
        shorten_epochs(self)
        seed_generators()
        self._ranges = IterationRanges(self.device)

    def on_train_epoch_start(self) -> None:
        """Begin an epoch as nnU-Net does, and the range of its first iteration."""
        super().on_train_epoch_start()
        self._ranges.begin_epoch(self.num_iterations_per_epoch)

    def train_step(self, batch: dict) -> dict:
        """Take a step, and end the range of its iteration."""
        outputs = self.take_step(batch)
        self._ranges.end_step()
        return outputs

    def take_step(self, batch: dict) -> dict:
        """Take nnU-Net's training step."""
        return super().train_step(batch)

    def perform_actual_validation(self, save_probabilities: bool = False) -> None:
        """Predict all validation cases as nnU-Net does, unless :data:`FINAL_VALIDATION` is 0."""
        if os.environ.get(FINAL_VALIDATION) == "0":
            self.print_to_log_file(f"The final validation is skipped: {FINAL_VALIDATION} is 0.")
        else:
            super().perform_actual_validation(save_probabilities)
