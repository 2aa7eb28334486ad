"""Group, instance and batch norm with dropout and activation as one operation, for volumes and images of any shape.

Forward: one pass for the statistics, one for the result. Backward: one for the sums, one for the gradient. Torch takes a pass
for each of norm, dropout, activation and sum, and its instance and group norm copy channels-last volumes to another layout.

A batch norm is computed as an instance norm of one item with the voxels of all items.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function

from speedproof_accelerate.kernels.autograd import refuse_double_backward
from speedproof_accelerate.kernels.channels_last import as_channels_last, channels_last_of
from speedproof_accelerate.kernels.launch import LAUNCH, jit, wait_for_previous

_TILE, _SUMMED_TILE = 4096, 2048  # values of a tile: of a program that applies, and of one that sums
_WIDEST = 64  # channels of a tile
_PROGRAMS = 1056  # that sum: eight on each multiprocessor of a large GPU
_FEW_CHANNELS = 16  # for fewer, a kernel is compiled for each number, for the widest possible loads
_FINISHED = 1024  # values of a tile of the programs that merge
# Numbers that differ between layers: Triton must not compile a kernel again for each. Channels are not among them: if they are
# a multiple of 16, the compiler must know it, for loads of 16 bytes.
_NUMBERS = ["voxels", "each", "chunks", "per_group", "size", "momentum", "epsilon", "constant", "scale"]


@jit(do_not_specialize=_NUMBERS)
def group_norm_sum_values(
    x, partial, voxels, each, channels, chunks, size, FEW: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr
):
    """Programs: (chunks, tiles of channels, items): mean and summed squared deviation of a chunk's voxels.

    Each place of a tile sums differences from its own first value, and places are merged as chunks are. So neither a mean far
    from 0 nor an outlier costs precision.
    """
    wait_for_previous()
    chunk, item = tl.program_id(0), tl.program_id(2).to(tl.int64)
    pitch = FEW if FEW else channels
    channel = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    known = channel < pitch
    start = x + item * voxels * pitch
    first, last = chunk * each, tl.minimum((chunk + 1) * each, voxels)
    place = tl.arange(0, BLOCK)
    here = start + (first + place).to(tl.int64)[:, None] * pitch + channel[None, :]
    shift = tl.load(here, mask=(first + place < last)[:, None] & known[None, :], other=0.0).to(tl.float32)
    total = tl.zeros((BLOCK, WIDTH), tl.float32)
    square = tl.zeros((BLOCK, WIDTH), tl.float32)
    for begin in range(first + BLOCK, last, BLOCK):
        voxel = begin + place
        inside = (voxel < last)[:, None] & known[None, :]
        value = tl.load(start + voxel.to(tl.int64)[:, None] * pitch + channel[None, :], mask=inside, other=0.0)
        apart = tl.where(inside, value.to(tl.float32) - shift, 0.0)
        total += apart
        square += apart * apart
    held = tl.maximum((last - first - place + BLOCK - 1) // BLOCK, 0).to(tl.float32)[:, None]  # values of a place
    of_place = total / tl.maximum(held, 1.0)
    square -= total * of_place
    of_place += shift
    mean = tl.sum(held * of_place, axis=0) / (last - first)
    between = of_place - mean[None, :]
    slot = partial + (item * channels + channel) * chunks + chunk
    tl.store(slot, mean + tl.sum(held * between, axis=0) / (last - first), mask=known)  # what rounding removed from the mean
    tl.store(slot + size, tl.sum(tl.maximum(square, 0.0) + held * between * between, axis=0), mask=known)


@jit(do_not_specialize=_NUMBERS)
def group_norm_finish_statistics(
    partial,
    weight,
    bias,
    left_out,
    running_mean,
    running_variance,
    folded,
    voxels,
    each,
    channels,
    chunks,
    per_group,
    size,
    momentum,
    epsilon,
    AFFINE: tl.constexpr,
    RUNNING: tl.constexpr,
    LEFT_OUT: tl.constexpr,
    GROUP: tl.constexpr,
    PARTS: tl.constexpr,
):
    """Programs: (groups, items): merge the statistics of the chunks.

    Source: T. Chan, G. Golub and R. LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979.
    `folded` gets for each item's channels: mean, 1 / standard deviation, factor and summand.
    """
    wait_for_previous()
    within, item = tl.arange(0, GROUP), tl.program_id(1).to(tl.int64)
    known = within < per_group
    channel = tl.program_id(0) * per_group + within
    line = partial + ((item * channels + channel) * chunks)[:, None]
    count = voxels.to(tl.float32)
    totals = tl.zeros((GROUP, PARTS), tl.float32)
    for begin in range(0, chunks, PARTS):
        number = begin + tl.arange(0, PARTS)[None, :]
        of_chunk = tl.minimum(voxels - number * each, each).to(tl.float32)
        totals += of_chunk * tl.load(line + number, mask=known[:, None] & (number < chunks), other=0.0)
    of_channel = tl.sum(totals, axis=1) / count
    mean = tl.sum(of_channel, axis=0) / per_group
    totals = tl.zeros((GROUP, PARTS), tl.float32)
    squares = tl.zeros((GROUP, PARTS), tl.float32)
    for begin in range(0, chunks, PARTS):
        number = begin + tl.arange(0, PARTS)[None, :]
        inside = known[:, None] & (number < chunks)
        of_chunk = tl.minimum(voxels - number * each, each).to(tl.float32)
        between = tl.where(inside, tl.load(line + number, mask=inside, other=0.0) - mean, 0.0)
        totals += of_chunk * between
        squares += tl.load(line + size + number, mask=inside, other=0.0) + of_chunk * between * between
    deviation = tl.sum(squares, axis=1)
    mean += tl.sum(tl.sum(totals, axis=1), axis=0) / (count * per_group)  # what rounding removed from it
    variance = tl.sum(deviation, axis=0) / (count * per_group)
    inverse = 1.0 / tl.sqrt(variance + epsilon)
    factor = tl.zeros((GROUP,), tl.float32) + inverse
    summand = -mean * factor
    if AFFINE:
        factor *= tl.load(weight + channel, mask=known, other=0.0).to(tl.float32)
        summand = tl.load(bias + channel, mask=known, other=0.0).to(tl.float32) - mean * factor
    place, step = folded + item * channels + channel, tl.num_programs(1) * channels
    tl.store(place, tl.zeros((GROUP,), tl.float32) + mean, mask=known)
    tl.store(place + step, tl.zeros((GROUP,), tl.float32) + inverse, mask=known)
    tl.store(place + 2 * step, factor, mask=known)
    tl.store(place + 3 * step, summand, mask=known)
    if RUNNING:  # of a batch norm, whose groups are single channels
        found = of_channel
        if LEFT_OUT:
            found += tl.load(left_out + channel, mask=known, other=0.0).to(tl.float32)
        kept = 1.0 - momentum
        old_mean = tl.load(running_mean + channel, mask=known, other=0.0)
        old_variance = tl.load(running_variance + channel, mask=known, other=0.0)
        tl.store(running_mean + channel, kept * old_mean + momentum * found, mask=known)
        tl.store(running_variance + channel, kept * old_variance + momentum * (deviation / (count - 1.0)), mask=known)


@triton.jit
def _load_slope(slope, constant, channel, known, SLOPES: tl.constexpr):
    """Return each channel's slope below zero. SLOPES: a constant (0), one parameter (1), or one per channel (2)."""
    steepness = tl.zeros(channel.shape, tl.float32) + constant
    if SLOPES == 1:
        steepness = tl.zeros(channel.shape, tl.float32) + tl.load(slope).to(tl.float32)
    if SLOPES == 2:
        steepness = tl.load(slope + channel, mask=known, other=0.0).to(tl.float32)
    return steepness[None, :]


