"""Strided convolutions of 16 channels to two volumes of 32, and their transposes.

A cell is a voxel of half the resolution: four rows of 32 values at full resolution, each two voxels along z. All passes are
products of dense matrices:

- windows × weights: a strided convolution's results, and the data gradient of a transposed one. Of each of the nine rows around
  it, a cell reads the 32 values beside it and the 16 before;
- neighbours × weights: a transposed convolution's results, and the data gradient of a strided one. A cell is made of its own 64
  values, 32 of each volume, and of those of the seven cells next to it upwards;
- windowsᵀ × results: the weight gradients of both.

The first two load all weights into shared memory once per program, which then loops over its tiles of cells. Volumes go from
memory to tensor cores in the order in which threads load them (`mma_fragments.py`).
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from speedproof_accelerate.kernels.channels_last import count_cells
from speedproof_accelerate.kernels.launch import LAUNCH, wait_for_previous
from speedproof_accelerate.kernels.mma_fragments import from_fragments, reorder_matrices, to_fragments
from speedproof_accelerate.kernels.weight_matrices import NONE

_FULL, _HALF = 16, 32  # channels
_PROGRAMS = 132  # of a weight gradient: one on each multiprocessor of a large GPU
# Of a convolution: cells of a tile, warps, programs on a multiprocessor, and registers of a thread, so that these fit.
_CELLS, _WARPS, _BESIDE, _REGISTERS = 64, 4, 3, 168
_SUMMED_CELLS, _SUMMED_STAGES, _SUMMED_WARPS, _SUMMED_REGISTERS = 32, 5, 8, 255  # of a weight gradient
_NEIGHBOURS = (3, 3, 2, 2, _HALF, 32)  # the shape of the matrices of weights by neighbours
_NUMBERS = ["planes", "X", "Y"]  # they differ between volumes: Triton must not compile a kernel again for each


@triton.jit(do_not_specialize=_NUMBERS)
def conv_halve(full, weights, first, second, planes, X, Y, row, BLOCK: tl.constexpr, WARPS: tl.constexpr):
    """Strided: each cell's windows times the weights. `planes`: items · half of X. `row`: values along z of full resolution.

    For each x, five loads of 32 values per cell: the values beside it in three rows, then the 16 before it in the first two
    rows, and in the third.
    """
    wait_for_previous()
    column = tl.arange(0, 32)[None, :]
    square = tl.arange(0, 32)[:, None] * 64 + tl.arange(0, 64)[None, :]
    matrices = ()
    KEPT: tl.constexpr = weights.dtype.element_ty.primitive_bitwidth == 16  # those of single precision would not fit
    if KEPT:
        for part in tl.static_range(15):
            matrices += (tl.load(weights + part * 2048 + square),)  # type: ignore[assignment]
    hy, hz = Y // 2, row // 32
    tiles = tl.cdiv(hy * hz, BLOCK)
    for tile in tl.range(tl.program_id(0), planes * tiles, tl.num_programs(0), num_stages=1, disable_licm=True):
        plane = tile // tiles
        place = tile % tiles * BLOCK + tl.arange(0, BLOCK)
        y, z = place // hz, place % hz
        there, low = y < hy, y > 0
        start = full + plane.to(tl.int64) * 2 * Y * row
        offset = (y * 2 * row + z * 32)[:, None]
        total = tl.zeros((BLOCK, 64), tl.float32)
        for dx in tl.static_range(3):
            inside = there & ((dx > 0) | (plane % (X // 2) > 0))
            values = ()
            for part in tl.static_range(5):
                if part < 3:
                    dy, along = tl.full((1, 32), part, tl.int32), column
                    mask = inside[:, None] & (low[:, None] | (dy > 0))
                else:
                    dy, along = 2 * (part - 3) + column // 16, column % 16 - 16
                    mask = (inside & (z > 0))[:, None] & (low[:, None] | (dy > 0)) & (dy < 3)
                found = tl.load(start + (dx - 1) * Y * row + (offset + ((dy - 1) * row + along)), mask=mask, other=0.0)
                values += (to_fragments(found, WARPS),)  # type: ignore[assignment]
            for part in tl.static_range(5):
                matrix = matrices[dx * 5 + part] if KEPT else tl.load(weights + (dx * 5 + part) * 2048 + square)
                total = tl.dot(values[part], matrix, total, input_precision="ieee")
        one, other = tl.split(tl.permute(tl.reshape(total, (BLOCK, 2, 32)), (0, 2, 1)))
        out = plane.to(tl.int64) * hy * hz * 32 + (place[:, None] * 32 + column)
        mask = there[:, None] & (column >= 0)
        tl.store(first + out, from_fragments(one, WARPS).to(first.dtype.element_ty), mask=mask)
        tl.store(second + out, from_fragments(other, WARPS).to(first.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=_NUMBERS)
def conv_double(first, second, weights, full, planes, X, Y, row, BLOCK: tl.constexpr, WARPS: tl.constexpr):
    """Transposed: each cell's and its upper neighbours' values times the weights. Numbers: see conv_halve.

    Each of a cell's four rows, lower and upper along x and y, has an accumulator. A neighbour counts for the rows next to it.
    """
    wait_for_previous()
    column = tl.arange(0, 32)[None, :]
    square = tl.arange(0, 64)[:, None] * 32 + column
    matrices = ()
    KEPT: tl.constexpr = weights.dtype.element_ty.primitive_bitwidth == 16  # see above
    if KEPT:
        for part in tl.static_range(18):
            matrices += (tl.load(weights + part * 2048 + square),)  # type: ignore[assignment]
    hy, hz = Y // 2, row // 32
    tiles = tl.cdiv(hy * hz, BLOCK)
    zero = tl.zeros((BLOCK, 32), tl.float32)
    for tile in tl.range(tl.program_id(0), planes * tiles, tl.num_programs(0), num_stages=1, disable_licm=True):
        plane = tile // tiles
        place = tile % tiles * BLOCK + tl.arange(0, BLOCK)
        y, z = place // hz, place % hz
        there, own = y < hy, place[:, None] * 32 + column
        start = plane.to(tl.int64) * hy * hz * 32
        totals = (zero, zero, zero, zero)
        for nx in tl.static_range(2):
            inside = there & ((nx == 0) | (plane % (X // 2) < X // 2 - 1))
            for ny in tl.static_range(2):
                values = ()
                for nz in tl.static_range(2):
                    mask = (inside & (y < hy - ny) & (z < hz - nz))[:, None] & (column >= 0)
                    ahead = start + ((nx * hy + ny) * hz + nz) * 32
                    one = to_fragments(tl.load(first + ahead + own, mask=mask, other=0.0), WARPS)
                    other = to_fragments(tl.load(second + ahead + own, mask=mask, other=0.0), WARPS)
                    both = tl.permute(tl.join(one, other), (0, 2, 1))
                    values += (tl.reshape(both, (BLOCK, 64)),)  # type: ignore[assignment]
                summed = ()
                for side in tl.static_range(4):  # of the cell, along x and y
                    total = totals[side]
                    if side // 2 >= nx and side % 2 >= ny:
                        for nz in tl.static_range(2):
                            matrix = (
                                matrices[((side // 2 + nx) * 3 + side % 2 + ny) * 2 + nz]
                                if KEPT
                                else tl.load(weights + (((side // 2 + nx) * 3 + side % 2 + ny) * 2 + nz) * 2048 + square)
                            )
                            total = tl.dot(values[nz], matrix, total, input_precision="ieee")
                    summed += (total,)  # type: ignore[assignment]
                totals = summed  # type: ignore[assignment]
        out = full + plane.to(tl.int64) * 2 * Y * row + ((y * 2 * row + z * 32)[:, None] + column)
        mask = there[:, None] & (column >= 0)
        for side in tl.static_range(4):
            total = from_fragments(totals[side], WARPS).to(full.dtype.element_ty)
            tl.store(out + (side // 2 * Y + side % 2) * row, total, mask=mask)


@triton.jit(do_not_specialize=_NUMBERS)
def conv_halve_weights(full, first, second, partial, planes, X, Y, row, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """Each program: sums, over its tiles of cells, of windowsᵀ times gradients of their results. Numbers: see conv_halve.

    Of a cell's two planes at full resolution, the lower one is in the middle of its own results' windows. The upper one is the
    last of these windows, and the first of those of the next cell along x.
    """
    wait_for_previous()
    hy, hz = Y // 2, row // 32
    tiles = tl.cdiv(hy * hz, BLOCK)
    column = tl.arange(0, 64)[None, :]
    zero = tl.zeros((64, 64), tl.float32)
    a0, a1, a2, b0, b1, b2, c0, c1, c2 = zero, zero, zero, zero, zero, zero, zero, zero, zero
    for tile in tl.range(tl.program_id(0), planes * tiles, tl.num_programs(0), num_stages=STAGES):
        plane = tile // tiles
        place = tile % tiles * BLOCK + tl.arange(0, BLOCK)
        y, z = place // hz, place % hz
        there = (y < hy)[:, None] & (column >= 0)
        start = plane.to(tl.int64) * hy * hz * 32
        own = tl.where(column < 32, first + start + column, second + start + (column - 32)) + (place * 32)[:, None]
        g1 = tl.load(own, mask=there, other=0.0)
        g0 = tl.load(own + hy * hz * 32, mask=there & (plane % (X // 2) < X // 2 - 1), other=0.0)
        lower = full + plane.to(tl.int64) * 2 * Y * row + ((y * 2 * row + z * 32)[:, None] + (column - 16))
        # A window's last 16 values count for no result: they are not loaded.
        within = there & (column < 48) & ((z > 0)[:, None] | (column >= 16))
        for dy in tl.static_range(3):
            inside = within & ((y > 0)[:, None] | (dy > 0))
            near = tl.trans(tl.load(lower + (dy - 1) * row, mask=inside, other=0.0))
            far = tl.trans(tl.load(lower + (dy - 1) * row + Y * row, mask=inside, other=0.0))
            if dy == 0:
                a0 = tl.dot(far, g0, a0, input_precision="ieee")
                a1 = tl.dot(near, g1, a1, input_precision="ieee")
                a2 = tl.dot(far, g1, a2, input_precision="ieee")
            elif dy == 1:
                b0 = tl.dot(far, g0, b0, input_precision="ieee")
                b1 = tl.dot(near, g1, b1, input_precision="ieee")
                b2 = tl.dot(far, g1, b2, input_precision="ieee")
            else:
                c0 = tl.dot(far, g0, c0, input_precision="ieee")
                c1 = tl.dot(near, g1, c1, input_precision="ieee")
                c2 = tl.dot(far, g1, c2, input_precision="ieee")
    # (program, dx, dy, window, result)
    window = tl.arange(0, 64)[:, None]
    place = partial + tl.program_id(0) * (9 * 3072) + window * 64 + column
    kept = (window < 48) & (column >= 0)
    tl.store(place, a0, mask=kept)
    tl.store(place + 3072, b0, mask=kept)
    tl.store(place + 2 * 3072, c0, mask=kept)
    tl.store(place + 3 * 3072, a1, mask=kept)
    tl.store(place + 4 * 3072, b1, mask=kept)
    tl.store(place + 5 * 3072, c1, mask=kept)
    tl.store(place + 6 * 3072, a2, mask=kept)
    tl.store(place + 7 * 3072, b2, mask=kept)
    tl.store(place + 8 * 3072, c2, mask=kept)


def place_in_gradient(weights: Tensor) -> Tensor:
    """Return where weights, given by their numbers, are in the matrices of shape (dx, dy, window, result)."""
    return weights.permute(2, 3, 4, 1, 0).reshape(3, 3, 3 * _FULL, 2 * _HALF)


def place_in_windows(weights: Tensor) -> Tensor:
    """Return where they stand in the matrices of windows, in the order in which a convolution loads them."""
    plain = place_in_gradient(weights)
    before, beside = plain[:, :, :_FULL], plain[:, :, _FULL:]
    before = torch.cat([before, torch.full_like(before[:, :1], NONE)], dim=1).reshape(3, 2, 32, 2 * _HALF)
    return reorder_matrices(torch.cat([beside, before], dim=1))


def place_by_neighbour(weights: Tensor) -> Tensor:
    """Return the places of weights, given by their numbers, in the matrices of a transposed convolution.

    Shape (half and neighbour along x, along y, neighbour along z, volume, channel, result): the half of a cell plus that of the
    neighbour; both count from 0 up.
    """
    tap_of = {(0, 0): 1, (1, 0): 2, (1, 1): 0}  # by the half of the cell and the neighbour's
    places = torch.full((3, 3, 2, 2, _HALF, 2, _FULL), NONE)
    for (side_x, near_x), dx in tap_of.items():
        for (side_y, near_y), dy in tap_of.items():
            for (voxel, near_z), dz in tap_of.items():
                found = weights[:, :, dx, dy, dz].reshape(2, _HALF, _FULL)
                places[side_x + near_x, side_y + near_y, near_z, :, :, voxel] = found
    return reorder_matrices(places.view(_NEIGHBOURS))


def convolve(full: Tensor, windows: Tensor, outs: list[Tensor]) -> None:
    """Convolve, strided, into two volumes."""
    tiles, numbers = count_cells(full, _CELLS)
    conv_halve[(min(tiles, _BESIDE * _PROGRAMS),)](full, windows, *outs, *numbers, **_shape_programs())


def transpose(halves: list[Tensor], neighbours: Tensor, out: Tensor) -> None:
    """Convolve two volumes, transposed, into one."""
    tiles, numbers = count_cells(out, _CELLS)
    conv_double[(min(tiles, _BESIDE * _PROGRAMS),)](*halves, neighbours, out, *numbers, **_shape_programs())


def _shape_programs() -> dict[str, Any]:
    return {"BLOCK": _CELLS, "WARPS": _WARPS, "num_warps": _WARPS, "num_stages": 1, "maxnreg": _REGISTERS, **LAUNCH}


def sum_weight_gradients(full: Tensor, halves: list[Tensor]) -> Tensor:
    """Return what each program finds of the weights' gradient. One of `full` and `halves` is itself a gradient."""
    tiles, numbers = count_cells(full, _SUMMED_CELLS)
    programs = min(tiles, _PROGRAMS)
    partial = full.new_empty((programs, 9 * 3 * _FULL * 2 * _HALF), dtype=torch.float32)
    stages = _SUMMED_STAGES if full.element_size() == 2 else 1  # tiles of single precision take twice the shared memory
    conv_halve_weights[(programs,)](
        full, *halves, partial, *numbers, BLOCK=_SUMMED_CELLS, STAGES=stages,
        num_warps=_SUMMED_WARPS, maxnreg=_SUMMED_REGISTERS, **LAUNCH,
    )  # fmt: skip
    return partial
