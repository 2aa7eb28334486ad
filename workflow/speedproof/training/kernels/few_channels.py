"""Convolutions of one or two channels at full resolution, which tensor cores do well once eight voxels make a cell.

Full resolution is seen as cells of 2 × 2 × 2 voxels, so that a layer becomes a product of two small matrices: the 4 × 4 × 4
voxels around a cell, times the layer's weights laid out for all results of the cell. Three kernels serve all layers:

- windows × weights: a strided convolution's results, those of an unstrided one, and the data gradient of either kind;
- neighbours × weights: a transposed convolution's results;
- windowsᵀ × results: any of their weight gradients.

All convolutions here are 3 × 3 × 3 with a padding of 1; a strided or transposed one has a stride of 2.
"""

from functools import cache
from typing import Any, cast

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional

from speedproof.training.kernels.rows import as_channels_last

_CELLS = 64  # of a tile
# Numbers that differ from one volume to the next: kernels are not compiled again for each kind of them.
_NUMBERS = ["X", "Y", "Z", "HX", "HY", "HZ", "planes"]
_PROGRAMS = 1056  # of a weight gradient: eight on each multiprocessor of a large GPU


@triton.jit
def _find_cells(X, Y, Z, BLOCK: tl.constexpr):
    """Return a program's cells: the item and x, and of each y, z and whether there is one. Programs: (items · x, tiles)."""
    plane = tl.program_id(0)
    hx, hy, hz = X // 2, Y // 2, Z // 2
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    return (plane // hx).to(tl.int64), plane % hx, place // hz, place % hz, place < hy * hz


@triton.jit
def _load_windows(pairs, item, jx, jy, jz, inside, X, Y, Z, C: tl.constexpr, STRIDED: tl.constexpr):
    """Return what is around each cell, shape (cells, 32 · C), in pairs of values; 0 outside the volume.

    Pairs are the two channels of a voxel, four along each axis from the one before the cell; or, of one channel, two voxels
    along z, two pairs from the two before the cell. Order: x, y, z.
    STRIDED: only the first three along x and y (and z) are needed.
    """
    column = tl.arange(0, 32 * C)
    dx, dy, dz = column // (8 * C), column // (2 * C) % 4, column % (2 * C)
    x = 2 * jx - 1 + dx
    outside = (x < 0) | (x >= X)
    if STRIDED:
        outside = outside | (dx == 3) | (dy == 3) | (dz == 3)
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
def _split_pairs(pairs, like):
    """Return the two values of each pair, which are of the type that `like` points to."""
    kind: tl.constexpr = like.dtype.element_ty
    if kind.primitive_bitwidth == 16:
        return pairs.to(tl.int16).to(kind, bitcast=True), (pairs >> 16).to(tl.int16).to(kind, bitcast=True)
    else:  # noqa: RET505 (what follows a constant branch would be compiled, too)
        return pairs.to(tl.int32).to(kind, bitcast=True), (pairs >> 32).to(tl.int32).to(kind, bitcast=True)


@triton.jit
def _place_cells(jx, jy, jz, Y, Z, C: tl.constexpr):
    """Return where the 8 · C values of cells lie in their item, shape (cells, 8 · C), in the order x, y, z, channel."""
    column = tl.arange(0, 8 * C)
    x, y, z = column // C // 4, column // C // 2 % 2, column // C % 2
    within = ((x * Y + y) * Z + z) * C + column % C
    return ((2 * (jx * Y + jy) * Z + 2 * jz) * C)[:, None] + within[None, :]


@triton.jit
def _point_to_halves(first, second, column, half: tl.constexpr):
    """Return where a row's columns begin if one volume holds the first half of each row, and another the second."""
    return tl.where(column < half, first + column, second + column - half)


@triton.jit(do_not_specialize=_NUMBERS)
def conv_windows_times_weights(
    pairs,
    full,
    weights,
    bias,
    out,
    second,
    X,
    Y,
    Z,
    C: tl.constexpr,
    RESULTS: tl.constexpr,
    CELLS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """CELLS: results are the cell's own voxels, which are added to them; else rows of half the resolution, in two halves."""
    item, jx, jy, jz, inside = _find_cells(X, Y, Z, BLOCK)
    first, other = _split_pairs(_load_windows(pairs, item, jx, jy, jz, inside, X, Y, Z, C, not CELLS), out)
    column = tl.arange(0, RESULTS)[None, :]
    place = weights + tl.arange(0, 32 * C)[:, None] * RESULTS + column
    result = tl.dot(first, tl.load(place), input_precision="ieee")
    result = tl.dot(other, tl.load(place + 32 * C * RESULTS), result, input_precision="ieee")
    mask = inside[:, None] & (column >= 0)
    if CELLS:
        start = item * X * Y * Z * (RESULTS // 8)
        offset = _place_cells(jx, jy, jz, Y, Z, RESULTS // 8)
        result += tl.load(bias + column) + tl.load(full + start + offset, mask=mask, other=0.0).to(tl.float32)
        tl.store(out + start + offset, result.to(out.dtype.element_ty), mask=mask)
    else:
        half: tl.constexpr = RESULTS // 2
        start = (item * (X // 2) + jx) * (Y // 2 * (Z // 2)) * half
        rows = _point_to_halves(out + start, second + start, column, half)
        offset = (jy * (Z // 2) + jz)[:, None] * half
        tl.store(rows + offset, result.to(out.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=_NUMBERS)
def conv_neighbours_times_weights(
    first, second, weights, out, HX, HY, HZ, CHANNELS: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr
):
    """A transposed convolution: each cell is made of its own row, a half from each volume, and the seven next to it upwards."""
    item, jx, jy, jz, inside = _find_cells(2 * HX, 2 * HY, 2 * HZ, BLOCK)
    half: tl.constexpr = CHANNELS // 2
    start = item * HX * HY * HZ * half
    channel = tl.arange(0, CHANNELS)
    rows = _point_to_halves(first + start, second + start, channel[None, :], half)
    column = tl.arange(0, 8 * C)
    result = tl.zeros((BLOCK, 8 * C), tl.float32)
    for neighbour in tl.static_range(8):
        x = jx + neighbour // 4
        y = jy + neighbour // 2 % 2
        z = jz + neighbour % 2
        there = inside & (z < HZ) & (x < HX) & (y < HY)
        row = (x * HY + y) * HZ + z
        values = tl.load(rows + row[:, None] * half, mask=there[:, None], other=0.0)
        matrix = tl.load(weights + (neighbour * CHANNELS + channel)[:, None] * (8 * C) + column[None, :])
        result = tl.dot(values, matrix, result, input_precision="ieee")
    offset = _place_cells(jx, jy, jz, 2 * HY, 2 * HZ, C)
    tl.store(out + item * HX * HY * HZ * 8 * C + offset, result.to(out.dtype.element_ty), mask=inside[:, None])


@triton.jit(do_not_specialize=_NUMBERS)
def conv_windows_times_results(
    pairs,
    results,
    second,
    partial,
    bias_partial,
    planes,
    X,
    Y,
    Z,
    C: tl.constexpr,
    RESULTS: tl.constexpr,
    CELLS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Each program: its cells' windows times the gradients of their results; and the sums of these."""
    program = tl.program_id(0)
    hx, hy, hz = X // 2, Y // 2, Z // 2
    tiles = tl.cdiv(hy * hz, BLOCK)
    column = tl.arange(0, RESULTS)[None, :]
    first_total = tl.zeros((RESULTS, 32 * C), tl.float32)
    other_total = tl.zeros((RESULTS, 32 * C), tl.float32)
    sums = tl.zeros((RESULTS,), tl.float32)
    for tile in range(program, planes * tiles, tl.num_programs(0)):
        plane = tile // tiles
        place = tile % tiles * BLOCK + tl.arange(0, BLOCK)
        item, jx, jy, jz, inside = tl.cast(plane // hx, tl.int64), plane % hx, place // hz, place % hz, place < hy * hz
        first, other = _split_pairs(_load_windows(pairs, item, jx, jy, jz, inside, X, Y, Z, C, not CELLS), results)
        mask = inside[:, None] & (column >= 0)
        if CELLS:
            offset = _place_cells(jx, jy, jz, Y, Z, RESULTS // 8)
            gradient = tl.load(results + item * X * Y * Z * (RESULTS // 8) + offset, mask=mask, other=0.0)
            sums += tl.sum(gradient.to(tl.float32), axis=0)
        else:
            half: tl.constexpr = RESULTS // 2
            start = tl.cast(plane, tl.int64) * (hy * hz) * half
            rows = _point_to_halves(results + start, second + start, column, half)
            gradient = tl.load(rows + place[:, None] * half, mask=mask, other=0.0)
        first_total = tl.dot(tl.trans(gradient), first, first_total, input_precision="ieee")
        other_total = tl.dot(tl.trans(gradient), other, other_total, input_precision="ieee")
    place = partial + program * 64 * C * RESULTS + tl.arange(0, RESULTS)[:, None] * (32 * C) + tl.arange(0, 32 * C)[None, :]
    tl.store(place, first_total)
    tl.store(place + 32 * C * RESULTS, other_total)
    tl.store(bias_partial + program * RESULTS + tl.arange(0, RESULTS), sums)


@cache
def _layout(kind: str, outer: int, inner: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return where each element of the large matrix comes from, and which of its elements make each weight's gradient.

    The first holds places in the flattened weights, of shape (outer, inner, 3, 3, 3), or their number for a 0. The second,
    of shape (weights, sums), holds places in the flattened large matrix. That matrix has a row for each element of a window
    (or of the neighbours) and a column for each result.
    """
    weights = outer * inner * 27
    place = torch.arange(weights).view(outer, inner, 3, 3, 3)
    corner = torch.cartesian_prod(*[torch.arange(2)] * 3).tolist()
    if kind == "transposed":  # (neighbour, outer) × (voxel of the cell, inner)
        taps = {(0, 0): 1, (1, 0): 2, (1, 1): 0}  # by the voxel's place in its cell, and the neighbour's
        table = torch.full((8, outer, 8, inner), weights)
        for row, neighbour in enumerate(corner):
            for column, voxel in enumerate(corner):
                found = [taps.get(pair) for pair in zip(voxel, neighbour, strict=True)]
                if None not in found:
                    x, y, z = cast(list[int], found)
                    table[row, :, column] = place[:, :, x, y, z]
    else:
        # (first or other of a pair, window) × (voxel of the cell, outer); a strided convolution has one result a cell.
        voxels = corner if kind == "plain" else [[0, 0, 0]]
        pairs = torch.cartesian_prod(torch.arange(2), torch.arange(4), torch.arange(4), torch.arange(2 * inner)).tolist()
        table = torch.full((len(pairs), len(voxels), outer), weights)
        for row, (half, dx, dy, dz) in enumerate(pairs):
            channel, along_z = (half, dz) if inner > 1 else (0, 2 * dz + half - 1)
            for column, voxel in enumerate(voxels):
                tap = [at - own for at, own in zip((dx, dy, along_z), voxel, strict=True)]
                if min(tap) >= 0 and max(tap) < 3:
                    table[row, column] = place[:, channel, tap[0], tap[1], tap[2]]
    flat = table.flatten()
    order = flat.argsort(stable=True)[: int((flat < weights).sum())]
    return table.to(device), order.view(weights, -1).to(device)


def _spread(kind: str, weight: Tensor) -> Tensor:
    """Return the large matrix of a layer's weights, of shape (outer, inner, 3, 3, 3)."""
    table, _ = _layout(kind, weight.shape[0], weight.shape[1], weight.device)
    return functional.pad(weight.flatten(), (0, 1))[table]


def _gather(kind: str, matrix: Tensor, shape: torch.Size) -> Tensor:
    """Return the gradient of weights of this shape from that of their large matrix."""
    _, order = _layout(kind, shape[0], shape[1], matrix.device)
    return matrix.flatten()[order].sum(dim=1).view(shape)


def _pairs(full: Tensor) -> Tensor:
    """Return a dense channels-last tensor of one or two channels as integers of two values each."""
    return full.permute(0, 2, 3, 4, 1).reshape(-1, 2).view(torch.int32 if full.element_size() == 2 else torch.int64)


def _multiply_windows(full: Tensor, weight: Tensor, outs: list[Tensor], bias: Tensor | None = None) -> None:
    """Convolve, strided, into two tensors; with a bias unstrided into one, and the voxels themselves added.

    Raises:
        ValueError: a side is odd, so that the volume does not divide into cells.
    """
    items, channels, x, y, z = full.shape
    if x % 2 or y % 2 or z % 2:
        raise ValueError(f"a volume of {x} × {y} × {z} voxels does not divide into cells of 2 × 2 × 2: its sides must be even")
    matrix = _spread("strided" if bias is None else "plain", weight)
    results = matrix.numel() // (64 * channels)
    conv_windows_times_weights[(items * (x // 2), triton.cdiv(y // 2 * (z // 2), _CELLS))](
        _pairs(full), full, matrix.to(full.dtype), full if bias is None else bias, outs[0], outs[-1], x, y, z, C=channels,
        RESULTS=results, CELLS=bias is not None, BLOCK=_CELLS,
    )  # fmt: skip


def _multiply_results(full: Tensor, gradients: list[Tensor], results: int, *, cells: bool) -> tuple[Tensor, Tensor]:
    """Return the gradient of the large matrix, and each program's sums of its results' gradients (of cells only); both fp32."""
    items, channels, x, y, z = full.shape
    planes = items * (x // 2)
    programs = min(planes * triton.cdiv(y // 2 * (z // 2), _CELLS), _PROGRAMS)
    partial = full.new_empty((programs, 2, results, 32 * channels), dtype=torch.float32)
    sums = full.new_empty((programs, results), dtype=torch.float32)
    conv_windows_times_results[(programs,)](
        _pairs(full), gradients[0], gradients[-1], partial, sums, planes, x, y, z, C=channels, RESULTS=results, CELLS=cells,
        BLOCK=_CELLS,
    )  # fmt: skip
    return partial.sum(dim=0).transpose(1, 2), sums


def _empty(items: int, channels: int, shape: tuple[int, int, int], like: Tensor) -> Tensor:
    return torch.empty((items, channels, *shape), dtype=like.dtype, device=like.device, memory_format=torch.channels_last_3d)


class _StridedPair(Function):
    """Two strided convolutions of the same images, which need no gradient."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        if ctx.needs_input_grad[0]:
            raise ValueError("two strided convolutions in one give no gradient of their images: these must not require one")
        images = as_channels_last(images)
        items, _, x, y, z = images.shape
        outs = [_empty(items, first.shape[0], (x // 2, y // 2, z // 2), images) for _ in range(2)]
        _multiply_windows(images, torch.cat([first, second]), outs)
        ctx.save_for_backward(images)
        ctx.shape = first.shape
        return outs[0], outs[1]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (images,) = ctx.saved_tensors
        outer, inner = ctx.shape[:2]
        matrix, _ = _multiply_results(images, [as_channels_last(one) for one in gradients], 2 * outer, cells=False)
        both = _gather("strided", matrix, torch.Size((2 * outer, inner, 3, 3, 3)))
        return None, both[:outer], both[outer:]


class _ResidualConvolution(Function):
    """x plus an unstrided convolution of x, with its bias."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        x = as_channels_last(x)
        out = torch.empty_like(x)
        _multiply_windows(x, weight, [out], bias.repeat(8))
        ctx.save_for_backward(x, weight)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        gradient = as_channels_last(gradients[0])
        below = torch.empty_like(x)
        mirrored = weight.transpose(0, 1).flip(2, 3, 4)
        _multiply_windows(gradient, mirrored, [below], weight.new_zeros(8 * weight.shape[1]))
        matrix, sums = _multiply_results(x, [gradient], 8 * weight.shape[0], cells=True)
        return below, _gather("plain", matrix, weight.shape), sums.view(-1, weight.shape[0]).sum(dim=0)


class _TransposedConvolution(Function):
    """A transposed convolution of two volumes' channels, one volume's behind the other's."""

    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor, weight: Tensor) -> Tensor:
        first, second = as_channels_last(first), as_channels_last(second)
        items, channels, *half = first.shape
        out = _empty(items, weight.shape[1], (2 * half[0], 2 * half[1], 2 * half[2]), first)
        conv_neighbours_times_weights[(items * half[0], triton.cdiv(half[1] * half[2], _CELLS))](
            first,
            second,
            _spread("transposed", weight).to(first.dtype),
            out,
            *half,
            CHANNELS=2 * channels,
            C=weight.shape[1],
            BLOCK=_CELLS,
        )
        ctx.save_for_backward(first, second, weight)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        *volumes, weight = ctx.saved_tensors
        gradient = as_channels_last(gradients[0])
        below = [torch.empty_like(one) for one in volumes]
        # Seen from its results, a transposed convolution is a strided one.
        _multiply_windows(gradient, weight, below)
        matrix, _ = _multiply_results(gradient, volumes, weight.shape[0], cells=False)
        return *below, _gather("strided", matrix, weight.shape)


def convolve_strided_pair(images: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Return two convolutions, stride 2, without biases, of images of shape (items, 1 or 2, x, y, z) that need no gradient.

    Weights: shape (channels, 1 or 2, 3, 3, 3) each; channels a power of two from 8.

    Raises:
        ValueError: a side is odd, or the images require a gradient.
    """
    return cast(tuple[Tensor, Tensor], _StridedPair.apply(images, first, second))


def convolve_with_residual(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return x + convolution(x) + bias, stride 1, of shape (items, 2, x, y, z).

    Raises:
        ValueError: a side is odd.
    """
    return cast(Tensor, _ResidualConvolution.apply(x, weight, bias))


def convolve_transposed(first: Tensor, second: Tensor, weight: Tensor) -> Tensor:
    """Return a transposed convolution, stride 2, without a bias, of two volumes' channels to two channels.

    Each volume has as many channels, a power of two from 8. Weights: shape (both volumes' channels, 2, 3, 3, 3), as
    ConvTranspose3d has them.
    """
    return cast(Tensor, _TransposedConvolution.apply(first, second, weight))
