"""Group or instance norm, the addition of a residual and an activation as one operation.

Forward: one pass for the statistics, one for the result. Backward: one for the sums and the residual's gradient, one for x's.
The sign before the activation is read from the result.
"""

from typing import Any, cast

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function

from speedproof_accelerate.kernels.autograd import refuse_double_backward
from speedproof_accelerate.kernels.channels_last import as_channels_last
from speedproof_accelerate.kernels.group_norm import (
    _NUMBERS,
    _SUMMED_TILE,
    _TILE,
    Norm,
    Shares,
    finish_gradients,
    fold_statistics,
    group_norm_pass_gradient,
    sum_items,
)
from speedproof_accelerate.kernels.launch import LAUNCH, jit, wait_for_previous


@jit(do_not_specialize=_NUMBERS)
def group_norm_apply_residual(
    x, residual, folded, out, voxels, channels, constant, FEW: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr
):
    """Programs: (tiles of voxels, tiles of channels, items): activation of x · factor + summand + residual."""
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
    z += tl.load(residual + offset, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + offset, tl.where(z > 0, z, z * constant).to(out.dtype.element_ty), mask=inside)


@jit(do_not_specialize=_NUMBERS)
def group_norm_sum_residual_gradients(
    x,
    gradient,
    result,
    folded,
    of_residual,
    partial,
    voxels,
    each,
    channels,
    chunks,
    size,
    constant,
    FEW: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Programs: (chunks, tiles of channels, items): the residual's gradient dz, and the sums of dz and dz · x̂."""
    wait_for_previous()
    chunk, item, step = tl.program_id(0), tl.program_id(2).to(tl.int64), tl.num_programs(2) * channels
    pitch = FEW if FEW else channels
    channel = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    known = channel < pitch
    place = folded + item * channels + channel
    mean = tl.load(place, mask=known, other=0.0)[None, :]
    inverse = tl.load(place + step, mask=known, other=0.0)[None, :]
    last = tl.minimum((chunk + 1) * each, voxels)
    of_z = tl.zeros((BLOCK, WIDTH), tl.float32)
    of_normed = tl.zeros((BLOCK, WIDTH), tl.float32)
    for begin in range(chunk * each, last, BLOCK):
        voxel = begin + tl.arange(0, BLOCK)
        inside = (voxel < last)[:, None] & known[None, :]
        offset = (item * voxels + voxel.to(tl.int64))[:, None] * pitch + channel[None, :]
        value = tl.load(x + offset, mask=inside, other=0.0).to(tl.float32)
        above = tl.load(gradient + offset, mask=inside, other=0.0).to(tl.float32)
        positive = tl.load(result + offset, mask=inside, other=0.0).to(tl.float32) > 0
        dz = tl.where(positive, above, constant * above)
        tl.store(of_residual + offset, dz.to(of_residual.dtype.element_ty), mask=inside)
        of_z += dz
        of_normed += dz * ((value - mean) * inverse)
    slot = partial + (item * channels + channel) * chunks + chunk
    tl.store(slot, tl.sum(of_z, axis=0), mask=known)
    tl.store(slot + size, tl.sum(of_normed, axis=0), mask=known)


class _NormAddActivate(Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        residual: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        left_out: Tensor | None,
        norm: Norm,
        slope: float,
    ) -> Tensor:
        x, residual = as_channels_last(x), as_channels_last(residual)
        folded = fold_statistics(x, norm, weight, bias)
        shares, out = Shares.of(x, norm), torch.empty_like(x)
        block = _TILE // shares.width
        group_norm_apply_residual[(triton.cdiv(shares.voxels, block), shares.tiles, shares.items)](
            x, residual, folded, out, shares.voxels, shares.channels, slope, FEW=shares.few, WIDTH=shares.width, BLOCK=block,
            **LAUNCH,
        )  # fmt: skip
        ctx.norm, ctx.slope, ctx.left_out = norm, slope, None if left_out is None else left_out.shape
        ctx.save_for_backward(x, folded, weight, out)
        return out

    @staticmethod
    @refuse_double_backward
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        x, folded, weight, out = ctx.saved_tensors
        gradient, shares = as_channels_last(above), Shares.of(x, ctx.norm)
        of_residual, below = torch.empty_like(x), torch.empty_like(x)
        partial = x.new_empty((3, shares.size), dtype=torch.float32)
        group_norm_sum_residual_gradients[(shares.chunks, shares.tiles, shares.items)](
            x, gradient, out, folded, of_residual, partial, shares.voxels, shares.each, shares.channels, shares.chunks,
            shares.size, ctx.slope, FEW=shares.few, WIDTH=shares.width, BLOCK=_SUMMED_TILE // shares.width, **LAUNCH,
        )  # fmt: skip
        sums, passed = finish_gradients(partial, shares, ctx.norm, weight, folded, 0)
        block = _TILE // shares.width
        group_norm_pass_gradient[(triton.cdiv(shares.voxels, block), shares.tiles, shares.items)](
            x, of_residual, x, x, folded, folded, passed, below, shares.voxels, shares.channels, 1.0, 1.0, BESIDE=False,
            DROPPED=False, SLOPES=0, FEW=shares.few, WIDTH=shares.width, BLOCK=block, **LAUNCH,
        )  # fmt: skip
        affine = weight is not None
        of_weight, of_bias = (sum_items(sums[one]).to(weight.dtype) if affine else None for one in (1, 0))
        of_left_out = None if ctx.left_out is None else folded.new_zeros(ctx.left_out)
        return below, of_residual, of_weight, of_bias, of_left_out, None, None


def group_norm_residual(
    x: Tensor,
    residual: Tensor,
    norm: Norm,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    slope: float = 1.0,
    left_out: Tensor | None = None,
) -> Tensor:
    """Return activation(norm(x + left_out) + residual), on a GPU, channels last, of x's precision.

    Args:
        x: shape (items, channels, x, y) or (items, channels, x, y, z), in fp32 or half precision.
        residual: of x's shape and precision.
        norm: its kind, without running statistics.
        weight: shape (channels,), with `bias`; None: the norm has no parameters.
        bias: shape (channels,).
        slope: of the activation below zero, not negative: 0 a ReLU, 1 none.
        left_out: the bias that the convolution before has not added, shape (channels,). The norm subtracts it, so its gradient
            is 0. Only for norms whose channels do not share statistics.

    Raises:
        ValueError: shapes or precisions differ, the slope is negative, or a bias is left out before a norm whose channels share
            statistics.
    """
    if residual.shape != x.shape or residual.dtype != x.dtype:
        raise ValueError(f"a residual of {tuple(residual.shape)}, {residual.dtype}, for {tuple(x.shape)}, {x.dtype}")
    if slope < 0:
        raise ValueError(f"the slope {slope} is negative: the result does not show the sign before the activation")
    if norm.per_group > 1 and left_out is not None:
        raise ValueError(f"a norm of groups of {norm.per_group} channels does not take away what differs between them")
    return cast(Tensor, _NormAddActivate.apply(x, residual, weight, bias, left_out, norm, slope))
