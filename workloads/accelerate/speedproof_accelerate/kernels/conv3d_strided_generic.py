"""Strided convolutions of one or two channels to two volumes of any power of two, and their transposes.

The volume at full resolution is divided into cells of 2 × 2 × 2 voxels. Each layer then is a product of two matrices, as tensor
cores take it: the 4 × 4 × 4 voxels around each cell, times the layer's weights for all results of a cell. Windows are read in
pairs of values. Three kernels serve all layers:

- windows × weights: the results of strided convolutions, and the data gradient of a transposed one;
- neighbours × weights: the results of a transposed convolution;
- windowsᵀ × results: the weight gradients of both.
"""

from typing import cast

import torch
import triton
import triton.language as tl
from torch import Tensor

from speedproof_accelerate.kernels.launch import LAUNCH, wait_for_previous
from speedproof_accelerate.kernels.packed_pairs import as_pairs, split_pairs
from speedproof_accelerate.kernels.weight_matrices import NONE

_ACROSS, _DEEP = 4, 16  # cells of a tile along y and z
# Numbers that differ between volumes: Triton must not compile a kernel again for each.
_NUMBERS = ["X", "Y", "Z", "HX", "HY", "HZ", "planes"]
_PROGRAMS = 396  # of a weight gradient: three on each multiprocessor of a large GPU


