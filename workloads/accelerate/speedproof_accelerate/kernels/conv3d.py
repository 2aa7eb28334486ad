"""3D convolutions of 2 to 32 channels to as many, 3 × 3 × 3 with stride 1 and padding 1, as products of dense matrices.

A cell is 32 consecutive values along z: one voxel of 32 channels, two of 16, or 16 of two. Of each of its nine neighbours along
x and y it reads a window of 64 values, from 16 before the neighbour to 16 after it. With 32 channels the window has 96 values,
since the voxels before and after take 32 each. The cell's results are these windows times matrices of the weights. The matrices
hold each weight once for each voxel of the cell, and zeros elsewhere. That takes more multiplications than necessary, but all
loads are of 16 bytes, and tensor cores do nearly all of the work.

The data gradient is the same convolution of the results' gradient, with mirrored weights.
"""

from functools import cache, partial
from typing import Any, cast

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function

from speedproof_accelerate.kernels.autograd import refuse_double_backward
from speedproof_accelerate.kernels.channels_last import as_channels_last
from speedproof_accelerate.kernels.launch import LAUNCH, jit, wait_for_previous
from speedproof_accelerate.kernels.mma_fragments import from_fragments, reorder_matrices, to_fragments
from speedproof_accelerate.kernels.second_stream import compute_beside
from speedproof_accelerate.kernels.weight_matrices import NONE, Layout, as_dense, gather, number_weights, spread

_CELL, _HALO = 32, 16  # values of a cell; at least so many before and after it
_CELLS, _WARPS = 128, 4  # of a program
# Of a weight gradient: warps on a large GPU, eight on each multiprocessor; cells of a tile; tiles being loaded.
_ALL_WARPS, _SUMMED_CELLS, _STAGES = 8 * 132, 64, 3
_NUMBERS = ["X", "Y", "planes"]  # they differ between volumes: Triton must not compile a kernel again for each


@jit(do_not_specialize=_NUMBERS)
def conv_windows_to_cells(
    x,
    weights,
    bias,
    residual,
    out,
    X,
    Y,
    row,
    RESIDUAL: tl.constexpr,
    BIASES: tl.constexpr,
    HALO: tl.constexpr,
    BLOCK: tl.constexpr,
    WARPS: tl.constexpr,
):
    """Programs: (items · x, tiles of a plane's cells). `row`: values along z. RESIDUAL and BIASES: added to the result.

    A window has HALO values before and after its cell, and is read in pieces of 32. Windows go from memory to tensor cores in
    the order in which threads load them; `weights` have that order, too (mma_fragments.py).
    """
    wait_for_previous()
    plane = tl.program_id(0)
    here = plane % X
    start = plane.to(tl.int64) * Y * row
    PIECES: tl.constexpr = 1 + HALO // 16
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    y, z = place // tl.cdiv(row, 32), place % tl.cdiv(row, 32) * 32
    column = tl.arange(0, 32)[None, :]
    offset = (y * row + z)[:, None] + column
    square = tl.arange(0, 32)[:, None] * 32 + column
    total = tl.zeros((BLOCK, 32), tl.float32)
    for dx in tl.range(tl.where(here == 0, 1, 0), tl.where(here == X - 1, 2, 3), num_stages=1):
        for dy in tl.static_range(3):
            neighbour = x + start + (((dx - 1) * Y + dy - 1) * row - HALO)
            inside = (y >= 1 - dy) & (y <= Y - dy)
            for piece in tl.static_range(PIECES):
                within = z[:, None] + (column + (piece * 32 - HALO))
                within = (within >= 0) & (within < row)
                values = tl.load(neighbour + piece * 32 + offset, mask=inside[:, None] & within, other=0.0)
                matrix = tl.load(weights + ((dx * 3 + dy) * PIECES + piece) * 1024 + square)
                total = tl.dot(to_fragments(values, WARPS), matrix, total, input_precision="ieee")
    total = from_fragments(total, WARPS)
    there = (y < Y)[:, None] & (z[:, None] + column < row)
    if RESIDUAL:
        total += tl.load(residual + start + offset, mask=there, other=0.0).to(tl.float32)
    if BIASES:
        total += tl.load(bias + column % BIASES).to(tl.float32)
    tl.store(out + start + offset, total.to(out.dtype.element_ty), mask=there)


