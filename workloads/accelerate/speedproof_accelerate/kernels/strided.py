"""Strided and transposed convolutions between full resolution, of one or two channels, and half of it.

Full resolution is seen as cells of 2 × 2 × 2 voxels, so that a layer becomes a product of two matrices, as tensor cores take
it: the 4 × 4 × 4 voxels around each cell, times the layer's weights laid out for all results of a cell. Three kernels serve
all layers:

- windows × weights: the results of two strided convolutions, and the data gradient of a transposed one;
- neighbours × weights: the results of a transposed convolution;
- windowsᵀ × results: the weight gradients of either.

At half the resolution there are always two volumes, each with half of the channels: the results of a pair of convolutions, or
those that a skip connection would concatenate. All convolutions here are 3 × 3 × 3, their padding is 1, their stride 2. Of 16
channels each, as the documented network has, they go by the kernels of `runs.py`.
"""

from functools import cache
from typing import Any, cast

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function

from speedproof_accelerate.kernels import runs
from speedproof_accelerate.kernels.differentiating import differentiated_once, refuse_gradient_of_images
from speedproof_accelerate.kernels.launching import LAUNCH, follow
from speedproof_accelerate.kernels.layouts import NONE, Layout, as_dense, gather, number_weights, spread
from speedproof_accelerate.kernels.pairs import as_pairs, split_pairs
from speedproof_accelerate.kernels.rows import as_channels_last, empty_volume, require_cells

_ACROSS, _DEEP = 4, 16  # cells of a tile along y and z
# Numbers that differ from one volume to the next: kernels are not compiled again for each kind of them.
_NUMBERS = ["X", "Y", "Z", "HX", "HY", "HZ", "planes"]
_PROGRAMS = 396  # of a weight gradient: three on each multiprocessor of a large GPU


@triton.jit
def _find_cells(plane, tile, X, Y, Z, ACROSS: tl.constexpr, DEEP: tl.constexpr):
    """Return a tile's cells: the item and x, and of each y, z, their place in the plane, and whether there is one.

    A tile is ACROSS · DEEP cells of a plane (all of one item and x), so that no cell's place takes a division.
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

    A window has four voxels along each axis and begins one before the cell; a strided convolution needs the first three. Of two
    channels, a pair is those of a voxel. Of one, it is two voxels along z, where a window begins two before the cell.
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
    """Return where each column of the first row lies if one volume holds the first half of all rows, another the second."""
    return tl.where(column < half, first + column, second + column - half)


@triton.jit(do_not_specialize=_NUMBERS)
def conv_windows_times_weights(
    pairs, weights, first, second, X, Y, Z, C: tl.constexpr, RESULTS: tl.constexpr, ACROSS: tl.constexpr, DEEP: tl.constexpr
):
    """Rows of half the resolution, a half to each volume. Programs: (items · half of X, tiles)."""
    follow()
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
    """A transposed convolution: each cell is made of its own row, a half from each volume, and the seven next to it upwards."""
    follow()
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
    follow()
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


def _place_in_windows(weights: Tensor) -> Tensor:
    """Return where weights of a strided convolution, given by their numbers, stand in its matrix.

    Matrix: (one or other of a pair, window, outer); its gradient has the last two the other way round.
    """
    outer, inner = weights.shape[:2]
    pairs = torch.cartesian_prod(torch.arange(2), torch.arange(4), torch.arange(4), torch.arange(2 * inner)).tolist()
    matrix = torch.full((len(pairs), outer), NONE)
    for row, (half, dx, dy, dz) in enumerate(pairs):
        channel, along_z = (half, dz) if inner > 1 else (0, 2 * dz + half - 1)
        if max(dx, dy, along_z) < 3 and along_z >= 0:
            matrix[row] = weights[:, channel, dx, dy, along_z]
    return matrix.view(2, -1, outer)


def _place_by_neighbour(weights: Tensor) -> Tensor:
    """Return where weights of a transposed convolution, given by their numbers, stand in its matrix.

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


@cache
def _strided(outer: int, inner: int, last: bool, device: torch.device) -> Layout:
    """Return the layout of weights of shape (outer, inner, 3, 3, 3), channels last or not, of strided convolutions."""
    weights = number_weights(outer, inner, last=last)
    windows = _place_in_windows(weights)
    return Layout.of(windows, windows.transpose(1, 2), weights.numel(), device)


@cache
def _transposed(outer: int, inner: int, last: bool, device: torch.device) -> Layout:
    """Return the layout of such weights of a transposed convolution: the matrices of its results, and of its data gradient."""
    weights = number_weights(outer, inner, last=last)
    windows = _place_in_windows(weights)
    places = torch.stack([_place_by_neighbour(weights).flatten(), windows.flatten()])
    return Layout.of(places, windows.transpose(1, 2), weights.numel(), device)


