"""Gaussian blur: along each axis, a product with a matrix."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from speedproof_accelerate.nnunet.augmentation.draws import Range, choose_rows, send
from speedproof_accelerate.nnunet.augmentation.rows import change_rows, multiply_axis

_TRUNCATE = 6  # a kernel's length in standard deviations


def kernel_length(deviation: float) -> int:
    """Return the odd number next to 6 standard deviations and a half."""
    wanted = deviation * _TRUNCATE + 0.5
    rounded = round(wanted)
    if rounded % 2 == 1:
        return rounded
    return rounded + 1 if wanted >= rounded else rounded - 1


def make_kernels(deviations: Sequence[float]) -> Tensor:
    """Return normalized Gaussian kernels, shape (kernels, longest), the shorter ones between zeros."""
    lengths = [kernel_length(deviation) for deviation in deviations]
    half = max(lengths) // 2
    places = torch.arange(-half, half + 1, dtype=torch.float32)
    widths = torch.tensor(deviations, dtype=torch.float32)[:, None]
    kernels = torch.exp(-0.5 * (places / widths) ** 2)
    kernels = kernels.masked_fill(places.abs() > torch.tensor(lengths)[:, None] // 2, 0)
    return kernels / kernels.sum(1, keepdim=True)


def blur_matrices(length: int, kernels: Tensor) -> Tensor:
    """Return a matrix per kernel that blurs an axis of this length, reflected at its ends, shape (kernels, length, length)."""
    half = kernels.shape[1] // 2
    identity = torch.eye(length, device=kernels.device)
    neighbours = functional.pad(identity[None], (half, half), mode="reflect")[0].unfold(1, kernels.shape[1], 1)
    return torch.einsum("ijt,kt->kji", neighbours, kernels)


def blur(images: Tensor, rows: Sequence[int], deviations: Tensor) -> None:
    """Blur some rows along each axis, in place.

    Args:
        images: shape (samples, channels, …).
        rows: those that are blurred; see :func:`.rows.change_rows`.
        deviations: the kernels' standard deviations in voxels, shape (rows, axes), on the CPU.
    """

    def change(x: Tensor) -> Tensor:
        for axis in range(1, x.dim()):
            kernels = send(make_kernels(deviations[:, axis - 1].tolist()), x.device)
            x = multiply_axis(x, blur_matrices(x.shape[axis], kernels), axis)
        return x

    change_rows(images, rows, change)


@dataclass(frozen=True)
class GaussianBlur:
    """Blur of a random width, drawn for each channel and axis."""

    probability: float
    per_channel: float
    deviation: Range

    def __call__(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the batch after the transformation."""
        rows = choose_rows(images, self.probability, self.per_channel)
        blur(images, rows, self.deviation.draw(len(rows), images.dim() - 2))
        return images, labels
