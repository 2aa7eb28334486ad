"""How the kernels see a volume: its voxels' channels side by side in memory, and the voxels one behind the other."""

import torch
from torch import Tensor


def as_channels_last(volume: Tensor) -> Tensor:
    """Return a tensor of shape (items, channels, x, y, z), its channels side by side in memory; copied only if need be."""
    return volume.contiguous(memory_format=torch.channels_last_3d)


def empty_volume(items: int, channels: int, sides: tuple[int, ...], like: Tensor) -> Tensor:
    """Return a volume without values, channels last, of another's precision and on its device."""
    return torch.empty((items, channels, *sides), dtype=like.dtype, device=like.device, memory_format=torch.channels_last_3d)
