"""Inference by a sliding window in plain torch, as MONAI's `sliding_window_inference` with constant weights does it."""

from collections.abc import Callable, Sequence
from itertools import product

import torch
from torch import Tensor
from torch.nn import functional

Shape = tuple[int, int, int]


def slide_windows(images: Tensor, window: Shape, batch: int, network: Callable[[Tensor], Tensor], overlap: float) -> Tensor:
    """Return the logits of whole volumes, the mean of all windows that hold a voxel.

    Args:
        images: volumes, shape (volumes, channels, x, y, z); one smaller than a window is computed with zeros around it.
        window: voxels of a window along each axis.
        batch: windows in one forward pass.
        network: gives logits (windows, classes, x, y, z) of windows.
        overlap: share of a window's length that the next one covers again, in [0, 1).
    """
    lacking = [max(length - size, 0) for length, size in zip(window, images.shape[2:], strict=True)]
    before = [length // 2 for length in lacking]
    margins = [margin for one, other in zip(before, lacking, strict=True) for margin in (one, other - one)]
    inside = [slice(first, first + size) for first, size in zip(before, images.shape[2:], strict=True)]
    if any(margins):
        images = functional.pad(images, [*margins[4:], *margins[2:4], *margins[:2]])  # torch begins with the last axis
    starts = [list_starts(size, length, overlap) for size, length in zip(images.shape[2:], window, strict=True)]
    places: list[tuple[int | slice, ...]] = [
        (volume, slice(None), *(slice(first, first + length) for first, length in zip(corner, window, strict=True)))
        for volume, corner in product(range(len(images)), product(*starts))
    ]
    total: Tensor | None = None
    for first in range(0, len(places), batch):
        chosen = places[first : first + batch]
        logits = network(torch.stack([images[place] for place in chosen]))
        if total is None:
            total = images.new_zeros((len(images), logits.shape[1], *images.shape[2:]))
        for place, part in zip(chosen, logits, strict=True):
            total[place] += part
    assert total is not None  # every volume has a window
    total /= _count_windows(starts, window, images)
    return total[:, :, inside[0], inside[1], inside[2]]


def list_starts(size: int, window: int, overlap: float) -> list[int]:
    """Return where windows begin along an axis of `size` voxels, at least a window's; the last one is moved back to the end."""
    step = max(int(window * (1 - overlap)), 1)
    return [*range(0, size - window, step), size - window]


def _count_windows(starts: Sequence[Sequence[int]], window: Shape, images: Tensor) -> Tensor:
    """Return in how many windows each voxel lies, shape (x, y, z): the product of what the axes count."""
    counts = []
    for axis_starts, length, size in zip(starts, window, images.shape[2:], strict=True):
        count = images.new_zeros(size)
        for first in axis_starts:
            count[first : first + length] += 1
        counts.append(count)
    return counts[0][:, None, None] * counts[1][:, None] * counts[2]
