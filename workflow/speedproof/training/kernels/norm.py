"""Batch norm, PReLU and the addition of a residual as one operation, in as few passes over memory as there can be.

Forward: one pass for the statistics, one for the result. Backward: one for the sums, one for the gradient.
"""

from typing import Any, cast

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function

from speedproof.training.kernels.rows import as_channels_last, row_stride

_ELEMENTS = 4096  # of a tile: 32 each thread
_PROGRAMS = 1024  # some eight on each multiprocessor of a large GPU
_NARROW = 16  # fewer channels than this: several voxels make a row, so that reads stay wide


@triton.jit
def _sum_statistics(x, partial, rows, rows_each, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Each program: the mean and the summed squared deviation of its rows, a column each."""
    program = tl.program_id(0)
    first = program.to(tl.int64) * rows_each
    last = tl.minimum(first + rows_each, rows)
    columns = tl.arange(0, WIDTH)[None, :]
    total = tl.zeros((BLOCK, WIDTH), tl.float32)
    square = tl.zeros((BLOCK, WIDTH), tl.float32)
    for start in range(first, last, BLOCK):
        row = start + tl.arange(0, BLOCK)[:, None]
        value = tl.load(x + row * WIDTH + columns, mask=row < last, other=0.0).to(tl.float32)
        total += value
        square += value * value
    count = (last - first).to(tl.float32)
    mean = tl.sum(total, axis=0) / count
    deviation = tl.maximum(tl.sum(square, axis=0) - count * mean * mean, 0.0)
    here = partial + program * 2 * WIDTH + tl.arange(0, WIDTH)
    tl.store(here, mean)
    tl.store(here + WIDTH, deviation)


@triton.jit
def _finish_statistics(
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
    momentum,
    epsilon,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    PARTS: tl.constexpr,
):
    """Each program: merge what was found of one channel (Chan et al.), update its running statistics, and leave in `folded`,
    four rows of CHANNELS: mean, 1 / standard deviation, factor and summand of the norm.
    """
    FOLD: tl.constexpr = WIDTH // CHANNELS
    channel = tl.program_id(0)
    number = tl.arange(0, PARTS)[:, None]
    place = partial + number * 2 * WIDTH + tl.arange(0, FOLD)[None, :] * CHANNELS + channel
    known = number < programs
    count = tl.maximum(tl.minimum(rows_each, rows - number * rows_each), 0).to(tl.float32)
    means = tl.load(place, mask=known, other=0.0)
    voxels = rows.to(tl.float32) * FOLD
    mean = tl.sum(tl.sum(count * means, axis=1), axis=0) / voxels
    apart = means - mean
    deviation = tl.load(place + WIDTH, mask=known, other=0.0) + count * apart * apart
    variance = tl.sum(tl.sum(deviation, axis=1), axis=0) / voxels
    inverse = 1.0 / tl.sqrt(variance + epsilon)
    factor = tl.load(weight + channel) * inverse
    tl.store(folded + channel, mean)
    tl.store(folded + CHANNELS + channel, inverse)
    tl.store(folded + 2 * CHANNELS + channel, factor)
    tl.store(folded + 3 * CHANNELS + channel, tl.load(bias + channel) - mean * factor)
    kept = 1.0 - momentum
    biased = mean + tl.load(conv_bias + channel)
    tl.store(running_mean + channel, kept * tl.load(running_mean + channel) + momentum * biased)
    unbiased = variance * voxels / (voxels - 1)
    tl.store(running_variance + channel, kept * tl.load(running_variance + channel) + momentum * unbiased)


@triton.jit
def _apply(
    x,
    residual,
    residual_stride,
    residual_bias,
    slope,
    folded,
    out,
    rows,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    BLOCK: tl.constexpr,
    HAS_RESIDUAL: tl.constexpr,
):
    """PReLU of x · factor + summand, plus the residual and its bias."""
    columns = tl.arange(0, WIDTH)
    channels = columns % CHANNELS
    factor = tl.load(folded + 2 * CHANNELS + channels)[None, :]
    summand = tl.load(folded + 3 * CHANNELS + channels)[None, :]
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)[:, None]
    inside = row < rows
    z = tl.load(x + row * WIDTH + columns[None, :], mask=inside, other=0.0).to(tl.float32) * factor + summand
    y = tl.where(z > 0, z, tl.load(slope) * z)
    if HAS_RESIDUAL:
        added = tl.load(residual + row * residual_stride + columns[None, :], mask=inside, other=0.0).to(tl.float32)
        y += added + tl.load(residual_bias + channels)[None, :]
    tl.store(out + row * WIDTH + columns[None, :], y.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _sum_gradients(
    x,
    gradient,
    gradient_stride,
    slope,
    folded,
    partial,
    rows,
    rows_each,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Each program: sums over its rows, a column each, of dz, dz · x̂, gradient · min(z, 0) and gradient."""
    program = tl.program_id(0)
    first = program.to(tl.int64) * rows_each
    last = tl.minimum(first + rows_each, rows)
    columns = tl.arange(0, WIDTH)
    channels = columns % CHANNELS
    mean = tl.load(folded + channels)[None, :]
    inverse = tl.load(folded + CHANNELS + channels)[None, :]
    factor = tl.load(folded + 2 * CHANNELS + channels)[None, :]
    summand = tl.load(folded + 3 * CHANNELS + channels)[None, :]
    steepness = tl.load(slope)
    of_z = tl.zeros((BLOCK, WIDTH), tl.float32)
    of_normed = tl.zeros((BLOCK, WIDTH), tl.float32)
    of_slope = tl.zeros((BLOCK, WIDTH), tl.float32)
    of_all = tl.zeros((BLOCK, WIDTH), tl.float32)
    for start in range(first, last, BLOCK):
        row = start + tl.arange(0, BLOCK)[:, None]
        inside = row < last
        value = tl.load(x + row * WIDTH + columns[None, :], mask=inside, other=0.0).to(tl.float32)
        above = tl.load(gradient + row * gradient_stride + columns[None, :], mask=inside, other=0.0).to(tl.float32)
        z = value * factor + summand
        dz = tl.where(z > 0, above, steepness * above)
        of_z += dz
        of_normed += dz * ((value - mean) * inverse)
        of_slope += above * tl.minimum(z, 0.0)
        of_all += above
    here = partial + program * 4 * WIDTH + columns
    tl.store(here, tl.sum(of_z, axis=0))
    tl.store(here + WIDTH, tl.sum(of_normed, axis=0))
    tl.store(here + 2 * WIDTH, tl.sum(of_slope, axis=0))
    tl.store(here + 3 * WIDTH, tl.sum(of_all, axis=0))


@triton.jit
def _finish_gradients(partial, sums, programs, WIDTH: tl.constexpr, CHANNELS: tl.constexpr, PARTS: tl.constexpr):
    """Each program: add what was found of one channel. `sums` gets four rows of CHANNELS, in the order of `partial`."""
    FOLD: tl.constexpr = WIDTH // CHANNELS
    channel = tl.program_id(0)
    number = tl.arange(0, PARTS)[:, None]
    place = partial + number * 4 * WIDTH + tl.arange(0, FOLD)[None, :] * CHANNELS + channel
    for kind in tl.static_range(4):
        found = tl.load(place + kind * WIDTH, mask=number < programs, other=0.0)
        tl.store(sums + kind * CHANNELS + channel, tl.sum(tl.sum(found, axis=1), axis=0))


@triton.jit
def _pass_gradient(
    x,
    gradient,
    gradient_stride,
    slope,
    folded,
    sums,
    out,
    rows,
    voxels,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The gradient of batch norm's input: factor · (dz − mean(dz) − x̂ · mean(dz · x̂))."""
    columns = tl.arange(0, WIDTH)
    channels = columns % CHANNELS
    mean = tl.load(folded + channels)[None, :]
    inverse = tl.load(folded + CHANNELS + channels)[None, :]
    factor = tl.load(folded + 2 * CHANNELS + channels)[None, :]
    summand = tl.load(folded + 3 * CHANNELS + channels)[None, :]
    mean_dz = tl.load(sums + channels)[None, :] / voxels
    mean_normed = tl.load(sums + CHANNELS + channels)[None, :] / voxels
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)[:, None]
    inside = row < rows
    value = tl.load(x + row * WIDTH + columns[None, :], mask=inside, other=0.0).to(tl.float32)
    above = tl.load(gradient + row * gradient_stride + columns[None, :], mask=inside, other=0.0).to(tl.float32)
    dz = tl.where(value * factor + summand > 0, above, tl.load(slope) * above)
    below = factor * (dz - mean_dz - (value - mean) * inverse * mean_normed)
    tl.store(out + row * WIDTH + columns[None, :], below.to(out.dtype.element_ty), mask=inside)


class _Layout:
    """How rows of a tensor are tiled and shared out among programs."""

    def __init__(self, volume: Tensor) -> None:
        self.channels = volume.shape[1]
        self.voxels = volume.numel() // self.channels
        self.width = max(self.channels, _NARROW)
        self.rows = volume.numel() // self.width
        if self.width % self.channels or self.width & (self.width - 1) or self.rows * self.width != volume.numel():
            raise ValueError(f"a norm of {self.channels} channels over {self.voxels} voxels has no kernel")
        self.block = max(_ELEMENTS // self.width, 1)
        tiles = triton.cdiv(self.rows, self.block)
        self.tiles = (tiles,)
        self.rows_each = triton.cdiv(tiles, min(tiles, _PROGRAMS)) * self.block
        self.programs = triton.cdiv(self.rows, self.rows_each)
        self.parts = triton.next_power_of_2(self.programs)

    def constants(self) -> dict[str, int]:
        return {"WIDTH": self.width, "CHANNELS": self.channels}

    def strided(self, volume: Tensor) -> tuple[Tensor, int]:
        """Return a tensor of the same shape, and how far its rows are apart; copied only where they are not evenly so."""
        stride = row_stride(volume)
        if stride is None or (stride != self.channels and self.width != self.channels):
            return as_channels_last(volume), self.width
        return volume, self.width if stride == self.channels else stride


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
        constants = layout.constants()
        partial = x.new_empty((layout.programs, 2, layout.width), dtype=torch.float32)
        _sum_statistics[(layout.programs,)](x, partial, layout.rows, layout.rows_each, WIDTH=layout.width, BLOCK=layout.block)
        folded = x.new_empty((4, layout.channels), dtype=torch.float32)
        _finish_statistics[(layout.channels,)](
            partial, weight, bias, conv_bias, *running, folded, layout.rows, layout.rows_each, layout.programs, momentum,
            epsilon, PARTS=layout.parts, **constants,
        )  # fmt: skip
        out = apply_folded(x, folded, slope, residual, residual_bias)
        ctx.save_for_backward(x, folded, slope)
        ctx.has_residual = residual is not None
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, folded, slope = ctx.saved_tensors
        layout = _Layout(x)
        constants = layout.constants()
        gradient, stride = layout.strided(gradients[0])
        partial = x.new_empty((layout.programs, 4, layout.width), dtype=torch.float32)
        _sum_gradients[(layout.programs,)](
            x, gradient, stride, slope, folded, partial, layout.rows, layout.rows_each, BLOCK=layout.block, **constants
        )
        sums = x.new_empty((4, layout.channels), dtype=torch.float32)
        _finish_gradients[(layout.channels,)](partial, sums, layout.programs, PARTS=layout.parts, **constants)
        below = torch.empty_like(x)
        _pass_gradient[layout.tiles](
            x, gradient, stride, slope, folded, sums, below, layout.rows, layout.voxels, BLOCK=layout.block, **constants
        )
        residual, residual_bias = (gradients[0], sums[3]) if ctx.has_residual else (None, None)
        # What a convolution adds to each voxel alike, the norm takes away again: its gradient is 0.
        return (
            below,
            sums[1],
            sums[0],
            torch.zeros_like(sums[0]),
            sums[2].sum(dim=0, keepdim=True),
            residual,
            residual_bias,
            None,
            None,
            None,
        )


def apply_folded(x: Tensor, folded: Tensor, slope: Tensor, residual: Tensor | None, residual_bias: Tensor) -> Tensor:
    """Return PReLU(x · folded[2] + folded[3]), plus the residual and its bias, where there is one."""
    x = as_channels_last(x)
    layout = _Layout(x)
    added, stride = (x, layout.width) if residual is None else layout.strided(residual)
    out = torch.empty_like(x)
    _apply[layout.tiles](
        x, added, stride, residual_bias, slope, folded, out, layout.rows, BLOCK=layout.block,
        HAS_RESIDUAL=residual is not None, **layout.constants(),
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
        x: shape (items, channels, x, y, z), a power of two of channels.
        norm: its parameters and running statistics; in training the latter are updated as torch does.
        slope: PReLU's only parameter, shape (1,).
        conv_bias: what the convolution before left out, shape (channels,).
        residual: of x's shape.
        residual_bias: shape (channels,).
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
