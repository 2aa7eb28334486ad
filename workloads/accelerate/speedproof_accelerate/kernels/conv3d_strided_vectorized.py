"""Strided convolutions of one or two channels to two volumes of 16, and their transposes, with loads of 16 bytes.

A cell is a run of voxels along z. The matrices of weights hold each weight once for each voxel of the run, and zeros elsewhere:

- windows × weights: a strided convolution's results, and the data gradient of a transposed one. A cell is a run of four voxels,
  64 values of either volume. Of each of the nine rows of full resolution around it, it reads the values beside it and the 8
  before;
- neighbours × weights: a transposed convolution's results. A cell is a run of two voxels, 32 values of either volume, and makes
  four rows of 8 values. Of its own rows, and of the next ones upwards along x and y, it reads three voxels;
- windowsᵀ × results: the weight gradients of both.

The first two load all weights into shared memory once per program, as in `conv3d_strided_wide.py`. They are fastest if the
length along z at full resolution is a multiple of 16.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from speedproof_accelerate.kernels.channels_last import count_cells
from speedproof_accelerate.kernels.launch import LAUNCH, wait_for_previous
from speedproof_accelerate.kernels.mma_fragments import from_fragments, reorder_matrices, to_fragments
from speedproof_accelerate.kernels.weight_matrices import NONE

_HALF = 16  # channels of each volume at half the resolution
_PROGRAMS = 132  # of a weight gradient: one on each multiprocessor of a large GPU
_CELLS, _WARPS = 64, 4  # of a convolution: of a tile, and of a program
# Programs on a multiprocessor, and registers of a thread, so that these fit: strided, by channels, and transposed.
_BESIDE = {1: (4, 128), 2: (3, 168)}
_DOUBLED_BESIDE, _DOUBLED_REGISTERS = 5, 96
_SUMMED_CELLS, _SUMMED_STAGES, _SUMMED_WARPS, _SUMMED_REGISTERS = 64, 3, 8, 255  # of a weight gradient
_BEFORE, _RUN, _PAIR = 8, 4, 2  # values of a window before its cell; voxels of a cell that has windows, or neighbours
_NUMBERS = ["planes", "X", "Y"]  # they differ between volumes: Triton must not compile a kernel again for each


@triton.jit
def _load_windows(full, plane, y, z, X, Y, row, PART: tl.constexpr, C: tl.constexpr):
    """Return 32 values of each cell's windows. A window has 16 · C values; those of the nine rows follow each other.

    `plane`: at half the resolution. A strided convolution's result reads its own two rows and the one before.
    """
    number = PART * 32 + tl.arange(0, 32)[None, :]
    dx, dy = number // (16 * C) // 3, number // (16 * C) % 3
    along = z[:, None] * (8 * C) + (number % (16 * C) - 8)
    inside = (y < Y // 2)[:, None] & (dx < 3) & ((dx > 0) | (plane % (X // 2) > 0)) & ((dy > 0) | (y > 0)[:, None])
    start = full + plane.to(tl.int64) * 2 * Y * row
    place = ((dx - 1) * Y + dy - 1) * row + ((y * 2 * row)[:, None] + along)
    return tl.load(start + place, mask=inside & (along >= 0) & (along < row), other=0.0)


@triton.jit(do_not_specialize=_NUMBERS)
def conv_runs_halve(
    full,
    weights,
    first,
    second,
    planes,
    X,
    Y,
    row,
    C: tl.constexpr,
    PARTS: tl.constexpr,
    BLOCK: tl.constexpr,
    WARPS: tl.constexpr,
):
    """Strided: each cell's windows times the weights. `planes`: items · half of X. `row`: values along z of full resolution."""
    wait_for_previous()
    column = tl.arange(0, 32)[None, :]
    square = tl.arange(0, 32)[:, None] * 128 + tl.arange(0, 128)[None, :]
    matrices = ()
    KEPT: tl.constexpr = weights.dtype.element_ty.primitive_bitwidth == 16  # those of single precision would not fit
    if KEPT:
        for part in tl.static_range(PARTS):
            matrices += (tl.load(weights + part * 4096 + square),)  # type: ignore[assignment]
    hy, runs, half = Y // 2, tl.cdiv(row, 8 * C), row * (8 // C)
    tiles = tl.cdiv(hy * runs, BLOCK)
    for tile in tl.range(tl.program_id(0), planes * tiles, tl.num_programs(0), num_stages=1, disable_licm=True):
        plane = tile // tiles
        place = tile % tiles * BLOCK + tl.arange(0, BLOCK)
        y, z = place // runs, place % runs
        total = tl.zeros((BLOCK, 128), tl.float32)
        values = ()
        for part in tl.static_range(PARTS):
            values += (to_fragments(_load_windows(full, plane, y, z, X, Y, row, part, C), WARPS),)  # type: ignore[assignment]
        for part in tl.static_range(PARTS):
            matrix = matrices[part] if KEPT else tl.load(weights + part * 4096 + square)
            total = tl.dot(values[part], matrix, total, input_precision="ieee")
        one, other = tl.split(tl.permute(tl.reshape(total, (BLOCK, 2, 64)), (0, 2, 1)))
        out = plane.to(tl.int64) * hy * half + ((y * half + z * 64)[:, None] + column)
        for number in tl.static_range(2):
            volume = first if number == 0 else second
            low, high = tl.split(tl.permute(tl.reshape(one if number == 0 else other, (BLOCK, 2, 32)), (0, 2, 1)))
            for side in tl.static_range(2):
                mask = (y < hy)[:, None] & (z[:, None] * 64 + (side * 32 + column) < half)
                found = from_fragments(low if side == 0 else high, WARPS)
                tl.store(volume + out + side * 32, found.to(first.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=_NUMBERS)
def conv_runs_double(first, second, weights, full, planes, X, Y, row, BLOCK: tl.constexpr, WARPS: tl.constexpr):
    """Transposed, to two channels: each cell's and its upper neighbours' values times the weights. Numbers: as above."""
    wait_for_previous()
    column = tl.arange(0, 32)[None, :]
    square = tl.arange(0, 32)[:, None] * 32 + column
    matrices = ()
    KEPT: tl.constexpr = weights.dtype.element_ty.primitive_bitwidth == 16  # as above
    if KEPT:
        for part in tl.static_range(12):
            matrices += (tl.load(weights + part * 1024 + square),)  # type: ignore[assignment]
    hy, runs, half = Y // 2, tl.cdiv(row, 8), row * 4
    tiles = tl.cdiv(hy * runs, BLOCK)
    for tile in tl.range(tl.program_id(0), planes * tiles, tl.num_programs(0), num_stages=1, disable_licm=True):
        plane = tile // tiles
        place = tile % tiles * BLOCK + tl.arange(0, BLOCK)
        y, z = place // runs, place % runs
        start = plane.to(tl.int64) * hy * half
        own = (y * half + z * 32)[:, None]
        next_of_both = tl.where(column < 16, first + start + 32 + column, second + start + 16 + column)
        beside, behind = z[:, None] * 32 + column < half, (z * 32 + 32 < half)[:, None]
        total = tl.zeros((BLOCK, 32), tl.float32)
        for nx in tl.static_range(2):
            for ny in tl.static_range(2):
                inside = ((y < hy - ny) & ((nx == 0) | (plane % (X // 2) < X // 2 - 1)))[:, None]
                ahead = (nx * hy + ny) * half
                mask = inside & beside
                one = to_fragments(tl.load(first + start + ahead + (own + column), mask=mask, other=0.0), WARPS)
                other = to_fragments(tl.load(second + start + ahead + (own + column), mask=mask, other=0.0), WARPS)
                mask = inside & behind & (column >= 0)
                near = to_fragments(tl.load(next_of_both + ahead + own, mask=mask, other=0.0), WARPS)
                for part in tl.static_range(3):
                    values = one if part == 0 else (other if part == 1 else near)
                    matrix = (
                        matrices[(nx * 2 + ny) * 3 + part]
                        if KEPT
                        else tl.load(weights + ((nx * 2 + ny) * 3 + part) * 1024 + square)
                    )
                    total = tl.dot(values, matrix, total, input_precision="ieee")
        # Of a cell's four rows, 8 values each: lower and upper along x, and along y.
        out = full + plane.to(tl.int64) * 2 * Y * row + ((y * 2 * row + z * 8)[:, None] + column % 8)
        mask = (y < hy)[:, None] & (z[:, None] * 8 + column % 8 < row)
        found = from_fragments(total, WARPS).to(full.dtype.element_ty)
        tl.store(out + (column // 16 * Y + column // 8 % 2) * row, found, mask=mask)


@triton.jit(do_not_specialize=_NUMBERS)
def conv_runs_weights(
    full,
    first,
    second,
    partial,
    planes,
    X,
    Y,
    row,
    C: tl.constexpr,
    PARTS: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Each program: sums, over its tiles of cells, of gradients of their resultsᵀ times their windows. Numbers: as above."""
    wait_for_previous()
    hy, runs, half = Y // 2, tl.cdiv(row, 8 * C), row * (8 // C)
    tiles = tl.cdiv(hy * runs, BLOCK)
    result = tl.arange(0, 128)
    zero = tl.zeros((128, 32), tl.float32)
    totals = (zero,) * PARTS
    for tile in tl.range(tl.program_id(0), planes * tiles, tl.num_programs(0), num_stages=STAGES):
        plane = tile // tiles
        place = tile % tiles * BLOCK + tl.arange(0, BLOCK)
        y, z = place // runs, place % runs
        start = plane.to(tl.int64) * hy * half
        rows = tl.where(result < 64, first + start + result, second + start + (result - 64))[None, :]
        mask = (y < hy)[:, None] & (z[:, None] * 64 + (result % 64)[None, :] < half)
        gradient = tl.trans(tl.load(rows + (y * half + z * 64)[:, None], mask=mask, other=0.0))
        summed = ()
        for part in tl.static_range(PARTS):
            windows = _load_windows(full, plane, y, z, X, Y, row, part, C)
            summed += (tl.dot(gradient, windows, totals[part], input_precision="ieee"),)  # type: ignore[assignment]
        totals = summed
    # (program, part, result, window)
    place = partial + tl.program_id(0) * (PARTS * 4096) + result[:, None] * 32 + tl.arange(0, 32)[None, :]
    for part in tl.static_range(PARTS):
        tl.store(place + part * 4096, totals[part])


def _count_parts(channels: int) -> int:
    """Return how many times 32 values a cell's windows have."""
    return triton.cdiv(9 * 16 * channels, 32)


def _place_in_rows(weights: Tensor) -> Tensor:
    """Return where weights, given by their numbers, are in the matrices of windows, shape (parts, 32, 2 · 64)."""
    inner = weights.shape[1]
    places = torch.full((2 * _count_parts(inner) // inner, 16 * inner, 2, _RUN, _HALF), NONE)
    rows = weights.unflatten(0, (2, _HALF)).flatten(3, 4)  # (volume, channel, inner, row, dz)
    for voxel in range(_RUN):
        for dz in range(3):
            begin = _BEFORE + (2 * voxel + dz - 1) * inner
            places[:9, begin : begin + inner, :, voxel] = rows[..., dz].permute(3, 2, 0, 1)
    return places.view(-1, 32, 2 * _RUN * _HALF)


def place_in_windows(weights: Tensor) -> Tensor:
    """Return the same in the order in which a convolution loads the matrices."""
    return reorder_matrices(_place_in_rows(weights))


def place_in_gradient(weights: Tensor) -> Tensor:
    """Return where weights stand in the matrices that :func:`sum_weight_gradients` computes."""
    return _place_in_rows(weights).transpose(1, 2)


def place_by_neighbour(weights: Tensor) -> Tensor:
    """Return their places in the matrices of neighbours, shape (12, 32, 32).

    For each neighbour along x and y: the first volume's two voxels, the second's, and both volumes' next. Results: half of the
    cell along x, half along y, voxel of full resolution, channel.
    """
    tap_of = {(0, 0): 1, (1, 0): 2, (1, 1): 0}  # by the half of the cell and the neighbour's
    inner = weights.shape[1]
    places = torch.full((2, 2, 3, 2, _HALF, 2, 2, 2 * _PAIR, inner), NONE)
    for (side_x, near_x), dx in tap_of.items():
        for (side_y, near_y), dy in tap_of.items():
            for (side_z, near_z), dz in tap_of.items():
                found = weights[..., dx, dy, dz].unflatten(0, (2, _HALF))
                for voxel in range(_PAIR):
                    seen, made = voxel + near_z, 2 * voxel + side_z
                    for volume in range(2):
                        part, place = (volume, seen) if seen < _PAIR else (2, volume)
                        places[near_x, near_y, part, place, :, side_x, side_y, made] = found[volume]
    return reorder_matrices(places.view(12, 32, 32))


def convolve(full: Tensor, windows: Tensor, outs: list[Tensor]) -> None:
    """Convolve, strided, into two volumes."""
    channels = full.shape[1]
    tiles, numbers = count_cells(full, _CELLS, _RUN)
    beside, registers = _BESIDE[channels]
    conv_runs_halve[(min(tiles, beside * _PROGRAMS),)](
        full, windows, *outs, *numbers, C=channels, PARTS=_count_parts(channels), BLOCK=_CELLS, WARPS=_WARPS,
        num_warps=_WARPS, num_stages=1, maxnreg=registers, **LAUNCH,
    )  # fmt: skip


def transpose(halves: list[Tensor], neighbours: Tensor, out: Tensor) -> None:
    """Convolve two volumes, transposed, into one of two channels."""
    tiles, numbers = count_cells(out, _CELLS, _PAIR)
    conv_runs_double[(min(tiles, _DOUBLED_BESIDE * _PROGRAMS),)](
        *halves, neighbours, out, *numbers, BLOCK=_CELLS, WARPS=_WARPS, num_warps=_WARPS, num_stages=1,
        maxnreg=_DOUBLED_REGISTERS, **LAUNCH,
    )  # fmt: skip


def sum_weight_gradients(full: Tensor, halves: list[Tensor]) -> Tensor:
    """Return what each program finds of the weights' gradient. One of `full` and `halves` is itself a gradient."""
    tiles, numbers = count_cells(full, _SUMMED_CELLS, _RUN)
    programs, parts = min(tiles, _PROGRAMS), _count_parts(full.shape[1])
    partial = full.new_empty((programs, parts * 32 * 2 * _RUN * _HALF), dtype=torch.float32)
    stages = _SUMMED_STAGES if full.element_size() == 2 else 1  # tiles of single precision take twice the shared memory
    conv_runs_weights[(programs,)](
        full, *halves, partial, *numbers, C=full.shape[1], PARTS=parts, BLOCK=_SUMMED_CELLS, STAGES=stages,
        num_warps=_SUMMED_WARPS, maxnreg=_SUMMED_REGISTERS, **LAUNCH,
    )  # fmt: skip
    return partial
