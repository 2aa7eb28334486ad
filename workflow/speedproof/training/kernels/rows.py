"""Volumes as rows of channels: how the kernels see a tensor whose voxels have their channels side by side in memory."""

import torch
from torch import Tensor


def as_channels_last(volume: Tensor) -> Tensor:
    """Return a tensor of shape (items, channels, x, y, z), its channels side by side in memory; copied only if need be."""
    return volume.contiguous(memory_format=torch.channels_last_3d)


def row_stride(volume: Tensor) -> int | None:
    """Return how far apart in memory neighbouring voxels are, where all of them follow each other evenly; else None.

    So are the voxels of a dense channels-last tensor, and those of some channels cut out of one.
    """
    items, channels, x, y, z = volume.shape
    item, channel, across, down, step = volume.stride()
    even = (down == z * step or y == 1) and (across == y * z * step or x == 1) and (item == x * y * z * step or items == 1)
    return step if even and (channel == 1 or channels == 1) else None
