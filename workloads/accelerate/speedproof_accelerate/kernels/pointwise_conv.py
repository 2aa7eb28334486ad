"""1 × 1 × 1 convolutions to few channels, as in the last layer of a network: one pass forward, one backward.

A product with so few columns does not fit tensor cores. Torch uses a matrix product nevertheless, and three passes.
"""

from typing import Any, cast

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function

from speedproof_accelerate.kernels.autograd import refuse_double_backward
from speedproof_accelerate.kernels.channels_last import as_channels_last, empty_volume
from speedproof_accelerate.kernels.launch import LAUNCH, jit, wait_for_previous
from speedproof_accelerate.parts import POINTWISE_CHANNELS, POINTWISE_RESULTS

_TILE, _SUMMED_TILE = 8192, 4096  # products of a tile: of a program that applies, and of one that sums
_PROGRAMS = 1056  # that sum: eight on each multiprocessor of a large GPU


@jit(do_not_specialize=["voxels"])
def pointwise_apply(
    x,
    weight,
    bias,
    out,
    voxels,
    channels,
    RESULTS: tl.constexpr,
    BIAS: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Programs: tiles of voxels. ROWS and WIDTH: the next powers of two of results and channels."""
    wait_for_previous()
    result, channel = tl.arange(0, ROWS), tl.arange(0, WIDTH)
    voxel = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = voxel < voxels
    values = tl.load(x + voxel[:, None] * channels + channel, mask=there[:, None] & (channel < channels), other=0.0)
    known = (result < RESULTS)[:, None] & (channel < channels)
    factors = tl.load(weight + result[:, None] * channels + channel, mask=known, other=0.0).to(tl.float32)
    total = tl.sum(values.to(tl.float32)[None, :, :] * factors[:, None, :], axis=2)
    if BIAS:
        total += tl.load(bias + result, mask=result < RESULTS, other=0.0).to(tl.float32)[:, None]
    place = out + voxel[None, :] * RESULTS + result[:, None]
    tl.store(place, total.to(out.dtype.element_ty), mask=there[None, :] & (result < RESULTS)[:, None])


@jit(do_not_specialize=["voxels", "each"])
def pointwise_pass_gradient(
    x,
    gradient,
    weight,
    below,
    partial,
    voxels,
    each,
    channels,
    RESULTS: tl.constexpr,
    PASS: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Each program: sums over its voxels of gradient · x and, in the last column, of the gradient. PASS: also x's gradient."""
    wait_for_previous()
    program = tl.program_id(0).to(tl.int64)
    result, channel = tl.arange(0, ROWS), tl.arange(0, WIDTH)
    known = (result < RESULTS)[:, None] & (channel < channels)
    factors = tl.load(weight + result[:, None] * channels + channel, mask=known, other=0.0).to(tl.float32)
    products = tl.zeros((ROWS, BLOCK, WIDTH), tl.float32)
    sums = tl.zeros((ROWS, BLOCK), tl.float32)
    last = tl.minimum((program + 1) * each, voxels)
    for begin in range(program * each, last, BLOCK):
        voxel = begin + tl.arange(0, BLOCK)
        there = voxel < last
        inside = there[:, None] & (channel < channels)
        place = voxel[:, None] * channels + channel
        values = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
        above = gradient + voxel[None, :] * RESULTS + result[:, None]
        above = tl.load(above, mask=there[None, :] & (result < RESULTS)[:, None], other=0.0).to(tl.float32)
        products += above[:, :, None] * values[None, :, :]
        sums += above
        if PASS:
            passed = tl.sum(above[:, :, None] * factors[:, None, :], axis=0)
            tl.store(below + place, passed.to(below.dtype.element_ty), mask=inside)
    line = partial + program * RESULTS * (channels + 1) + result * (channels + 1)
    tl.store(line[:, None] + channel, tl.sum(products, axis=1), mask=known)
    tl.store(line + channels, tl.sum(sums, axis=1), mask=result < RESULTS)


class _PointwiseConv(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        x, matrix = as_channels_last(x), weight.flatten(1).contiguous()
        results, channels = matrix.shape
        items, _, *sides = x.shape
        out = empty_volume(items, results, tuple(sides), x)
        voxels = x.numel() // channels
        rows, width = triton.next_power_of_2(results), triton.next_power_of_2(channels)
        block = _TILE // (rows * width)
        pointwise_apply[(triton.cdiv(voxels, block),)](
            x, matrix, matrix if bias is None else bias, out, voxels, channels, RESULTS=results, BIAS=bias is not None,
            ROWS=rows, WIDTH=width, BLOCK=block, **LAUNCH,
        )  # fmt: skip
        ctx.save_for_backward(x, matrix)
        ctx.shape, ctx.kinds = weight.shape, (weight.dtype, None if bias is None else bias.dtype)
        return out

    @staticmethod
    @refuse_double_backward
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, matrix = ctx.saved_tensors
        gradient, (results, channels) = as_channels_last(gradients[0]), matrix.shape
        voxels, passes = x.numel() // channels, ctx.needs_input_grad[0]
        rows, width = triton.next_power_of_2(results), triton.next_power_of_2(channels)
        block = max(_SUMMED_TILE // (rows * width), 16)
        tiles = triton.cdiv(voxels, block)
        each = triton.cdiv(tiles, min(tiles, _PROGRAMS)) * block
        programs = triton.cdiv(voxels, each)
        below = torch.empty_like(x) if passes else x
        partial = x.new_empty((programs, results, channels + 1), dtype=torch.float32)
        pointwise_pass_gradient[(programs,)](
            x, gradient, matrix, below, partial, voxels, each, channels, RESULTS=results, PASS=passes, ROWS=rows, WIDTH=width,
            BLOCK=block, **LAUNCH,
        )  # fmt: skip
        sums = partial.sum(0)
        of_weight, of_bias = ctx.kinds
        return (
            below if passes else None,
            sums[:, :-1].reshape(ctx.shape).to(of_weight),
            None if of_bias is None else sums[:, -1].to(of_bias),
        )


def pointwise_conv(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return a convolution of 1 × 1 × 1, of x's precision, channels last.

    Args:
        x: shape (items, channels, x, y) or (items, channels, x, y, z), on a GPU; up to 64 channels.
        weight: shape (results, channels, 1, …), up to 4 results; its gradient is of its type.
        bias: shape (results,).

    Raises:
        ValueError: there are more channels or results.
    """
    results, channels = weight.shape[:2]
    if results > POINTWISE_RESULTS or channels > POINTWISE_CHANNELS:
        most = f"{POINTWISE_CHANNELS} and {POINTWISE_RESULTS}"
        raise ValueError(f"{channels} channels and {results} results: the kernel supports up to {most}; use torch's")
    return cast(Tensor, _PointwiseConv.apply(x, weight, bias))
