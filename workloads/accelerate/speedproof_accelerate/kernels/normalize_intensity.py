"""A crop of a volume, flipped, normalized over its nonzero values, scaled and shifted: read three times, written once."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from speedproof_accelerate.kernels.channels_last import empty_volume
from speedproof_accelerate.kernels.launch import LAUNCH, wait_for_previous

_TILE = 1024  # values of a program's tile
_PROGRAMS = 1056  # that sum: eight on each multiprocessor of a large GPU
_NUMBERS = ["start", "Y", "Z", "of_channel", "of_x", "of_y", "of_z", "voxels", "offset"]


@triton.jit
def _load_tile(volume, voxel, channel, there, start, Y, Z, of_channel, of_x, of_y, of_z):
    """Return a crop's values, (channels, voxels), by the strides of channels and axes; a flipped axis has a negative one."""
    place = start + voxel // (Y * Z) * of_x + voxel // Z % Y * of_y + voxel % Z * of_z
    return tl.load(volume + channel[:, None] * of_channel + place[None, :], mask=there, other=0.0).to(tl.float32)


@triton.jit(do_not_specialize=_NUMBERS[:-1])
def crop_sum(
    volume,
    means,
    partial,
    start,
    Y,
    Z,
    of_channel,
    of_x,
    of_y,
    of_z,
    voxels,
    CHANNELS: tl.constexpr,
    SQUARES: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Each program: sum and number of each channel's nonzero values; SQUARES: sum of their squared deviations."""
    wait_for_previous()
    program, programs = tl.program_id(0), tl.num_programs(0)
    channel = tl.arange(0, ROWS).to(tl.int64)
    known = channel < CHANNELS
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    count = tl.zeros((ROWS, BLOCK), tl.float32)
    if SQUARES:
        mean = tl.load(means + channel, mask=known, other=0.0)[:, None]
    for begin in range(program * BLOCK, voxels, programs * BLOCK):
        voxel = begin + tl.arange(0, BLOCK)
        there = known[:, None] & (voxel < voxels)[None, :]
        value = _load_tile(volume, voxel, channel, there, start, Y, Z, of_channel, of_x, of_y, of_z)
        if SQUARES:
            apart = tl.where(value != 0, value - mean, 0.0)
            total += apart * apart
        else:
            total += value
            count += tl.where(value != 0, 1.0, 0.0)
    slot = partial + channel * programs + program
    tl.store(slot, tl.sum(total, axis=1), mask=known)
    if not SQUARES:
        tl.store(slot + CHANNELS * programs, tl.sum(count, axis=1), mask=known)


@triton.jit(do_not_specialize=_NUMBERS)
def crop_normalise(
    volume,
    means,
    factors,
    out,
    start,
    Y,
    Z,
    of_channel,
    of_x,
    of_y,
    of_z,
    voxels,
    offset,
    CHANNELS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Programs: tiles of voxels. `out`: channels last."""
    wait_for_previous()
    channel = tl.arange(0, ROWS).to(tl.int64)
    voxel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    known = channel < CHANNELS
    there = known[:, None] & (voxel < voxels)[None, :]
    value = _load_tile(volume, voxel, channel, there, start, Y, Z, of_channel, of_x, of_y, of_z)
    mean = tl.load(means + channel, mask=known, other=0.0)[:, None]
    factor = tl.load(factors + channel, mask=known, other=0.0)[:, None]
    value = tl.where(value != 0, value - mean, 0.0) * factor + offset
    tl.store(out + voxel.to(tl.int64)[None, :] * CHANNELS + channel[:, None], value.to(out.dtype.element_ty), mask=there)


def normalize_crop(volume: Tensor, place: tuple[slice, ...], flipped: tuple[int, ...], scale: float, offset: float) -> Tensor:
    """Return a crop, shape (channels, x, y, z), of the volume's precision, its channels side by side in memory.

    Nonzero values are normalized by their channel's mean and deviation, as in MONAI's `NormalizeIntensity(nonzero=True,
    channel_wise=True)`; a deviation of 0 counts as 1. Then all values are scaled and shifted.

    Args:
        volume: shape (channels, x, y, z), on a GPU.
        place: of the crop along x, y and z.
        flipped: dimensions of the volume, 1 to 3, along which the crop is flipped.
        scale: factor of the normalized values.
        offset: added after that.
    """
    crop = volume[(slice(None), *place)]
    channels, *sides = crop.shape
    steps, start = list(crop.stride()), crop.storage_offset() - volume.storage_offset()
    for dimension in flipped:
        start += (sides[dimension - 1] - 1) * steps[dimension]
        steps[dimension] *= -1
    voxels, rows = crop[0].numel(), triton.next_power_of_2(channels)
    block = _TILE // rows
    programs = min(triton.cdiv(voxels, block), _PROGRAMS)
    numbers = (start, sides[1], sides[2], *steps, voxels)
    shape = {"CHANNELS": channels, "ROWS": rows, "BLOCK": block}
    partial = volume.new_empty((2, channels, programs), dtype=torch.float32)
    crop_sum[(programs,)](volume, partial, partial, *numbers, SQUARES=False, **shape, **LAUNCH)
    totals, counts = partial.sum(2)
    counts.clamp_(min=1)
    means = totals / counts
    crop_sum[(programs,)](volume, means, partial, *numbers, SQUARES=True, **shape, **LAUNCH)
    deviations = (partial[0].sum(1) / counts).sqrt_()
    factors = scale / torch.where(deviations == 0, 1.0, deviations)
    out = empty_volume(1, channels, tuple(sides), volume)
    crop_normalise[(triton.cdiv(voxels, block),)](volume, means, factors, out, *numbers, offset, **shape, **LAUNCH)
    return out[0]