@jit(do_not_specialize=_NUMBERS)
def group_norm_apply(
    x,
    kept,
    slope,
    folded,
    out,
    voxels,
    channels,
    constant,
    scale,
    DROPPED: tl.constexpr,
    SLOPES: tl.constexpr,
    FEW: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Programs: (tiles of voxels, tiles of channels, items): activation of z = x · factor + summand.

    DROPPED: z is multiplied by `scale` where `kept` is 1, and by 0 elsewhere.
    """
    wait_for_previous()
    item, step = tl.program_id(2).to(tl.int64), tl.num_programs(2) * channels
    pitch = FEW if FEW else channels
    channel = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    known = channel < pitch
    place = folded + item * channels + channel
    factor = tl.load(place + 2 * step, mask=known, other=0.0)[None, :]
    summand = tl.load(place + 3 * step, mask=known, other=0.0)[None, :]
    voxel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = (voxel < voxels)[:, None] & known[None, :]
    offset = (item * voxels + voxel.to(tl.int64))[:, None] * pitch + channel[None, :]
    z = tl.load(x + offset, mask=inside, other=0.0).to(tl.float32) * factor + summand
    if DROPPED:
        z *= tl.load(kept + offset, mask=inside, other=0).to(tl.float32) * scale
    steepness = _load_slope(slope, constant, channel, known, SLOPES)
    y = tl.where(z > 0, z, z * steepness)
    y = tl.where((z <= 0) & (steepness == 0), 0.0, y)  # not NaN if z is -inf
    tl.store(out + offset, y.to(out.dtype.element_ty), mask=inside)


@jit(do_not_specialize=_NUMBERS)
def group_norm_sum_gradients(
    x,
    gradient,
    kept,
    slope,
    folded,
    partial,
    voxels,
    each,
    channels,
    chunks,
    size,
    constant,
    scale,
    DROPPED: tl.constexpr,
    SLOPES: tl.constexpr,
    FEW: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Programs as in group_norm_sum_values: sums of dz, dz · x̂ and, for slopes that are parameters, gradient · min(z, 0)."""
    wait_for_previous()
    chunk, item, step = tl.program_id(0), tl.program_id(2).to(tl.int64), tl.num_programs(2) * channels
    pitch = FEW if FEW else channels
    channel = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    known = channel < pitch
    place = folded + item * channels + channel
    mean = tl.load(place, mask=known, other=0.0)[None, :]
    inverse = tl.load(place + step, mask=known, other=0.0)[None, :]
    factor = tl.load(place + 2 * step, mask=known, other=0.0)[None, :]
    summand = tl.load(place + 3 * step, mask=known, other=0.0)[None, :]
    steepness = _load_slope(slope, constant, channel, known, SLOPES)
    last = tl.minimum((chunk + 1) * each, voxels)
    of_z = tl.zeros((BLOCK, WIDTH), tl.float32)
    of_normed = tl.zeros((BLOCK, WIDTH), tl.float32)
    of_slope = tl.zeros((BLOCK, WIDTH), tl.float32)
    for begin in range(chunk * each, last, BLOCK):
        voxel = begin + tl.arange(0, BLOCK)
        inside = (voxel < last)[:, None] & known[None, :]
        offset = (item * voxels + voxel.to(tl.int64))[:, None] * pitch + channel[None, :]
        value = tl.load(x + offset, mask=inside, other=0.0).to(tl.float32)
        above = tl.load(gradient + offset, mask=inside, other=0.0).to(tl.float32)
        if DROPPED:  # so that z need not be scaled: its sign stays, and the slope's gradient has the same factor
            above *= tl.load(kept + offset, mask=inside, other=0).to(tl.float32) * scale
        z = value * factor + summand
        dz = tl.where(z > 0, above, steepness * above)
        of_z += dz
        of_normed += dz * ((value - mean) * inverse)
        if SLOPES:
            of_slope += above * tl.minimum(z, 0.0)
    slot = partial + (item * channels + channel) * chunks + chunk
    tl.store(slot, tl.sum(of_z, axis=0), mask=known)
    tl.store(slot + size, tl.sum(of_normed, axis=0), mask=known)
    if SLOPES:
        tl.store(slot + 2 * size, tl.sum(of_slope, axis=0), mask=known)


@jit(do_not_specialize=_NUMBERS)
def group_norm_finish_gradients(
    partial,
    weight,
    folded,
    sums,
    passed,
    voxels,
    channels,
    chunks,
    per_group,
    size,
    AFFINE: tl.constexpr,
    SLOPES: tl.constexpr,
    GROUP: tl.constexpr,
    PARTS: tl.constexpr,
):
    """Programs: (groups, items). `sums` gets the sums of each channel, `passed` the coefficients of x's gradient.

    x's gradient is factor · dz + passed[0] · x + passed[1]. `sums[3]` is 0, the gradient of what the norm subtracts.
    """
    wait_for_previous()
    within, item, step = tl.arange(0, GROUP), tl.program_id(1).to(tl.int64), tl.num_programs(1) * channels
    known = within < per_group
    channel = tl.program_id(0) * per_group + within
    line = partial + ((item * channels + channel) * chunks)[:, None]
    of_z = tl.zeros((GROUP, PARTS), tl.float32)
    of_normed = tl.zeros((GROUP, PARTS), tl.float32)
    of_slope = tl.zeros((GROUP, PARTS), tl.float32)
    for begin in range(0, chunks, PARTS):
        number = begin + tl.arange(0, PARTS)[None, :]
        inside = known[:, None] & (number < chunks)
        of_z += tl.load(line + number, mask=inside, other=0.0)
        of_normed += tl.load(line + size + number, mask=inside, other=0.0)
        if SLOPES:
            of_slope += tl.load(line + 2 * size + number, mask=inside, other=0.0)
    first, second = tl.sum(of_z, axis=1), tl.sum(of_normed, axis=1)
    place = item * channels + channel
    tl.store(sums + place, first, mask=known)
    tl.store(sums + step + place, second, mask=known)
    if SLOPES:
        tl.store(sums + 2 * step + place, tl.sum(of_slope, axis=1), mask=known)
    tl.store(sums + 3 * step + place, tl.zeros((GROUP,), tl.float32), mask=known)
    if AFFINE:
        scale = tl.load(weight + channel, mask=known, other=0.0).to(tl.float32)
        first *= scale
        second *= scale
    count = voxels.to(tl.float32) * per_group
    mean = tl.load(folded + place, mask=known, other=0.0)
    inverse = tl.load(folded + step + place, mask=known, other=0.0)
    of_x = -inverse * inverse * (tl.sum(second, axis=0) / count)
    tl.store(passed + place, of_x, mask=known)
    tl.store(passed + step + place, -inverse * (tl.sum(first, axis=0) / count) - of_x * mean, mask=known)


@jit(do_not_specialize=_NUMBERS)
def group_norm_pass_gradient(
    x,
    gradient,
    beside,
    kept,
    slope,
    folded,
    passed,
    out,
    voxels,
    channels,
    constant,
    scale,
    BESIDE: tl.constexpr,
    DROPPED: tl.constexpr,
    SLOPES: tl.constexpr,
    FEW: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Programs as in group_norm_apply: the gradient of the norm's input. BESIDE: the gradient of its other use is added."""
    wait_for_previous()
    item, step = tl.program_id(2).to(tl.int64), tl.num_programs(2) * channels
    pitch = FEW if FEW else channels
    channel = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    known = channel < pitch
    place = item * channels + channel
    factor = tl.load(folded + 2 * step + place, mask=known, other=0.0)[None, :]
    summand = tl.load(folded + 3 * step + place, mask=known, other=0.0)[None, :]
    of_x = tl.load(passed + place, mask=known, other=0.0)[None, :]
    of_all = tl.load(passed + step + place, mask=known, other=0.0)[None, :]
    voxel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = (voxel < voxels)[:, None] & known[None, :]
    offset = (item * voxels + voxel.to(tl.int64))[:, None] * pitch + channel[None, :]
    value = tl.load(x + offset, mask=inside, other=0.0).to(tl.float32)
    above = tl.load(gradient + offset, mask=inside, other=0.0).to(tl.float32)
    if DROPPED:
        above *= tl.load(kept + offset, mask=inside, other=0).to(tl.float32) * scale
    steepness = _load_slope(slope, constant, channel, known, SLOPES)
    dz = tl.where(value * factor + summand > 0, above, steepness * above)
    total = factor * dz + of_x * value + of_all
    if BESIDE:
        total += tl.load(beside + offset, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + offset, total.to(out.dtype.element_ty), mask=inside)


@dataclass(frozen=True)
class Norm:
    """A kind of norm.

    Attributes:
        per_group: channels that share statistics; 1 for batch and instance norm.
        over_items: whether all items share them; true for batch norm.
        epsilon: added to the variance.
        momentum: of the running statistics, if any.
    """

    per_group: int
    over_items: bool
    epsilon: float
    momentum: float = 0.0


@dataclass(frozen=True)
class Dropout:
    """Which values are kept, of x's shape: bytes of 1, those dropped 0; and the factor of those that are kept."""

    kept: Tensor
    scale: float


def draw_dropout(x: Tensor, p: float) -> Dropout:
    """Return a dropout of values of x with probability p, drawn by torch's generator. Each value takes one byte."""
    kept = torch.empty_like(x, dtype=torch.uint8, memory_format=channels_last_of(x.dim()))
    return Dropout(kept.bernoulli_(1.0 - p), 1.0 / (1.0 - p))


@dataclass(frozen=True)
class Shares:
    """How a volume is divided among programs."""

    items: int
    voxels: int
    channels: int
    width: int
    chunks: int
    each: int
    groups: int
    group: int

    @classmethod
    def of(cls, x: Tensor, norm: Norm) -> "Shares":
        return cls._divide(x.shape, norm.over_items, norm.per_group)

    @classmethod
    @lru_cache(1024)
    def _divide(cls, shape: torch.Size, over_items: bool, per_group: int) -> "Shares":
        channels = shape[1]
        items = 1 if over_items else shape[0]
        voxels = shape.numel() // (items * channels)
        width = min(triton.next_power_of_2(channels), _WIDEST)
        block, programs = _SUMMED_TILE // width, items * triton.cdiv(channels, width)
        tiles = triton.cdiv(voxels, block)
        each = triton.cdiv(tiles, max(min(tiles, _PROGRAMS // programs), 1)) * block
        groups, group = channels // per_group, triton.next_power_of_2(per_group)
        return cls(items, voxels, channels, width, triton.cdiv(voxels, each), each, groups, group)

    @property
    def tiles(self) -> int:
        return triton.cdiv(self.channels, self.width)

    @property
    def few(self) -> int:
        """Return the number of channels if the compiler must know it, because there are fewer than 16; otherwise 0."""
        return self.channels if self.channels < _FEW_CHANNELS else 0

    @property
    def size(self) -> int:
        """Return how many values a sum has."""
        return self.items * self.channels * self.chunks

    @property
    def parts(self) -> int:
        """Return how many chunks a program merges at once."""
        return max(_FINISHED // self.group, 16)


def fold_statistics(
    x: Tensor,
    norm: Norm,
    weight: Tensor | None,
    bias: Tensor | None,
    left_out: Tensor | None = None,
    running: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """Return mean, 1 / standard deviation, factor and summand of each item's channels, shape (4, items or 1, channels)."""
    shares = Shares.of(x, norm)
    partial = x.new_empty((2, shares.size), dtype=torch.float32)
    group_norm_sum_values[(shares.chunks, shares.tiles, shares.items)](
        x, partial, shares.voxels, shares.each, shares.channels, shares.chunks, shares.size, FEW=shares.few,
        WIDTH=shares.width, BLOCK=_SUMMED_TILE // shares.width, **LAUNCH,
    )  # fmt: skip
    folded = x.new_empty((4, shares.items, shares.channels), dtype=torch.float32)
    mean, variance = (folded, folded) if running is None else running
    group_norm_finish_statistics[(shares.groups, shares.items)](
        partial, folded if weight is None else weight, folded if bias is None else bias,
        folded if left_out is None else left_out, mean, variance, folded, shares.voxels, shares.each, shares.channels,
        shares.chunks, norm.per_group, shares.size, norm.momentum, norm.epsilon, AFFINE=weight is not None,
        RUNNING=running is not None, LEFT_OUT=left_out is not None, GROUP=shares.group, PARTS=shares.parts, **LAUNCH,
    )  # fmt: skip
    return folded


def finish_gradients(
    partial: Tensor, shares: Shares, norm: Norm, weight: Tensor | None, folded: Tensor, slopes: int
) -> tuple[Tensor, Tensor]:
    """Return the sums of each channel and the coefficients of x's gradient; see :func:`group_norm_finish_gradients`."""
    sums, passed = torch.empty_like(folded), torch.empty_like(folded[:2])
    group_norm_finish_gradients[(shares.groups, shares.items)](
        partial, folded if weight is None else weight, folded, sums, passed, shares.voxels, shares.channels, shares.chunks,
        norm.per_group, shares.size, AFFINE=weight is not None, SLOPES=slopes, GROUP=shares.group, PARTS=shares.parts,
        **LAUNCH,
    )  # fmt: skip
    return sums, passed


class _NormActivate(Function):
    """Also returns x, for its other uses: one pass then gives the gradient of all of them."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        slope: Tensor | float,
        left_out: Tensor | None,
        norm: Norm,
        running: tuple[Tensor, Tensor] | None,
        dropout: Dropout | None,
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        x = as_channels_last(x)
        folded = fold_statistics(x, norm, weight, bias, left_out, running)
        out = apply_folded(x, folded, slope, dropout, over_items=norm.over_items)
        ctx.norm, ctx.slope = norm, None if isinstance(slope, Tensor) else slope
        ctx.has, ctx.scale = (weight is not None, left_out is not None), 1.0 if dropout is None else dropout.scale
        kept = None if dropout is None else as_channels_last(dropout.kept)
        ctx.save_for_backward(x, folded, weight, slope if isinstance(slope, Tensor) else None, kept)
        return out, x

    @staticmethod
    @refuse_double_backward
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        x, folded, weight, slope, kept = ctx.saved_tensors
        above, beside = gradients
        if above is None:
            return beside, *[None] * 7
        shares = Shares.of(x, ctx.norm)
        slopes = _count_slopes(slope)
        gradient = as_channels_last(above)
        read = folded if slope is None else slope
        constant = 1.0 if ctx.slope is None else ctx.slope
        dropped, mask = kept is not None, x if kept is None else kept
        partial = x.new_empty((3, shares.size), dtype=torch.float32)
        group_norm_sum_gradients[(shares.chunks, shares.tiles, shares.items)](
            x, gradient, mask, read, folded, partial, shares.voxels, shares.each, shares.channels, shares.chunks, shares.size,
            constant, ctx.scale, DROPPED=dropped, SLOPES=slopes, FEW=shares.few, WIDTH=shares.width,
            BLOCK=_SUMMED_TILE // shares.width, **LAUNCH,
        )  # fmt: skip
        sums, passed = finish_gradients(partial, shares, ctx.norm, weight, folded, slopes)
        below = torch.empty_like(x)
        block = _TILE // shares.width
        group_norm_pass_gradient[(triton.cdiv(shares.voxels, block), shares.tiles, shares.items)](
            x, gradient, x if beside is None else as_channels_last(beside), mask, read, folded, passed, below, shares.voxels,
            shares.channels, constant, ctx.scale, BESIDE=beside is not None, DROPPED=dropped, SLOPES=slopes, FEW=shares.few,
            WIDTH=shares.width, BLOCK=block, **LAUNCH,
        )  # fmt: skip
        affine, has_left_out = ctx.has
        of_weight = sum_items(sums[1]).to(weight.dtype) if affine else None
        of_bias = sum_items(sums[0]).to(weight.dtype) if affine else None
        of_slope = None
        if slope is not None:
            of_slope = (sum_items(sums[2]) if slopes == 2 else sums[2].sum().view(1)).to(slope.dtype)
        of_left_out = sums[3, 0] if has_left_out else None
        return below, of_weight, of_bias, of_slope, of_left_out, None, None, None


def sum_items(values: Tensor) -> Tensor:
    return values[0] if len(values) == 1 else values.sum(0)


def _count_slopes(slope: Tensor | float | None) -> int:
    """Return the kind of slopes, as in :func:`_load_slope`."""
    if not isinstance(slope, Tensor):
        return 0
    return 1 if slope.numel() == 1 else 2


def apply_folded(
    x: Tensor, folded: Tensor, slope: Tensor | float, dropout: Dropout | None = None, *, over_items: bool
) -> Tensor:
    """Return the activation of x · folded[2] + folded[3], or of what a dropout keeps of it.

    Args:
        x: shape (items, channels, …).
        folded: shape (4, items or 1, channels), fp32; the first two, mean and 1 / standard deviation, are not read.
        slope: of the activation below zero.
        dropout: which values are kept.
        over_items: whether all items share `folded`.
    """
    x = as_channels_last(x)
    shares = Shares.of(x, Norm(1, over_items, 0.0))
    out = torch.empty_like(x)
    block, is_constant = _TILE // shares.width, not isinstance(slope, Tensor)
    kept, scale = (x, 1.0) if dropout is None else (as_channels_last(dropout.kept), dropout.scale)
    group_norm_apply[(triton.cdiv(shares.voxels, block), shares.tiles, shares.items)](
        x, kept, folded if is_constant else slope, folded, out, shares.voxels, shares.channels, slope if is_constant else 1.0,
        scale, DROPPED=dropout is not None, SLOPES=_count_slopes(slope), FEW=shares.few, WIDTH=shares.width, BLOCK=block,
        **LAUNCH,
    )  # fmt: skip
    return out


def group_norm_and_input(
    x: Tensor,
    norm: Norm,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    slope: Tensor | float = 1.0,
    left_out: Tensor | None = None,
    running: tuple[Tensor, Tensor] | None = None,
    dropout: Dropout | None = None,
) -> tuple[Tensor, Tensor]:
    """Return activation(dropout(norm(x + left_out))), on a GPU, channels last, of x's precision; and x.

    Use the returned x for its other uses: the norm's own pass then adds their gradient. Sources of the formulas: S. Ioffe and
    C. Szegedy, "Batch Normalization", 2015; Y. Wu and K. He, "Group Normalization", 2018.

    Args:
        x: shape (items, channels, x, y) or (items, channels, x, y, z), in fp32 or half precision.
        norm: its kind.
        weight: shape (channels,), with `bias`; None: the norm has no parameters.
        bias: shape (channels,).
        slope: of the activation below zero: 0 a ReLU, 1 none, a parameter of one or `channels` values a PReLU.
        left_out: the bias that the convolution before has not added, shape (channels,). The norm subtracts it, so it only
            affects the running mean, and its gradient is 0. Only for norms whose channels do not share statistics.
        running: mean and variance of a batch norm, fp32; they are updated as torch does.
        dropout: which values of the norm's result are kept; None: all. See :func:`draw_dropout`.

    Raises:
        ValueError: the channels do not make whole groups, a bias is left out before a norm whose channels share statistics, or
            the dropout is of another shape.
    """
    if x.shape[1] % norm.per_group:
        raise ValueError(f"{x.shape[1]} channels do not make groups of {norm.per_group}")
    if norm.per_group > 1 and left_out is not None:
        raise ValueError(f"a norm of groups of {norm.per_group} channels does not take away what differs between them")
    if dropout is not None and dropout.kept.shape != x.shape:
        raise ValueError(f"a dropout of {tuple(dropout.kept.shape)}, for {tuple(x.shape)}")
    return cast(tuple[Tensor, Tensor], _NormActivate.apply(x, weight, bias, slope, left_out, norm, running, dropout))
