"""Images and volumes in channels-last order, as the kernels read them. It imports no Triton."""

import torch
from torch import Tensor


def channels_last_of(dimensions: int) -> torch.memory_format:
    """Return the memory format of batches of images (4 dimensions) or volumes (5)."""
    return torch.channels_last_3d if dimensions == 5 else torch.channels_last


def as_channels_last(x: Tensor) -> Tensor:
    """Return a tensor of shape (items, channels, …) in channels-last order; it is copied only if necessary."""
    return x.contiguous(memory_format=channels_last_of(x.dim()))


def empty_volume(items: int, channels: int, sides: tuple[int, ...], like: Tensor) -> Tensor:
    """Return an uninitialized volume, channels last, of another's precision and on its device."""
    order = channels_last_of(2 + len(sides))
    return torch.empty((items, channels, *sides), dtype=like.dtype, device=like.device, memory_format=order)


def require_cells(volume: Tensor) -> None:
    """Check that a volume of shape (items, channels, x, y, z) divides into cells of 2 × 2 × 2 voxels.

    Raises:
        ValueError: a size is odd.
    """
    x, y, z = volume.shape[2:]
    if x % 2 or y % 2 or z % 2:
        raise ValueError(f"a volume of {x} × {y} × {z} voxels does not divide into cells of 2 × 2 × 2: its sizes must be even")


def count_cells(full: Tensor, cells: int, voxels: int = 1) -> tuple[int, tuple[int, int, int, int]]:
    """Return how many tiles a kernel covers that treats a volume as cells at half its resolution, and the volume's size.

    Args:
        full: shape (items, channels, x, y, z), channels last.
        cells: cells of a tile; a tile lies in one plane.
        voxels: voxels of a cell at half the resolution, side by side along z.

    Returns:
        The number of tiles, and: planes at half the resolution, x, y, and values along z.
    """
    items, channels, x, y, z = full.shape
    planes = items * (x // 2)
    cells_of_plane = y // 2 * -(-(z // 2) // voxels)
    return planes * -(-cells_of_plane // cells), (planes, x, y, z * channels)
