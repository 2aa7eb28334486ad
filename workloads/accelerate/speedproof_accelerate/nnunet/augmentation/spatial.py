"""Rotation and scaling about the centre, with the crop to the network's patch."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from speedproof_accelerate.nnunet.augmentation.draws import Range, choose, send

_FULL = 1000.0  # the score of a label that fills a voxel
# Scores are compared in half precision, whose steps are then 0.25 and 0.5: nearly equal scores are equal.
_SCORES = torch.float16


def crop_centre(x: Tensor, size: Sequence[int], padding: float) -> Tensor:
    """Return the middle of a batch; what lies outside is padding.

    Args:
        x: shape (samples, channels, …).
        size: of the result, along each spatial axis.
        padding: the value outside.
    """
    missing: list[int] = []
    for axis, (length, wanted) in enumerate(zip(x.shape[2:], size, strict=True), start=2):
        start = length // 2 - wanted // 2
        first, last = max(start, 0), min(start + wanted, length)
        x = x.narrow(axis, first, last - first)
        missing[:0] = (first - start, start + wanted - last)
    return functional.pad(x, missing, value=padding) if any(missing) else x


def affine_matrices(angles: Tensor, scales: Tensor) -> Tensor:
    """Return matrices that scale along each axis and then rotate, shape (samples, axes, axes).

    Args:
        angles: in radians, shape (samples, 3), about each axis, or (samples, 1) of images.
        scales: shape (samples, axes); above 1, objects become smaller.
    """
    matrix = torch.diag_embed(scales)
    axes = scales.shape[1]
    planes = ((1, 2), (2, 0), (0, 1)) if axes == 3 else ((0, 1),)
    for angle, (first, second) in zip(angles.unbind(1), planes, strict=True):
        rotation = torch.eye(axes).repeat(len(scales), 1, 1)
        rotation[:, first, first] = rotation[:, second, second] = angle.cos()
        rotation[:, second, first] = angle.sin()
        rotation[:, first, second] = -angle.sin()
        matrix = rotation @ matrix
    return matrix


def sampling_grid(matrices: Tensor, size: Sequence[int], source: Sequence[int]) -> Tensor:
    """Return where each voxel of a patch lies in its source, as `grid_sample` reads it, shape (samples, *size, axes).

    Args:
        matrices: applied to positions relative to the centre, shape (samples, axes, axes).
        size: of the patch.
        source: the source's size; both have the same centre.
    """
    lines = [torch.linspace((1 - length) / 2, (length - 1) / 2, length, device=matrices.device) for length in size]
    positions = torch.stack(torch.meshgrid(lines, indexing="ij"), dim=-1).view(1, -1, len(lines))
    halves = torch.tensor([length / 2 for length in source])
    grid = positions @ matrices.transpose(1, 2) / send(halves, matrices.device)
    return grid.flip(-1).view(len(matrices), *size, len(lines))


def resample_images(images: Tensor, grid: Tensor) -> Tensor:
    """Return images at the grid's positions, linearly interpolated, with zeros outside."""
    return functional.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def resample_labels(labels: Tensor, grid: Tensor, known: Sequence[int], padding: int) -> Tensor:
    """Return the label with the largest share of each voxel, by linear interpolation of each label's mask.

    Of labels with equal shares, that of the nearest voxel is taken, if it is one of them, and otherwise the smallest.

    Args:
        labels: integers, shape (samples, channels, …).
        grid: see :func:`sampling_grid`.
        known: all labels that may occur.
        padding: the label outside; it need not be among the known ones.
    """
    nearest = (_sample(labels.float() - padding, grid, "nearest") + padding).to(labels.dtype)
    result, best = torch.zeros_like(nearest), torch.zeros_like(nearest, dtype=_SCORES)
    of_nearest = torch.full_like(nearest, -math.inf, dtype=_SCORES)
    for label in sorted({*known, padding}):
        outside = float(label == padding)
        share = _sample(((labels == label).float() - outside) * _FULL, grid, "bilinear") + outside * _FULL
        score = share.to(_SCORES)
        of_nearest = torch.where(nearest == label, score, of_nearest)
        result = result.masked_fill(score > best, label)
        best = torch.maximum(score, best)
    return torch.where(of_nearest == best, nearest, result)


def _sample(x: Tensor, grid: Tensor, mode: str) -> Tensor:
    return functional.grid_sample(x, grid, mode=mode, padding_mode="zeros", align_corners=False)


def fold_slices(x: Tensor) -> Tensor:
    """Return volumes as images whose channels are all slices of all channels."""
    return x.flatten(1, 2)


def unfold_slices(x: Tensor, channels: int) -> Tensor:
    """Return volumes again; see :func:`fold_slices`."""
    return x.unflatten(1, (channels, -1))


def transform_spatially(
    images: Tensor,
    labels: Tensor,
    size: Sequence[int],
    samples: Sequence[int],
    matrices: Tensor,
    known: Sequence[int],
    padding: int,
) -> tuple[Tensor, Tensor]:
    """Return patches from the middle of a batch, some of them rotated and scaled.

    Args:
        images: shape (samples, channels, …).
        labels: integers, shape (samples, label channels, …).
        size: of the patches.
        samples: those that are rotated or scaled.
        matrices: theirs; see :func:`affine_matrices`.
        known: all labels that may occur.
        padding: the label outside. Images are 0 there.
    """
    patches = crop_centre(images, size, 0).clone(memory_format=torch.contiguous_format)
    targets = crop_centre(labels, size, padding).clone(memory_format=torch.contiguous_format)
    if samples:
        index = send(samples, images.device)
        grid = sampling_grid(send(matrices, images.device), size, images.shape[2:])
        patches.index_copy_(0, index, resample_images(images.index_select(0, index), grid))
        targets.index_copy_(0, index, resample_labels(labels.index_select(0, index), grid, known, padding))
    return patches, targets


@dataclass(frozen=True)
class Spatial:
    """Random rotation and scaling, each with its own probability, and the crop.

    Attributes:
        size: of the patches; without the first axis if `by_slices`.
        known: all labels that may occur.
        padding: the label outside.
        p_rotation: probability of a rotation.
        angle: about each axis, in radians.
        p_scaling: probability of a scaling.
        scale: the same along all axes.
        by_slices: whether all slices of a volume move alike, in their plane.
    """

    size: tuple[int, ...]
    known: tuple[int, ...]
    padding: int
    p_rotation: float
    angle: Range
    p_scaling: float
    scale: Range
    by_slices: bool = False

    def __call__(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the batch after the transformation."""
        samples, matrices = self.draw(len(images))
        if not self.by_slices:
            return transform_spatially(images, labels, self.size, samples, matrices, self.known, self.padding)
        folded = transform_spatially(
            fold_slices(images), fold_slices(labels), self.size, samples, matrices, self.known, self.padding
        )
        return unfold_slices(folded[0], images.shape[1]), unfold_slices(folded[1], labels.shape[1])

    def draw(self, count: int) -> tuple[list[int], Tensor]:
        """Return which of `count` samples are rotated or scaled, and their matrices."""
        axes = len(self.size)
        rotated, scaled = choose(count, self.p_rotation), choose(count, self.p_scaling)
        angles, scales = torch.zeros(count, 3 if axes == 3 else 1), torch.ones(count, axes)
        angles[rotated] = self.angle.draw(len(rotated), angles.shape[1])
        scales[scaled] = self.scale.draw(len(scaled), 1)
        samples = sorted({*rotated, *scaled})
        return samples, affine_matrices(angles[samples], scales[samples])
