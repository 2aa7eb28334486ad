"""Batch norm, PReLU and the addition of a residual as one operation, in as few passes over memory as possible.

Forward: one pass for the statistics, one for the result. Backward: one for the sums, one for the gradient.
"""

from typing import Any, cast

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function

from speedproof_accelerate.kernels.autograd import refuse_double_backward
from speedproof_accelerate.kernels.channels_last import as_channels_last
from speedproof_accelerate.kernels.launch import LAUNCH, allow_next, wait_for_previous

_WIDTH = 256  # values of a row, the channels of one or more voxels; the same for any number of channels, which share kernels
_ROWS = 8  # of a tile
_STAGES = 3  # of a program that sums few channels, of many tiles: one read, two on their way
# Programs that sum, some eight on each multiprocessor of a large GPU. Each is one warp, and each thread sums its own columns.
# Shared memory is not used: the columns of several warps would all be in one bank.
_PROGRAMS = 1024
# Up to so many channels, a program that sums also adds columns that far apart, which belong to one channel. A power of two.
_FEW_CHANNELS = 32
# A program that merges the sums of others takes so many slots of all programs at once, several values per thread. More slots or
# warps make it slower: it waits for memory, and then each warp repeats the same work.
_SLOTS, _PARTS, _WARPS = 4, _PROGRAMS, 8
# Numbers that differ between layers: Triton must not compile a kernel again for each.
_NUMBERS = ["rows", "rows_each", "programs", "channels", "columns_each", "columns", "voxels", "momentum", "epsilon"]


@triton.jit
def _place_parts(channels, COLUMNS: tl.constexpr, KINDS: tl.constexpr):
    """Return where a program stores its first sum of each column; the next sums are `COLUMNS` further each.

    A channel's columns are side by side, so that one load reads them.
    """
    column = tl.arange(0, COLUMNS)
    each = COLUMNS // channels
    slot = (column & (channels - 1)) * each + column * each // COLUMNS
    return tl.program_id(0) * COLUMNS * KINDS + slot


