"""Dice counted where the volumes are: one read for a whole validation, instead of several for each volume."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class DeviceDice:
    """The mean Dice of each class over volumes, as MONAI's DiceMetric with `reduction="mean_batch"` gives it.

    For a class of one volume it is 2 |A ∩ B| / (|A| + |B|), A being the prediction and B the label; a volume whose label
    lacks the class counts nothing for it. Sources: L. R. Dice, "Measures of the Amount of Ecologic Association Between
    Species", Ecology 26 (1945); for the rule on empty labels MONAI's DiceMetric, `ignore_empty`.
    """

    def __init__(self, classes: int) -> None:
        """Count `classes` classes, background first."""
        self._classes = classes
        self._scores: list[Tensor] = []

    def __call__(self, y_pred: Sequence[Tensor], y: Sequence[Tensor]) -> None:
        """Count volumes: of each, the predicted and the true class of every voxel, of the same shape."""
        for predicted, true in zip(y_pred, y, strict=True):
            classes = torch.arange(self._classes, device=predicted.device).view(-1, *[1] * predicted.dim())
            ours, theirs = predicted[None] == classes, true[None] == classes
            common, own, other = (mask.flatten(1).sum(1) for mask in (ours & theirs, ours, theirs))
            self._scores.append(torch.where(other > 0, 2.0 * common / (own + other), torch.nan))

    def aggregate(self) -> Tensor:
        """Return the means over the volumes of all ranks, shape (classes,), on the device; NaN where no label has the class."""
        return _gather_rows(torch.stack(self._scores)).nanmean(dim=0)


def _gather_rows(own: Tensor) -> Tensor:
    """Return the rows of all ranks, which may have different numbers of them, in order of the ranks."""
    if not (dist.is_available() and dist.is_initialized()):
        return own
    shares: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(shares, own.cpu())
    return torch.cat(shares).to(own.device)
