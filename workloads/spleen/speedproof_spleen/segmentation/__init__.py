"""Cases: what a workload brings to the training loop. `spleen` is the first; others of the same shape are added beside it."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from speedproof_spleen.config import Workload
from speedproof_spleen.segmentation.dice import DeviceDice
from speedproof_spleen.segmentation.spleen import Spleen
from speedproof_spleen.variant import SpleenVariant

if TYPE_CHECKING:
    from monai.metrics import DiceMetric
    from monai.transforms import Compose


class Case(Protocol):
    """What a workload brings: transforms, network, loss, inference and its metric."""

    def split_files(self, files: list[dict[str, str]]) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
        """Return the files that train and those that validate."""

    def training_transform(self) -> "Compose":
        """Return the chain from a file to a list of patches: first what a cache can keep, then what is random."""

    def validation_transform(self) -> "Compose":
        """Return the chain from a file to a whole volume."""

    def preparation_transform(self) -> Callable[[Mapping[str, Any]], Mapping[str, Tensor]]:
        """Return what makes a whole volume of a case that was read, all of it on the device."""

    def preparation_settings(self) -> dict[str, Any]:
        """Return what, besides the files, decides what that gives."""

    def plan_shape(self, path: str) -> tuple[int, ...]:
        """Return the voxels along each axis of what the chains make of a volume, before it is cropped, by its header alone."""

    def patch_size(self) -> tuple[int, int, int]:
        """Return the voxels of a training patch along each axis."""

    def network(self) -> nn.Module:
        """Return the network, on the device."""

    def loss(self) -> nn.Module:
        """Return the loss of (logits, labels)."""

    def predict(self, network: Callable[[Tensor], Tensor], images: Tensor | Sequence[Tensor]) -> Tensor | Sequence[Tensor]:
        """Return the logits of whole volumes, each of shape (classes, x, y, z)."""

    def window_size(self) -> tuple[int, int, int]:
        """Return the voxels of a validation window along each axis."""

    def window_batch(self) -> int:
        """Return how many windows make one forward pass."""

    def discretize(
        self, logits: Tensor | Sequence[Tensor], labels: Tensor | Sequence[Tensor]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Return predictions and labels, a tensor each volume, as the metric takes them."""

    def metric(self) -> "DiceMetric | DeviceDice":
        """Return the metric whose aggregate is the mean Dice of each class, shape (classes,), background first."""

    def patches_per_volume(self) -> int:
        """Return how many patches of a volume an epoch trains on."""


def build_case(name: str, workload: Workload, variant: SpleenVariant, device: torch.device) -> Case:
    """Return the case of that name; the configuration has checked that it exists."""
    return {"spleen": Spleen}[name](workload, variant, device)