@jit(do_not_specialize=_NUMBERS)
def conv_windows_times_cells(
    x,
    gradient,
    partial,
    planes,
    X,
    Y,
    row,
    BIAS: tl.constexpr,
    HALO: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Each program: sums, over its tiles of cells, of windowsᵀ times gradients. BIAS: also of the gradients, in the last row.

    The windows of a tile's three neighbours along y each serve three tiles of gradients: its own, and the next ones along x.
    WIDTH: the window's width, rounded up to a power of two; values beyond the window are 0.
    """
    wait_for_previous()
    tiles = tl.cdiv(Y * tl.cdiv(row, 32), BLOCK)
    WINDOW: tl.constexpr = 32 + 2 * HALO
    column, result = tl.arange(0, WIDTH)[None, :], tl.arange(0, 32)[None, :]
    zero = tl.zeros((WIDTH, 32), tl.float32)
    a0, a1, a2, b0, b1, b2, c0, c1, c2 = zero, zero, zero, zero, zero, zero, zero, zero, zero
    sums = tl.zeros((BLOCK, 32), tl.float32)
    for tile in tl.range(tl.program_id(0), planes * tiles, tl.num_programs(0), num_stages=STAGES):
        plane = tile // tiles
        here = plane % X
        place = tile % tiles * BLOCK + tl.arange(0, BLOCK)
        y, z = place // tl.cdiv(row, 32), place % tl.cdiv(row, 32) * 32
        start = plane.to(tl.int64) * Y * row
        within = z[:, None] + (column - HALO)
        within = (within >= 0) & (within < row) & (column < WINDOW)
        there = (y < Y)[:, None] & (z[:, None] + result < row)
        own = gradient + start + ((y * row + z)[:, None] + result)
        g0 = tl.load(own + Y * row, mask=there & (here < X - 1), other=0.0)
        g1 = tl.load(own, mask=there, other=0.0)
        g2 = tl.load(own - Y * row, mask=there & (here > 0), other=0.0)
        if BIAS:
            sums += g1.to(tl.float32)
        for dy in tl.static_range(3):
            inside = (y >= 1 - dy) & (y <= Y - dy)
            windows = x + start + ((dy - 1) * row - HALO) + ((y * row + z)[:, None] + column)
            turned = tl.trans(tl.load(windows, mask=inside[:, None] & within, other=0.0))
            if dy == 0:
                a0 = tl.dot(turned, g0, a0, input_precision="ieee")
                a1 = tl.dot(turned, g1, a1, input_precision="ieee")
                a2 = tl.dot(turned, g2, a2, input_precision="ieee")
            elif dy == 1:
                b0 = tl.dot(turned, g0, b0, input_precision="ieee")
                b1 = tl.dot(turned, g1, b1, input_precision="ieee")
                b2 = tl.dot(turned, g2, b2, input_precision="ieee")
            else:
                c0 = tl.dot(turned, g0, c0, input_precision="ieee")
                c1 = tl.dot(turned, g1, c1, input_precision="ieee")
                c2 = tl.dot(turned, g2, c2, input_precision="ieee")
    # (program, dx, dy, window, result); the sums follow those of each program.
    SIZE: tl.constexpr = WINDOW * 32
    first = partial + tl.program_id(0) * (9 * SIZE + 32)
    line = tl.arange(0, WIDTH)[:, None]
    place, inside = first + line * 32 + result, (line < WINDOW) & (result >= 0)
    tl.store(place, a0, mask=inside)
    tl.store(place + SIZE, b0, mask=inside)
    tl.store(place + 2 * SIZE, c0, mask=inside)
    tl.store(place + 3 * SIZE, a1, mask=inside)
    tl.store(place + 4 * SIZE, b1, mask=inside)
    tl.store(place + 5 * SIZE, c1, mask=inside)
    tl.store(place + 6 * SIZE, a2, mask=inside)
    tl.store(place + 7 * SIZE, b2, mask=inside)
    tl.store(place + 8 * SIZE, c2, mask=inside)
    if BIAS:
        tl.store(first + 9 * SIZE + tl.arange(0, 32), tl.sum(sums, axis=0))


def _halo(channels: int) -> int:
    """Return how many values a window has before its cell, and after it."""
    return max(_HALO, channels)


def _place_in_windows(weights: Tensor) -> Tensor:
    """Return where weights, given by their numbers, are in the matrices of shape (3, 3, window, result)."""
    channels = weights.shape[0]
    halo = _halo(channels)
    places = torch.full((3, 3, _CELL + 2 * halo, _CELL), NONE)
    for voxel in range(_CELL // channels):
        for dz in range(3):
            first = halo + (voxel + dz - 1) * channels
            rows, columns = slice(first, first + channels), slice(voxel * channels, (voxel + 1) * channels)
            places[:, :, rows, columns] = weights[..., dz].permute(2, 3, 1, 0)
    return places


@cache
def _layout(channels: int, last: bool, bias: bool, device: torch.device) -> Layout:
    """Return the layout of weights, channels last or not: the matrices of a convolution, and of its data gradient.

    In the gradient's matrix, the sums for a bias come last.
    """
    weights = number_weights(channels, channels, last=last)
    count, plain = weights.numel(), _place_in_windows(weights)
    mirrored = _place_in_windows(weights.transpose(0, 1).flip(2, 3, 4))
    pieces = reorder_matrices(torch.stack([plain, mirrored]).reshape(2, 9, -1, 32, _CELL))
    if not bias:
        return Layout.of(pieces.flatten(1), plain, count, device)
    sums = count + torch.arange(_CELL) % channels
    return Layout.of(pieces.flatten(1), torch.cat([plain.flatten(), sums]), count + channels, device)


def _convolve(x: Tensor, matrix: Tensor, bias: Tensor | None = None, residual: Tensor | None = None) -> Tensor:
    """Return a convolution, plus a residual if given."""
    items, channels, sx, sy, sz = x.shape
    row, out = sz * channels, torch.empty_like(x)
    biases = 0 if bias is None else channels
    conv_windows_to_cells[(items * sx, triton.cdiv(sy * triton.cdiv(row, _CELL), _CELLS))](
        x, matrix, x if bias is None else bias, x if residual is None else residual, out, sx, sy, row,
        RESIDUAL=residual is not None, BIASES=biases, HALO=_halo(channels), BLOCK=_CELLS, WARPS=_WARPS, num_warps=_WARPS,
        num_stages=1, **LAUNCH,
    )  # fmt: skip
    return out


def _differentiate_weights(x: Tensor, gradient: Tensor, parameters: list[Tensor], layout: Layout) -> list[Tensor]:
    """Return the gradients of the weights, and of a bias, if there is one."""
    items, channels, sx, sy, sz = x.shape
    planes, row = items * sx, sz * channels
    window = _CELL + 2 * _halo(channels)
    width = triton.next_power_of_2(window)
    warps = width // 16  # each sums 16 lines of a matrix
    programs = min(_ALL_WARPS // warps, planes * triton.cdiv(sy * triton.cdiv(row, _CELL), _SUMMED_CELLS))
    # The sums for the bias follow each matrix; without a bias they are neither written nor read.
    partial = x.new_empty((programs, 9 * window * _CELL + _CELL), dtype=torch.float32)
    conv_windows_times_cells[(programs,)](
        x, gradient, partial, planes, sx, sy, row, BIAS=len(parameters) > 1, HALO=_halo(channels), WIDTH=width,
        BLOCK=_SUMMED_CELLS, STAGES=_STAGES if x.element_size() == 2 else 1, num_warps=warps, maxnreg=255, **LAUNCH,
    )  # fmt: skip
    return gather(partial, layout, parameters)


class _Convolution(Function):
    """A convolution, plus a residual if given; with a bias, the bias and the input are added."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None) -> Tensor:
        x = as_channels_last(x)
        (weight,), last = as_dense(weight)
        biases = [] if bias is None else [bias.contiguous()]
        ctx.layout = _layout(x.shape[1], last, bool(biases), x.device)
        plain, mirrored = spread([weight], ctx.layout, x.dtype)
        ctx.save_for_backward(x, mirrored, weight, *biases)
        if biases:
            return _convolve(x, plain, biases[0], x)
        return _convolve(x, plain, None, None if residual is None else as_channels_last(residual))

    @staticmethod
    @refuse_double_backward
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, mirrored, *parameters = ctx.saved_tensors
        gradient, with_bias = as_channels_last(gradients[0]), len(parameters) > 1
        of_input, *_, of_residual = ctx.needs_input_grad
        made = compute_beside(partial(_differentiate_weights, x, gradient, parameters, ctx.layout), x, gradient)
        below = _convolve(gradient, mirrored, residual=gradient if with_bias else None) if of_input else None
        return below, *made, *([] if with_bias else [None]), gradient if of_residual else None


class _Conv3dAndInput(Function):
    """A convolution, and its input; the kernel that writes the convolution's gradient adds that of the input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        x = as_channels_last(x)
        (weight,), last = as_dense(weight)
        ctx.layout = _layout(x.shape[1], last, False, x.device)
        plain, mirrored = spread([weight], ctx.layout, x.dtype)
        ctx.save_for_backward(x, mirrored, weight)
        return _convolve(x, plain), x

    @staticmethod
    @refuse_double_backward
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, mirrored, weight = ctx.saved_tensors
        gradient, of_kept = map(as_channels_last, gradients)
        made = compute_beside(partial(_differentiate_weights, x, gradient, [weight], ctx.layout), x, gradient)
        below = _convolve(gradient, mirrored, residual=of_kept) if ctx.needs_input_grad[0] else None
        return below, *made


def conv3d(x: Tensor, weight: Tensor, residual: Tensor | None = None) -> Tensor:
    """Return a convolution without a bias, stride 1 and padding 1, of x's shape, plus a residual if given.

    Args:
        x: shape (items, channels, x, y, z), on a GPU; channels a power of two up to 32. Fastest if z · channels is a
            multiple of 16: threads then read 16 bytes at once.
        weight: shape (channels, channels, 3, 3, 3); its gradient is of its type.
        residual: of x's shape and precision.
    """
    return cast(Tensor, _Convolution.apply(x, weight, None, residual))


def conv3d_and_input(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return a convolution, as :func:`conv3d` does, and x, for its other uses.

    The kernel that writes the convolution's gradient then also adds the gradient of the other uses.
    """
    return cast(tuple[Tensor, Tensor], _Conv3dAndInput.apply(x, weight))


def conv3d_plus_input(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return x + convolution(x) + bias; see :func:`conv3d`."""
    return cast(Tensor, _Convolution.apply(x, weight, bias, None))
