"""Batch norm, PReLU and the addition of a residual as one operation, in as few passes over memory as there can be.

Forward: one pass for the statistics, one for the result. Backward: one for the sums, one for the gradient.
"""

from typing import Any, cast

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function

from speedproof.training.kernels.launching import LAUNCH, follow
from speedproof.training.kernels.rows import as_channels_last

_WIDTH = 256  # values of a row: one or more voxels' channels, the same for all numbers of channels, so that all share kernels
_ROWS = 8  # of a tile
_PARTS, _VOXELS, _WARPS = 512, 8, 16  # of a program that merges what others found: its tile, its warps
# Programs that sum, some eight on each multiprocessor of a large GPU. Each is one warp: a thread adds up columns of its own,
# and nothing goes by shared memory, where columns of several warps, added up at the end, would all lie in one bank.
_PROGRAMS = 1024
# Numbers that differ from layer to layer: kernels are not compiled again for each kind of them.
_NUMBERS = ["rows", "rows_each", "programs", "channels", "voxels", "momentum", "epsilon"]


@triton.jit
def _place_by_channel(columns, channels, WIDTH: tl.constexpr):
    """Where a program keeps what it found of each column: a channel's side by side, so that they are read in one go."""
    return columns % channels * (WIDTH // channels) + columns // channels


@triton.jit(do_not_specialize=_NUMBERS)
def norm_sum_statistics(x, partial, rows, rows_each, channels, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Each program: the mean and the summed squared deviation of its rows, a column each."""
    follow()
    program = tl.program_id(0)
    first = program.to(tl.int64) * rows_each
    last = tl.minimum(first + rows_each, rows)
    columns = tl.arange(0, WIDTH)
    total = tl.zeros((WIDTH,), tl.float32)
    square = tl.zeros((WIDTH,), tl.float32)
    for start in range(first, last, BLOCK):
        row = start + tl.arange(0, BLOCK)[:, None]
        value = tl.load(x + row * WIDTH + columns[None, :], mask=row < last, other=0.0).to(tl.float32)
        total += tl.sum(value, axis=0)
        square += tl.sum(value * value, axis=0)
    count = (last - first).to(tl.float32)
    mean = total / count
    deviation = tl.maximum(square - count * mean * mean, 0.0)
    here = partial + program * 2 * WIDTH + _place_by_channel(columns, channels, WIDTH)
    tl.store(here, mean)
    tl.store(here + WIDTH, deviation)


@triton.jit(do_not_specialize=_NUMBERS)
def norm_finish_statistics(
    partial,
    weight,
    bias,
    conv_bias,
    running_mean,
    running_variance,
    folded,
    rows,
    rows_each,
    programs,
    channels,
    momentum,
    epsilon,
    WIDTH: tl.constexpr,
    PARTS: tl.constexpr,
    VOXELS: tl.constexpr,
):
    """Each program: merge what was found of one channel (Chan et al.), and update its running statistics.

    `folded` gets four rows of channels: mean, 1 / standard deviation, factor and summand of the norm.
    """
    follow()
    channel = tl.program_id(0)
    columns = WIDTH // channels
    count = tl.zeros((PARTS, VOXELS), tl.float32)
    mean = tl.zeros((PARTS, VOXELS), tl.float32)
    deviation = tl.zeros((PARTS, VOXELS), tl.float32)
    for start in range(0, programs, PARTS):
        number = start + tl.arange(0, PARTS)[:, None]
        for first in range(0, columns, VOXELS):
            column = first + tl.arange(0, VOXELS)[None, :]
            known = (number < programs) & (column < columns)
            place = partial + number * 2 * WIDTH + channel * columns + column
            more = tl.where(known, tl.minimum(rows_each, rows - number * rows_each), 0).to(tl.float32)
            apart = tl.load(place, mask=known, other=0.0) - mean
            share = more / tl.maximum(count + more, 1.0)
            mean += apart * share
            deviation += tl.load(place + WIDTH, mask=known, other=0.0) + apart * apart * count * share
            count += more
    voxels = rows.to(tl.float32) * columns
    mean_of_all = tl.sum(tl.sum(count * mean, axis=1), axis=0) / voxels
    apart = mean - mean_of_all
    variance = tl.sum(tl.sum(deviation + count * apart * apart, axis=1), axis=0) / voxels
    inverse = 1.0 / tl.sqrt(variance + epsilon)
    factor = tl.load(weight + channel) * inverse
    tl.store(folded + channel, mean_of_all)
    tl.store(folded + channels + channel, inverse)
    tl.store(folded + 2 * channels + channel, factor)
    tl.store(folded + 3 * channels + channel, tl.load(bias + channel) - mean_of_all * factor)
    kept = 1.0 - momentum
    biased = mean_of_all + tl.load(conv_bias + channel)
    tl.store(running_mean + channel, kept * tl.load(running_mean + channel) + momentum * biased)
    unbiased = variance * voxels / (voxels - 1)
    tl.store(running_variance + channel, kept * tl.load(running_variance + channel) + momentum * unbiased)


@triton.jit(do_not_specialize=_NUMBERS)
def norm_apply(
    x,
    residual,
    residual_bias,
    slope,
    folded,
    out,
    rows,
    channels,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    HAS_RESIDUAL: tl.constexpr,
):
    """PReLU of x · factor + summand, plus the residual and its bias."""
    follow()
    columns = tl.arange(0, WIDTH)
    channel = columns % channels
    factor = tl.load(folded + 2 * channels + channel)[None, :]
    summand = tl.load(folded + 3 * channels + channel)[None, :]
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)[:, None]
    inside = row < rows
    offset = row * WIDTH + columns[None, :]
    z = tl.load(x + offset, mask=inside, other=0.0).to(tl.float32) * factor + summand
    y = tl.where(z > 0, z, tl.load(slope) * z)
    if HAS_RESIDUAL:
        y += tl.load(residual + offset, mask=inside, other=0.0).to(tl.float32) + tl.load(residual_bias + channel)[None, :]
    tl.store(out + offset, y.to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=_NUMBERS)
def norm_sum_gradients(
    x, gradient, slope, folded, partial, rows, rows_each, channels, WIDTH: tl.constexpr, BLOCK: tl.constexpr
):
    """Each program: sums over its rows, a column each, of dz, dz · x̂, gradient · min(z, 0) and gradient."""
    follow()
    program = tl.program_id(0)
    first = program.to(tl.int64) * rows_each
    last = tl.minimum(first + rows_each, rows)
    columns = tl.arange(0, WIDTH)
    channel = columns % channels
    mean = tl.load(folded + channel)[None, :]
    inverse = tl.load(folded + channels + channel)[None, :]
    factor = tl.load(folded + 2 * channels + channel)[None, :]
    summand = tl.load(folded + 3 * channels + channel)[None, :]
    steepness = tl.load(slope)
    of_z = tl.zeros((WIDTH,), tl.float32)
    of_normed = tl.zeros((WIDTH,), tl.float32)
    of_slope = tl.zeros((WIDTH,), tl.float32)
    of_all = tl.zeros((WIDTH,), tl.float32)
    for start in range(first, last, BLOCK):
        row = start + tl.arange(0, BLOCK)[:, None]
        inside = row < last
        offset = row * WIDTH + columns[None, :]
        value = tl.load(x + offset, mask=inside, other=0.0).to(tl.float32)
        above = tl.load(gradient + offset, mask=inside, other=0.0).to(tl.float32)
        z = value * factor + summand
        dz = tl.where(z > 0, above, steepness * above)
        of_z += tl.sum(dz, axis=0)
        of_normed += tl.sum(dz * ((value - mean) * inverse), axis=0)
        of_slope += tl.sum(above * tl.minimum(z, 0.0), axis=0)
        of_all += tl.sum(above, axis=0)
    here = partial + program * 4 * WIDTH + _place_by_channel(columns, channels, WIDTH)
    tl.store(here, of_z)
    tl.store(here + WIDTH, of_normed)
    tl.store(here + 2 * WIDTH, of_slope)
    tl.store(here + 3 * WIDTH, of_all)


@triton.jit(do_not_specialize=_NUMBERS)
def norm_finish_gradients(partial, sums, programs, channels, WIDTH: tl.constexpr, PARTS: tl.constexpr, VOXELS: tl.constexpr):
    """Each program: add what was found of one channel, of one of the four sums.

    `sums` gets five rows of channels: these, and zeros, the gradient of what the norm takes away.
    """
    follow()
    channel = tl.program_id(0)
    kind = tl.program_id(1)
    columns = WIDTH // channels
    total = tl.zeros((PARTS, VOXELS), tl.float32)
    for start in range(0, programs, PARTS):
        number = start + tl.arange(0, PARTS)[:, None]
        for first in range(0, columns, VOXELS):
            column = first + tl.arange(0, VOXELS)[None, :]
            known = (number < programs) & (column < columns)
            total += tl.load(partial + (number * 4 + kind) * WIDTH + channel * columns + column, mask=known, other=0.0)
    tl.store(sums + kind * channels + channel, tl.sum(tl.sum(total, axis=1), axis=0))
    if kind == 0:
        tl.store(sums + 4 * channels + channel, 0.0)


@triton.jit(do_not_specialize=_NUMBERS)
def norm_pass_gradient(
    x,
    gradient,
    slope,
    folded,
    sums,
    slope_gradient,
    out,
    rows,
    voxels,
    channels,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The gradient of batch norm's input: factor · (dz − mean(dz) − x̂ · mean(dz · x̂)). One program adds up the slope's."""
    follow()
    columns = tl.arange(0, WIDTH)
    if tl.program_id(0) == 0:
        of_slope = tl.load(sums + 2 * channels + columns, mask=columns < channels, other=0.0)
        tl.store(slope_gradient, tl.sum(of_slope, axis=0))
    channel = columns % channels
    mean = tl.load(folded + channel)[None, :]
    inverse = tl.load(folded + channels + channel)[None, :]
    factor = tl.load(folded + 2 * channels + channel)[None, :]
    summand = tl.load(folded + 3 * channels + channel)[None, :]
    mean_dz = tl.load(sums + channel)[None, :] / voxels
    mean_normed = tl.load(sums + channels + channel)[None, :] / voxels
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)[:, None]
    inside = row < rows
    offset = row * WIDTH + columns[None, :]
    value = tl.load(x + offset, mask=inside, other=0.0).to(tl.float32)
    above = tl.load(gradient + offset, mask=inside, other=0.0).to(tl.float32)
    dz = tl.where(value * factor + summand > 0, above, tl.load(slope) * above)
    below = factor * (dz - mean_dz - (value - mean) * inverse * mean_normed)
    tl.store(out + offset, below.to(out.dtype.element_ty), mask=inside)


class _Layout:
    """How a tensor's rows are shared out among programs.

    Raises:
        ValueError: the tensor does not divide into rows of whole voxels.
    """

    def __init__(self, volume: Tensor) -> None:
        self.channels = volume.shape[1]
        self.voxels = volume.numel() // self.channels
        self.rows = volume.numel() // _WIDTH
        if _WIDTH % self.channels or self.rows * _WIDTH != volume.numel():
            raise ValueError(
                f"a norm of {self.channels} channels over {self.voxels} voxels does not make rows of {_WIDTH} values"
            )
        tiles = triton.cdiv(self.rows, _ROWS)
        self.tiles = (tiles,)
        self.rows_each = triton.cdiv(tiles, min(tiles, _PROGRAMS)) * _ROWS
        self.programs = triton.cdiv(self.rows, self.rows_each)


class _NormActivate(Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        conv_bias: Tensor,
        slope: Tensor,
        residual: Tensor | None,
        residual_bias: Tensor,
        running: tuple[Tensor, Tensor],
        momentum: float,
        epsilon: float,
    ) -> Tensor:
        x = as_channels_last(x)
        layout = _Layout(x)
        if layout.voxels == 1:
            raise ValueError("a norm in training needs more than one voxel: the variance of a single one is not known")
        partial = x.new_empty((layout.programs, 2, _WIDTH), dtype=torch.float32)
        norm_sum_statistics[(layout.programs,)](
            x, partial, layout.rows, layout.rows_each, layout.channels, WIDTH=_WIDTH, BLOCK=_ROWS, num_warps=1, **LAUNCH
        )
        folded = x.new_empty((4, layout.channels), dtype=torch.float32)
        norm_finish_statistics[(layout.channels,)](
            partial, weight, bias, conv_bias, *running, folded, layout.rows, layout.rows_each, layout.programs,
            layout.channels, momentum, epsilon, WIDTH=_WIDTH, PARTS=_PARTS, VOXELS=_VOXELS, num_warps=_WARPS, **LAUNCH,
        )  # fmt: skip
        out = apply_folded(x, folded, slope, residual, residual_bias)
        ctx.save_for_backward(x, folded, slope)
        ctx.has_residual = residual is not None
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, folded, slope = ctx.saved_tensors
        layout = _Layout(x)
        gradient = as_channels_last(gradients[0])
        partial = x.new_empty((layout.programs, 4, _WIDTH), dtype=torch.float32)
        norm_sum_gradients[(layout.programs,)](
            x,
            gradient,
            slope,
            folded,
            partial,
            layout.rows,
            layout.rows_each,
            layout.channels,
            WIDTH=_WIDTH,
            BLOCK=_ROWS,
            num_warps=1,
            **LAUNCH,
        )
        sums = x.new_empty((5, layout.channels), dtype=torch.float32)
        norm_finish_gradients[(layout.channels, 4)](
            partial,
            sums,
            layout.programs,
            layout.channels,
            WIDTH=_WIDTH,
            PARTS=_PARTS,
            VOXELS=_VOXELS,
            num_warps=_WARPS,
            **LAUNCH,
        )
        below, of_slope = torch.empty_like(x), sums.new_empty(1)
        norm_pass_gradient[layout.tiles](
            x,
            gradient,
            slope,
            folded,
            sums,
            of_slope,
            below,
            layout.rows,
            layout.voxels,
            layout.channels,
            WIDTH=_WIDTH,
            BLOCK=_ROWS,
            **LAUNCH,
        )
        residual, residual_bias = (gradient, sums[3]) if ctx.has_residual else (None, None)
        # What a convolution adds to each voxel alike, the norm takes away again: its gradient, the last row, is 0.
        return below, sums[1], sums[0], sums[4], of_slope, residual, residual_bias, None, None, None


def apply_folded(x: Tensor, folded: Tensor, slope: Tensor, residual: Tensor | None, residual_bias: Tensor) -> Tensor:
    """Return PReLU(x · folded[2] + folded[3]), plus the residual and its bias, where there is one."""
    x = as_channels_last(x)
    layout = _Layout(x)
    out = torch.empty_like(x)
    added = x if residual is None else as_channels_last(residual)
    norm_apply[layout.tiles](
        x, added, residual_bias, slope, folded, out, layout.rows, layout.channels, WIDTH=_WIDTH, BLOCK=_ROWS,
        HAS_RESIDUAL=residual is not None, **LAUNCH,
    )  # fmt: skip
    return out


def norm_activate(
    x: Tensor,
    norm: torch.nn.BatchNorm3d,
    slope: Tensor,
    conv_bias: Tensor,
    residual: Tensor | None = None,
    residual_bias: Tensor | None = None,
) -> Tensor:
    """Return PReLU(batch norm(x + conv_bias)) + residual + residual_bias, on a GPU, channels last.

    Args:
        x: shape (items, channels, x, y, z), channels a power of two up to 256, and rows of 256 values in all.
        norm: its parameters and running statistics; in training the latter are updated as torch does.
        slope: PReLU's only parameter, shape (1,).
        conv_bias: what the convolution before left out, shape (channels,).
        residual: of x's shape.
        residual_bias: shape (channels,).

    Raises:
        ValueError: the values make no whole rows, or, in training, there is a single voxel.
    """
    no_bias = conv_bias if residual_bias is None else residual_bias  # read only where there is a residual
    mean, variance = cast(Tensor, norm.running_mean), cast(Tensor, norm.running_var)
    if residual is not None and residual_bias is None:
        no_bias = torch.zeros_like(conv_bias)
    if norm.training:
        momentum = cast(float, norm.momentum)
        out = _NormActivate.apply(
            x, norm.weight, norm.bias, conv_bias, slope, residual, no_bias, (mean, variance), momentum, norm.eps
        )
        return cast(Tensor, out)
    inverse = torch.rsqrt(variance + norm.eps)
    factor = norm.weight * inverse
    folded = torch.stack([mean, inverse, factor, norm.bias + (conv_bias - mean) * factor])
    return apply_folded(x, folded, slope, residual, no_bias)