@triton.jit
def _find_cells(plane, tile, X, Y, Z, ACROSS: tl.constexpr, DEEP: tl.constexpr):
    """Return a tile's cells: item and x, and for each cell y, z, its place in the plane, and whether it is inside.

    A tile is ACROSS · DEEP cells of one plane (one item and x), so that no cell's place needs a division.
    """
    hx, hy, hz = X // 2, Y // 2, Z // 2
    tiles = tl.cdiv(hz, DEEP)
    cell = tl.arange(0, ACROSS * DEEP)
    jy = tile // tiles * ACROSS + cell // DEEP
    jz = tile % tiles * DEEP + cell % DEEP
    return (plane // hx).to(tl.int64), plane % hx, jy, jz, jy * hz + jz, (jy < hy) & (jz < hz)


@triton.jit
def _load_windows(pairs, item, jx, jy, jz, inside, X, Y, Z, C: tl.constexpr):
    """Return the window around each cell in pairs of values, shape (cells, 32 · C), in the order x, y, z; 0 outside the volume.

    A window has four voxels along each axis and begins one before the cell; a strided convolution needs the first three. With
    two channels, a pair is one voxel. With one channel, it is two voxels along z, and a window begins two before the cell.
    """
    column = tl.arange(0, 32 * C)
    dx, dy, dz = column // (8 * C), column // (2 * C) % 4, column % (2 * C)
    x = 2 * jx - 1 + dx
    outside = (x < 0) | (x >= X) | (dx == 3) | (dy == 3) | (dz == 3)
    one = tl.full((32 * C,), 1, tl.int32)
    needed = tl.where(outside, 256, (one << dy) | (one << (dz + 4)))
    there = 255 - (jy == 0).to(tl.int32) - 8 * (jy == Y // 2 - 1).to(tl.int32) - 16 * (jz == 0).to(tl.int32)
    if C == 1:
        deep, first = Z // 2, jz - 1
    else:
        deep, first = Z, 2 * jz - 1
        there -= 128 * (jz == Z // 2 - 1).to(tl.int32)
    there = tl.where(inside, there, 0)
    offset = (2 * jy * deep + first)[:, None] + ((x * Y + dy - 1) * deep + dz)[None, :]
    mask = (there[:, None] & needed[None, :]) == needed[None, :]
    return tl.load(pairs + item * X * Y * deep + offset, mask=mask, other=0)


@triton.jit
def _point_to_halves(first, second, column, half: tl.constexpr):
    """Return where each column of the first row is if one volume holds the first half of all rows, another the second."""
    return tl.where(column < half, first + column, second + column - half)


@triton.jit(do_not_specialize=_NUMBERS)
def conv_windows_times_weights(
    pairs, weights, first, second, X, Y, Z, C: tl.constexpr, RESULTS: tl.constexpr, ACROSS: tl.constexpr, DEEP: tl.constexpr
):
    """Rows at half the resolution, one half to each volume. Programs: (items · half of X, tiles)."""
    wait_for_previous()
    item, jx, jy, jz, place, inside = _find_cells(tl.program_id(0), tl.program_id(1), X, Y, Z, ACROSS, DEEP)
    one, other = split_pairs(_load_windows(pairs, item, jx, jy, jz, inside, X, Y, Z, C), first)
    column = tl.arange(0, RESULTS)[None, :]
    matrix = weights + tl.arange(0, 32 * C)[:, None] * RESULTS + column
    result = tl.dot(one, tl.load(matrix), input_precision="ieee")
    result = tl.dot(other, tl.load(matrix + 32 * C * RESULTS), result, input_precision="ieee")
    half: tl.constexpr = RESULTS // 2
    start = (item * (X // 2) + jx) * (Y // 2 * (Z // 2)) * half
    rows = _point_to_halves(first + start, second + start, column, half)
    tl.store(rows + place[:, None] * half, result.to(first.dtype.element_ty), mask=inside[:, None] & (column >= 0))


@triton.jit(do_not_specialize=_NUMBERS)
def conv_neighbours_times_weights(
    first, second, weights, out, HX, HY, HZ, CHANNELS: tl.constexpr, C: tl.constexpr, ACROSS: tl.constexpr, DEEP: tl.constexpr
):
    """A transposed convolution: each cell is made of its own row, half from each volume, and of seven rows upwards."""
    wait_for_previous()
    found = _find_cells(tl.program_id(0), tl.program_id(1), 2 * HX, 2 * HY, 2 * HZ, ACROSS, DEEP)
    item, jx, jy, jz, _, inside = found
    half: tl.constexpr = CHANNELS // 2
    start = item * HX * HY * HZ * half
    channel = tl.arange(0, CHANNELS)
    rows = _point_to_halves(first + start, second + start, channel[None, :], half)
    column = tl.arange(0, 8 * C)
    result = tl.zeros((ACROSS * DEEP, 8 * C), tl.float32)
    for neighbour in tl.static_range(8):
        x = jx + neighbour // 4
        y = jy + neighbour // 2 % 2
        z = jz + neighbour % 2
        there = inside & (z < HZ) & (x < HX) & (y < HY)
        values = tl.load(
            rows + ((x * HY + y) * HZ + z)[:, None] * half, mask=there[:, None] & (channel >= 0)[None, :], other=0.0
        )
        matrix = tl.load(weights + (neighbour * CHANNELS + channel)[:, None] * (8 * C) + column[None, :])
        result = tl.dot(values, matrix, result, input_precision="ieee")
    voxel_x, voxel_y, voxel_z = column // C // 4, column // C // 2 % 2, column // C % 2
    within = ((voxel_x * 2 * HY + voxel_y) * 2 * HZ + voxel_z) * C + column % C
    offset = ((2 * (jx * 2 * HY + jy) * 2 * HZ + 2 * jz) * C)[:, None] + within[None, :]
    tl.store(
        out + item * HX * HY * HZ * 8 * C + offset,
        result.to(out.dtype.element_ty),
        mask=inside[:, None] & (column >= 0)[None, :],
    )


@triton.jit(do_not_specialize=_NUMBERS)
def conv_windows_times_results(
    pairs,
    first,
    second,
    partial,
    planes,
    X,
    Y,
    Z,
    C: tl.constexpr,
    RESULTS: tl.constexpr,
    ACROSS: tl.constexpr,
    DEEP: tl.constexpr,
):
    """Each program: its cells' windows times the gradients of their results, a half from each volume."""
    wait_for_previous()
    program = tl.program_id(0)
    hy, hz = Y // 2, Z // 2
    half: tl.constexpr = RESULTS // 2
    tiles = tl.cdiv(hy, ACROSS) * tl.cdiv(hz, DEEP)
    column = tl.arange(0, RESULTS)[None, :]
    one_total = tl.zeros((RESULTS, 32 * C), tl.float32)
    other_total = tl.zeros((RESULTS, 32 * C), tl.float32)
    for tile in range(program, planes * tiles, tl.num_programs(0)):
        plane = tile // tiles
        item, jx, jy, jz, place, inside = _find_cells(plane, tile % tiles, X, Y, Z, ACROSS, DEEP)
        one, other = split_pairs(_load_windows(pairs, item, jx, jy, jz, inside, X, Y, Z, C), first)
        start = tl.cast(plane, tl.int64) * (hy * hz) * half
        rows = _point_to_halves(first + start, second + start, column, half)
        gradient = tl.load(rows + place[:, None] * half, mask=inside[:, None] & (column >= 0), other=0.0)
        one_total = tl.dot(tl.trans(gradient), one, one_total, input_precision="ieee")
        other_total = tl.dot(tl.trans(gradient), other, other_total, input_precision="ieee")
    place = partial + program * 64 * C * RESULTS + tl.arange(0, RESULTS)[:, None] * (32 * C) + tl.arange(0, 32 * C)[None, :]
    tl.store(place, one_total)
    tl.store(place + 32 * C * RESULTS, other_total)


def place_in_windows(weights: Tensor) -> Tensor:
    """Return where weights of a strided convolution, given by their numbers, are in its matrix.

    Matrix: (one or other of a pair, window, outer); its gradient has the last two swapped.
    """
    outer, inner = weights.shape[:2]
    pairs = torch.cartesian_prod(torch.arange(2), torch.arange(4), torch.arange(4), torch.arange(2 * inner)).tolist()
    matrix = torch.full((len(pairs), outer), NONE)
    for row, (half, dx, dy, dz) in enumerate(pairs):
        channel, along_z = (half, dz) if inner > 1 else (0, 2 * dz + half - 1)
        if max(dx, dy, along_z) < 3 and along_z >= 0:
            matrix[row] = weights[:, channel, dx, dy, along_z]
    return matrix.view(2, -1, outer)


def place_in_gradient(weights: Tensor) -> Tensor:
    """Return where weights stand in the matrix that :func:`sum_weight_gradients` computes."""
    return place_in_windows(weights).transpose(1, 2)


def place_by_neighbour(weights: Tensor) -> Tensor:
    """Return where weights of a transposed convolution, given by their numbers, are in its matrix.

    Matrix: (neighbour, outer, voxel of the cell, inner).
    """
    outer, inner = weights.shape[:2]
    corner = torch.cartesian_prod(*[torch.arange(2)] * 3).tolist()
    taps = {(0, 0): 1, (1, 0): 2, (1, 1): 0}  # by the voxel's place in its cell, and the neighbour's
    matrix = torch.full((8, outer, 8, inner), NONE)
    for row, neighbour in enumerate(corner):
        for column, voxel in enumerate(corner):
            found = [taps.get(pair) for pair in zip(voxel, neighbour, strict=True)]
            if None not in found:
                x, y, z = cast(list[int], found)
                matrix[row, :, column] = weights[:, :, x, y, z]
    return matrix


def _count_tiles(y: int, z: int) -> int:
    """Return the tiles of cells in a plane of this size at full resolution."""
    return triton.cdiv(y // 2, _ACROSS) * triton.cdiv(z // 2, _DEEP)


def convolve(full: Tensor, windows: Tensor, outs: list[Tensor]) -> None:
    """Convolve, strided, into two volumes."""
    items, channels, x, y, z = full.shape
    conv_windows_times_weights[(items * (x // 2), _count_tiles(y, z))](
        as_pairs(full), windows, *outs, x, y, z, C=channels, RESULTS=2 * outs[0].shape[1], ACROSS=_ACROSS, DEEP=_DEEP, **LAUNCH,
    )  # fmt: skip


def transpose(halves: list[Tensor], neighbours: Tensor, out: Tensor) -> None:
    """Convolve two volumes, transposed, into one."""
    items, channels, x, y, z = halves[0].shape
    conv_neighbours_times_weights[(items * x, _count_tiles(2 * y, 2 * z))](
        *halves, neighbours, out, x, y, z, CHANNELS=2 * channels, C=out.shape[1], ACROSS=_ACROSS, DEEP=_DEEP, **LAUNCH,
    )  # fmt: skip


def sum_weight_gradients(full: Tensor, halves: list[Tensor]) -> Tensor:
    """Return what each program finds of the weights' gradient. One of `full` and `halves` is itself a gradient."""
    items, channels, x, y, z = full.shape
    results = 2 * halves[0].shape[1]
    planes = items * (x // 2)
    programs = min(planes * _count_tiles(y, z), _PROGRAMS)
    partial = full.new_empty((programs, 64 * channels * results), dtype=torch.float32)
    conv_windows_times_results[(programs,)](
        as_pairs(full), *halves, partial, planes, x, y, z, C=channels, RESULTS=results, ACROSS=_ACROSS, DEEP=_DEEP,
        num_stages=3 - channels,  # prefetching single values pays for one channel only, as measured
        **LAUNCH,
    )  # fmt: skip
    return partial
