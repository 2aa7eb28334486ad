"""What the loss reads: labels without padding, as regions, at each resolution of deep supervision."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class MaskOutside:
    """Channels of the images are set to a value where the label is negative."""

    channels: tuple[int, ...]
    label_channel: int
    value: float

    def __call__(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the batch after the transformation."""
        outside = labels[:, self.label_channel] < 0
        for channel in self.channels:
            images[:, channel].masked_fill_(outside, self.value)
        return images, labels


@dataclass(frozen=True)
class ReplaceLabel:
    """A label becomes another one."""

    old: int
    new: int

    def __call__(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the batch after the transformation."""
        return images, labels.masked_fill(labels == self.old, self.new)


@dataclass(frozen=True)
class Regions:
    """Labels become one mask per region; a region is a set of labels."""

    regions: tuple[tuple[int, ...], ...]
    label_channel: int

    def __call__(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the batch after the transformation."""
        given = labels[:, self.label_channel]
        masks = []
        for region in self.regions:
            inside = given == region[0]
            for label in region[1:]:
                inside |= given == label
            masks.append(inside)
        return images, torch.stack(masks, dim=1)


def downsample_targets(labels: Tensor, scales: Sequence[Sequence[float]]) -> list[Tensor]:
    """Return the labels at each scale, by nearest neighbours.

    Args:
        labels: shape (samples, channels, …).
        scales: of each result, the fraction of voxels along each axis.
    """
    results = []
    for scale in scales:
        size = [round(length * one) for length, one in zip(labels.shape[2:], scale, strict=True)]
        if all(one == 1 for one in scale):
            results.append(labels)
        else:
            results.append(functional.interpolate(labels.float(), size, mode="nearest-exact").to(labels.dtype))
    return results