def _count_tiles(y: int, z: int) -> int:
    """Return the tiles of cells in a plane of these sides at full resolution."""
    return triton.cdiv(y // 2, _ACROSS) * triton.cdiv(z // 2, _DEEP)


def _multiply_windows(full: Tensor, matrix: Tensor, outs: list[Tensor]) -> None:
    """Convolve, strided, into two volumes.

    Raises:
        ValueError: a side is odd, so that the volume does not divide into cells.
    """
    require_cells(full)
    items, channels, x, y, z = full.shape
    conv_windows_times_weights[(items * (x // 2), _count_tiles(y, z))](
        as_pairs(full),
        matrix,
        *outs,
        x,
        y,
        z,
        C=channels,
        RESULTS=2 * outs[0].shape[1],
        ACROSS=_ACROSS,
        DEEP=_DEEP,
        **LAUNCH,
    )


def _multiply_results(full: Tensor, gradients: list[Tensor], weights: list[Tensor], layout: Layout) -> list[Tensor]:
    """Return the gradients of the weights of strided convolutions."""
    items, channels, x, y, z = full.shape
    results = 2 * gradients[0].shape[1]
    planes = items * (x // 2)
    programs = min(planes * _count_tiles(y, z), _PROGRAMS)
    partial = full.new_empty((programs, 64 * channels * results), dtype=torch.float32)
    conv_windows_times_results[(programs,)](
        as_pairs(full), *gradients, partial, planes, x, y, z, C=channels, RESULTS=results, ACROSS=_ACROSS, DEEP=_DEEP,
        num_stages=3 - channels,  # loads of single values ahead of their use pay for one channel only, as measured
        **LAUNCH,
    )  # fmt: skip
    return gather(partial, layout, weights)


class _StridedPair(Function):
    """Two strided convolutions of the same images, which need no gradient."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        refuse_gradient_of_images(ctx)
        images = as_channels_last(images)
        items, channels, x, y, z = images.shape
        weights, last = as_dense(first, second)
        ctx.layout = _strided(2 * first.shape[0], channels, last, images.device)
        outs = [empty_volume(items, first.shape[0], (x // 2, y // 2, z // 2), images) for _ in range(2)]
        _multiply_windows(images, spread(weights, ctx.layout, images.dtype), outs)
        ctx.save_for_backward(images, *weights)
        return outs[0], outs[1]

    @staticmethod
    @differentiated_once
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        images, *weights = ctx.saved_tensors
        return None, *_multiply_results(images, [as_channels_last(one) for one in gradients], weights, ctx.layout)


class _TransposedConvolution(Function):
    """A transposed convolution of two volumes' channels, one volume's behind the other's."""

    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor, weight: Tensor) -> Tensor:
        first, second = as_channels_last(first), as_channels_last(second)
        items, channels, *half = first.shape
        outer, inner = weight.shape[:2]
        (weight,), last = as_dense(weight)
        ctx.layout = _transposed(outer, inner, last, first.device)
        neighbours, windows = spread([weight], ctx.layout, first.dtype)
        out = empty_volume(items, inner, (2 * half[0], 2 * half[1], 2 * half[2]), first)
        conv_neighbours_times_weights[(items * half[0], _count_tiles(2 * half[1], 2 * half[2]))](
            first, second, neighbours, out, *half, CHANNELS=2 * channels, C=inner, ACROSS=_ACROSS, DEEP=_DEEP, **LAUNCH,
        )  # fmt: skip
        ctx.save_for_backward(first, second, weight, windows)
        return out

    @staticmethod
    @differentiated_once
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        *volumes, weight, windows = ctx.saved_tensors
        gradient = as_channels_last(gradients[0])
        below = [torch.empty_like(one) for one in volumes]
        # Seen from its results, a transposed convolution is a strided one.
        _multiply_windows(gradient, windows, below)
        return *below, *_multiply_results(gradient, volumes, [weight], ctx.layout)


def convolve_strided_pair(images: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Return two convolutions, stride 2, without biases, of images of shape (items, 1 or 2, x, y, z) that need no gradient.

    Weights: shape (channels, 1 or 2, 3, 3, 3) each; channels a power of two from 8.

    Raises:
        ValueError: a side is odd, the images require a gradient, or the weights are not of their channels, or not alike.
    """
    if first.shape != second.shape or first.shape[1] != images.shape[1] or images.shape[1] > 2:
        shapes = " and ".join(str(tuple(one.shape)) for one in (first, second))
        raise ValueError(f"images of {images.shape[1]} channels do not go with weights of shapes {shapes}")
    if first.shape[0] == runs.CHANNELS:
        return runs.convolve_strided_pair(images, first, second)
    return cast(tuple[Tensor, Tensor], _StridedPair.apply(images, first, second))


def convolve_transposed(first: Tensor, second: Tensor, weight: Tensor) -> Tensor:
    """Return a transposed convolution, stride 2, without a bias, of two volumes' channels to one or two.

    Both volumes are of one shape; channels a power of two from 8. Weights: shape (both volumes' channels, 1 or 2, 3, 3, 3), as
    ConvTranspose3d has them.

    Raises:
        ValueError: the volumes' shapes differ, or the weights are not of their channels.
    """
    if first.shape != second.shape or weight.shape[0] != 2 * first.shape[1] or weight.shape[1] > 2:
        shapes = " and ".join(str(tuple(one.shape)) for one in (first, second))
        raise ValueError(f"volumes of shapes {shapes} do not go with each other and weights of shape {tuple(weight.shape)}")
    if (first.shape[1], weight.shape[1]) == (runs.CHANNELS, 2):
        return runs.convolve_transposed(first, second, weight)
    return cast(Tensor, _TransposedConvolution.apply(first, second, weight))
