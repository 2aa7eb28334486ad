"""Low resolution: fewer voxels by nearest neighbours, and back by linear interpolation: a product with a matrix per axis."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from speedproof_accelerate.nnunet.augmentation.draws import Range, choose_rows
from speedproof_accelerate.nnunet.augmentation.rows import change_rows, multiply_axis


def resolution_matrix(length: int, fewer: int, device: torch.device) -> Tensor:
    """Return the matrix that resamples an axis to fewer voxels and back, shape (length, length)."""
    identity = torch.eye(length, device=device)[None]
    down = functional.interpolate(identity, fewer, mode="nearest-exact")
    return functional.interpolate(down, length, mode="linear")[0].T


def lower_resolution(images: Tensor, rows: Sequence[int], scales: Tensor) -> None:
    """Resample some rows to fewer voxels and back, in place.

    Args:
        images: shape (samples, channels, …).
        rows: those that are resampled; see :func:`.rows.change_rows`.
        scales: the fraction of voxels along each axis, shape (rows, axes), on the CPU. At 1, an axis stays as it is.
    """

    def change(x: Tensor) -> Tensor:
        for axis in range(1, x.dim()):
            length = x.shape[axis]
            fewer = [round(length * scale) for scale in scales[:, axis - 1].tolist()]
            if any(one != length for one in fewer):
                x = multiply_axis(x, torch.stack([resolution_matrix(length, one, x.device) for one in fewer]), axis)
        return x

    change_rows(images, rows, change)


@dataclass(frozen=True)
class LowResolution:
    """A random scale for each channel, the same along all axes but the ignored ones."""

    probability: float
    per_channel: float
    scale: Range
    ignored_axes: tuple[int, ...]

    def __call__(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the batch after the transformation."""
        rows = choose_rows(images, self.probability, self.per_channel)
        scales = self.scale.draw(len(rows), 1).repeat(1, images.dim() - 2)
        scales[:, list(self.ignored_axes)] = 1
        lower_resolution(images, rows, scales)
        return images, labels