@triton.jit(do_not_specialize=_NUMBERS)
def norm_sum_statistics(
    x,
    partial,
    rows,
    rows_each,
    channels,
    WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Each program: mean and summed squared deviation of its rows, merged over every `COLUMNS`-th column."""
    wait_for_previous()
    program = tl.program_id(0)
    first = program.to(tl.int64) * rows_each
    last = tl.minimum(first + rows_each, rows)
    columns = tl.arange(0, WIDTH)
    total = tl.zeros((WIDTH,), tl.float32)
    square = tl.zeros((WIDTH,), tl.float32)
    for start in tl.range(first, last, BLOCK, num_stages=STAGES):
        row = start + tl.arange(0, BLOCK)[:, None]
        value = tl.load(x + row * WIDTH + columns[None, :], mask=row < last, other=0.0).to(tl.float32)
        total += tl.sum(value, axis=0)
        square += tl.sum(value * value, axis=0)
    count = (last - first).to(tl.float32)
    mean = total / count
    deviation = tl.reshape(tl.maximum(square - count * mean * mean, 0.0), (WIDTH // COLUMNS, COLUMNS))
    means = tl.reshape(mean, (WIDTH // COLUMNS, COLUMNS))
    merged = tl.sum(means, axis=0) * (COLUMNS / WIDTH)
    apart = means - merged[None, :]
    here = partial + _place_parts(channels, COLUMNS, 2)
    tl.store(here, merged)
    tl.store(here + COLUMNS, tl.sum(deviation + count * apart * apart, axis=0))


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
    columns_each,
    columns,
    momentum,
    epsilon,
    WIDTH: tl.constexpr,
    SLOTS: tl.constexpr,
    PARTS: tl.constexpr,
):
    """Each program: merge the statistics of its slots' channels (Chan et al.), and update the running statistics.

    `folded` gets four rows of channels: mean, 1 / standard deviation, factor and summand of the norm.
    """
    wait_for_previous()
    allow_next()
    slots = tl.arange(0, SLOTS)
    turns = tl.cdiv(columns_each, SLOTS)  # of a channel of more columns than there are slots
    number = tl.arange(0, PARTS)[:, None]
    known = number < programs
    # Columns are a multiple of 32, which the compiler shall know: loads are of 16 bytes.
    pitch = columns // 32 * 32
    part = partial + number * (2 * pitch) + tl.program_id(0) * turns * SLOTS + slots[None, :]
    mean = tl.load(part, mask=known, other=0.0)
    deviation = tl.load(part + pitch, mask=known, other=0.0)
    place = tl.program_id(0) * turns * SLOTS + slots
    channel = place // columns_each
    scale, offset, shift = tl.load(weight + channel), tl.load(bias + channel), tl.load(conv_bias + channel)
    old_mean, old_variance = tl.load(running_mean + channel), tl.load(running_variance + channel)
    length = tl.where(known, tl.minimum(rows_each, rows - number * rows_each), 0).to(tl.float32)
    count = length * (WIDTH // (channels * columns_each))
    for turn in range(1, turns):
        part += SLOTS
        share = 1.0 / (turn + 1)
        apart = tl.load(part, mask=known, other=0.0) - mean
        mean += apart * share
        deviation += tl.load(part + pitch, mask=known, other=0.0) + apart * apart * count * (turn * share)
    # First all parts of a slot, then all slots of a channel, of as many voxels each.
    mean_of_slot = tl.sum(length * mean, axis=0) / rows
    apart = mean - mean_of_slot[None, :]
    deviation_of_slot = tl.sum(deviation + count * turns * apart * apart, axis=0)
    same, together = channel[:, None] == channel[None, :], tl.minimum(columns_each, SLOTS)
    mean_of_all = tl.sum(tl.where(same, mean_of_slot[None, :], 0.0), axis=1) / together
    voxels = rows.to(tl.float32) * (WIDTH // channels)
    apart = mean_of_slot[None, :] - mean_of_all[:, None]
    terms = deviation_of_slot[None, :] + voxels / together * apart * apart
    variance = tl.sum(tl.where(same, terms, 0.0), axis=1) / voxels
    inverse = 1.0 / tl.sqrt(variance + epsilon)
    factor = scale * inverse
    first = place == channel * columns_each
    tl.store(folded + channel, mean_of_all, mask=first)
    tl.store(folded + channels + channel, inverse, mask=first)
    tl.store(folded + 2 * channels + channel, factor, mask=first)
    tl.store(folded + 3 * channels + channel, offset - mean_of_all * factor, mask=first)
    kept = 1.0 - momentum
    tl.store(running_mean + channel, kept * old_mean + momentum * (mean_of_all + shift), mask=first)
    unbiased = variance * voxels / (voxels - 1)
    tl.store(running_variance + channel, kept * old_variance + momentum * unbiased, mask=first)


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
    HAS_BIAS: tl.constexpr,
):
    """PReLU of x · factor + summand, plus the residual and its bias, if given."""
    wait_for_previous()
    columns = tl.arange(0, WIDTH)
    channel = columns & (channels - 1)
    factor = tl.load(folded + 2 * channels + channel)[None, :]
    summand = tl.load(folded + 3 * channels + channel)[None, :]
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)[:, None]
    inside = row < rows
    offset = row * WIDTH + columns[None, :]
    z = tl.load(x + offset, mask=inside, other=0.0).to(tl.float32) * factor + summand
    y = tl.where(z > 0, z, tl.load(slope) * z)
    if HAS_RESIDUAL:
        y += tl.load(residual + offset, mask=inside, other=0.0).to(tl.float32)
    if HAS_BIAS:
        y += tl.load(residual_bias + channel)[None, :]
    tl.store(out + offset, y.to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=_NUMBERS)
def norm_sum_gradients(
    x,
    gradient,
    slope,
    folded,
    partial,
    rows,
    rows_each,
    channels,
    WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Each program: sums over its rows, every `COLUMNS`-th column in one, of dz, dz · x̂, gradient · min(z, 0), gradient."""
    wait_for_previous()
    program = tl.program_id(0)
    first = program.to(tl.int64) * rows_each
    last = tl.minimum(first + rows_each, rows)
    columns = tl.arange(0, WIDTH)
    channel = columns & (channels - 1)
    mean = tl.load(folded + channel)[None, :]
    inverse = tl.load(folded + channels + channel)[None, :]
    factor = tl.load(folded + 2 * channels + channel)[None, :]
    summand = tl.load(folded + 3 * channels + channel)[None, :]
    steepness = tl.load(slope)
    of_z = tl.zeros((WIDTH,), tl.float32)
    of_normed = tl.zeros((WIDTH,), tl.float32)
    of_slope = tl.zeros((WIDTH,), tl.float32)
    of_all = tl.zeros((WIDTH,), tl.float32)
    for start in tl.range(first, last, BLOCK, num_stages=STAGES):
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
    here = partial + _place_parts(channels, COLUMNS, 4)
    tl.store(here, tl.sum(tl.reshape(of_z, (WIDTH // COLUMNS, COLUMNS)), axis=0))
    tl.store(here + COLUMNS, tl.sum(tl.reshape(of_normed, (WIDTH // COLUMNS, COLUMNS)), axis=0))
    tl.store(here + 2 * COLUMNS, tl.sum(tl.reshape(of_slope, (WIDTH // COLUMNS, COLUMNS)), axis=0))
    tl.store(here + 3 * COLUMNS, tl.sum(tl.reshape(of_all, (WIDTH // COLUMNS, COLUMNS)), axis=0))


@triton.jit(do_not_specialize=_NUMBERS)
def norm_finish_gradients(partial, sums, programs, channels, columns_each, columns, SLOTS: tl.constexpr, PARTS: tl.constexpr):
    """Each program: add one of the four sums of its slots' channels.

    `sums` gets five rows of channels: these, and zeros, the gradient of what the norm takes away.
    """
    wait_for_previous()
    allow_next()
    kind = tl.program_id(1)
    slots = tl.arange(0, SLOTS)
    turns = tl.cdiv(columns_each, SLOTS)  # of a channel of more columns than there are slots
    number = tl.arange(0, PARTS)[:, None]
    part = partial + (number * 4 + kind) * (columns // 32 * 32) + tl.program_id(0) * turns * SLOTS + slots[None, :]
    total = tl.load(part, mask=number < programs, other=0.0)
    for _ in range(1, turns):
        part += SLOTS
        total += tl.load(part, mask=number < programs, other=0.0)
    place = tl.program_id(0) * turns * SLOTS + slots
    channel = place // columns_each
    same = channel[:, None] == channel[None, :]
    of_channel = tl.sum(tl.where(same, tl.sum(total, axis=0)[None, :], 0.0), axis=1)
    first = place == channel * columns_each
    tl.store(sums + kind * channels + channel, of_channel, mask=first)
    if kind == 0:
        tl.store(sums + 4 * channels + channel, 0.0, mask=first)


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
    wait_for_previous()
    columns = tl.arange(0, WIDTH)
    if tl.program_id(0) == 0:
        of_slope = tl.load(sums + 2 * channels + columns, mask=columns < channels, other=0.0)
        tl.store(slope_gradient, tl.sum(of_slope, axis=0))
    channel = columns & (channels - 1)
    mean = tl.load(folded + channel)[None, :]
    factor = tl.load(folded + 2 * channels + channel)[None, :]
    summand = tl.load(folded + 3 * channels + channel)[None, :]
    # Divided and multiplied here, of each column, and not of each value.
    share = 1.0 / voxels
    mean_dz = (tl.load(sums + channel) * share)[None, :]
    by_deviation = (tl.load(folded + channels + channel) * (tl.load(sums + channels + channel) * share))[None, :]
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)[:, None]
    inside = row < rows
    offset = row * WIDTH + columns[None, :]
    value = tl.load(x + offset, mask=inside, other=0.0).to(tl.float32)
    above = tl.load(gradient + offset, mask=inside, other=0.0).to(tl.float32)
    dz = tl.where(value * factor + summand > 0, above, tl.load(slope) * above)
    below = factor * (dz - mean_dz - (value - mean) * by_deviation)
    tl.store(out + offset, below.to(out.dtype.element_ty), mask=inside)


class _Layout:
    """How a tensor's rows are divided among programs.

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
        few = self.channels <= _FEW_CHANNELS
        self.tiles = triton.cdiv(self.rows, _ROWS)
        self.rows_each = triton.cdiv(self.tiles, min(self.tiles, _PROGRAMS)) * _ROWS
        self.programs = triton.cdiv(self.rows, self.rows_each)
        self.columns = _FEW_CHANNELS if few else _WIDTH
        self.columns_each = self.columns // self.channels
        self.stages = _STAGES if few else 1
        self.merging = self.columns // max(self.columns_each, _SLOTS)  # programs


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
        residual_bias: Tensor | None,
        running: tuple[Tensor, Tensor],
        momentum: float,
        epsilon: float,
    ) -> Tensor:
        x = as_channels_last(x)
        layout = _Layout(x)
        if layout.voxels == 1:
            raise ValueError("a norm in training needs more than one voxel: a single one has no variance")
        partial = x.new_empty((layout.programs, 2, layout.columns), dtype=torch.float32)
        norm_sum_statistics[(layout.programs,)](
            x, partial, layout.rows, layout.rows_each, layout.channels, WIDTH=_WIDTH, COLUMNS=layout.columns,
            BLOCK=_ROWS, STAGES=layout.stages, num_warps=1, **LAUNCH,
        )  # fmt: skip
        folded = x.new_empty((4, layout.channels), dtype=torch.float32)
        norm_finish_statistics[(layout.merging,)](
            partial, weight, bias, conv_bias, *running, folded, layout.rows, layout.rows_each, layout.programs,
            layout.channels, layout.columns_each, layout.columns, momentum, epsilon, WIDTH=_WIDTH, SLOTS=_SLOTS,
            PARTS=_PARTS, num_warps=_WARPS, **LAUNCH,
        )  # fmt: skip
        out = apply_folded(x, folded, slope, residual, residual_bias)
        ctx.save_for_backward(x, folded, slope)
        ctx.has_residual, ctx.has_bias = residual is not None, residual_bias is not None
        return out

    @staticmethod
    @refuse_double_backward
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, folded, slope = ctx.saved_tensors
        layout = _Layout(x)
        gradient = as_channels_last(gradients[0])
        partial = x.new_empty((layout.programs, 4, layout.columns), dtype=torch.float32)
        norm_sum_gradients[(layout.programs,)](
            x, gradient, slope, folded, partial, layout.rows, layout.rows_each, layout.channels, WIDTH=_WIDTH,
            COLUMNS=layout.columns, BLOCK=_ROWS, STAGES=layout.stages, num_warps=1, **LAUNCH,
        )  # fmt: skip
        sums = x.new_empty((5, layout.channels), dtype=torch.float32)
        norm_finish_gradients[(layout.merging, 4)](
            partial, sums, layout.programs, layout.channels, layout.columns_each, layout.columns, SLOTS=_SLOTS,
            PARTS=_PARTS, num_warps=_WARPS, **LAUNCH,
        )  # fmt: skip
        below, of_slope = torch.empty_like(x), sums.new_empty(1)
        norm_pass_gradient[(layout.tiles,)](
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
        residual, residual_bias = gradient if ctx.has_residual else None, sums[3] if ctx.has_bias else None
        # The norm subtracts what a convolution adds to every voxel: its gradient, the last row, is 0.
        return below, sums[1], sums[0], sums[4], of_slope, residual, residual_bias, None, None, None


def apply_folded(x: Tensor, folded: Tensor, slope: Tensor, residual: Tensor | None, residual_bias: Tensor | None) -> Tensor:
    """Return PReLU(x · folded[2] + folded[3]), plus the residual and its bias, if given."""
    x = as_channels_last(x)
    layout = _Layout(x)
    out = torch.empty_like(x)
    added = x if residual is None else as_channels_last(residual)
    norm_apply[(layout.tiles,)](
        x, added, folded if residual_bias is None else residual_bias, slope, folded, out, layout.rows, layout.channels,
        WIDTH=_WIDTH, BLOCK=_ROWS, HAS_RESIDUAL=residual is not None, HAS_BIAS=residual_bias is not None, **LAUNCH,
    )  # fmt: skip
    return out


def batch_norm_prelu(
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
        conv_bias: the bias that the convolution before left out, shape (channels,).
        residual: of x's shape.
        residual_bias: shape (channels,).

    Raises:
        ValueError: the values do not fill whole rows, or there is a single voxel in training.
    """
    mean, variance = cast(Tensor, norm.running_mean), cast(Tensor, norm.running_var)
    if norm.training:
        momentum = cast(float, norm.momentum)
        out = _NormActivate.apply(
            x, norm.weight, norm.bias, conv_bias, slope, residual, residual_bias, (mean, variance), momentum, norm.eps
        )
        return cast(Tensor, out)
    inverse = torch.rsqrt(variance + norm.eps)
    factor = norm.weight * inverse
    folded = torch.stack([mean, inverse, factor, norm.bias + (conv_bias - mean) * factor])
    return apply_folded(x, folded, slope, residual, residual_bias)
