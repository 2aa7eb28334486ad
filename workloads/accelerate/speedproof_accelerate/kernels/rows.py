"""How the kernels see a volume: its voxels' channels side by side in memory, and the voxels one behind the other."""

import torch
import triton
from torch import Tensor


def as_channels_last(volume: Tensor) -> Tensor:
    """Return a tensor of shape (items, channels, x, y, z), its channels side by side in memory; copied only if need be."""
    return volume.contiguous(memory_format=torch.channels_last_3d)


def empty_volume(items: int, channels: int, sides: tuple[int, ...], like: Tensor) -> Tensor:
    """Return a volume without values, channels last, of another's precision and on its device."""
    return torch.empty((items, channels, *sides), dtype=like.dtype, device=like.device, memory_format=torch.channels_last_3d)


def require_cells(volume: Tensor) -> None:
    """Refuse a volume of shape (items, channels, x, y, z) that does not divide into cells of 2 × 2 × 2 voxels.

    Raises:
        ValueError: a side is odd.
    """
    x, y, z = volume.shape[2:]
    if x % 2 or y % 2 or z % 2:
        raise ValueError(f"a volume of {x} × {y} × {z} voxels does not divide into cells of 2 × 2 × 2: its sides must be even")


def count_cells(full: Tensor, cells: int, voxels: int = 1) -> tuple[int, tuple[int, int, int, int]]:
    """Return what kernels go through that see a volume, channels last, from half its resolution.

    Args:
        full: shape (items, channels, x, y, z).
        cells: of a tile, which lies in one plane.
        voxels: of a cell, of half the resolution, side by side along z.

    Returns:
        How many tiles there are, and: planes of half the resolution, x, y, and values along z.

    Raises:
        ValueError: a side is odd.
    """
    require_cells(full)
    items, channels, x, y, z = full.shape
    planes = items * (x // 2)
    return planes * triton.cdiv(y // 2 * triton.cdiv(z // 2, voxels), cells), (planes, x, y, z * channels)
