"""Dice loss and cross entropy of two classes as one operation: one pass over logits and labels forward, one backward."""

from typing import Any, cast

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function

from speedproof_accelerate.kernels.autograd import refuse_double_backward
from speedproof_accelerate.kernels.channels_last import as_channels_last
from speedproof_accelerate.kernels.launch import LAUNCH, wait_for_previous
from speedproof_accelerate.kernels.packed_pairs import as_pairs, join_pairs, split_pairs

_BLOCK = 512  # voxels that a program takes at a time
_PROGRAMS = 1056  # that sum: eight on each multiprocessor of a large GPU
_PARTS, _WARPS = triton.next_power_of_2(_PROGRAMS), 8  # tile and warps of the program that adds their sums


@triton.jit
def _load_voxels(pairs, labels, first, voxels, like, BLOCK: tl.constexpr):
    """Return for each voxel of a tile: place, whether it is inside, label, difference of logits, p, 1 − p and e^−|difference|.

    The difference is the foreground's logit minus the background's; p is the foreground's probability. One exponential gives
    all.
    """
    voxel = first + tl.arange(0, BLOCK)
    inside = voxel < voxels
    background, foreground = split_pairs(tl.load(pairs + voxel, mask=inside, other=0), like)
    difference = foreground.to(tl.float32) - background.to(tl.float32)
    y = tl.load(labels + voxel, mask=inside, other=0) > 0
    small = tl.exp(-tl.abs(difference))
    likely = 1.0 / (1.0 + small)
    unlikely = small * likely
    above = difference > 0
    return voxel, inside, y, difference, tl.where(above, likely, unlikely), tl.where(above, unlikely, likely), small


@triton.jit
def dice_ce_sum_terms(pairs, labels, partial, like, voxels, BLOCK: tl.constexpr):
    """Each program: sums over its voxels of p·y, p², y, (1−p)·(1−y), (1−p)² and cross entropy; p and y are the foreground's."""
    wait_for_previous()
    program = tl.program_id(0)
    common = tl.zeros((BLOCK,), tl.float32)
    own = tl.zeros((BLOCK,), tl.float32)
    true = tl.zeros((BLOCK,), tl.float32)
    other_common = tl.zeros((BLOCK,), tl.float32)
    other_own = tl.zeros((BLOCK,), tl.float32)
    entropy = tl.zeros((BLOCK,), tl.float32)
    for start in range(program * BLOCK, voxels, tl.num_programs(0) * BLOCK):
        _, inside, y, difference, p, q, small = _load_voxels(pairs, labels, start, voxels, like, BLOCK)
        p = tl.where(inside, p, 0.0)
        q = tl.where(inside, q, 0.0)
        common += tl.where(y, p, 0.0)
        own += p * p
        true += y.to(tl.float32)
        other_common += tl.where(y, 0.0, q)
        other_own += q * q
        against = tl.maximum(tl.where(y, -difference, difference), 0.0)
        entropy += tl.where(inside, against + tl.log(1.0 + small), 0.0)
    programs = tl.num_programs(0)
    here = partial + program
    tl.store(here, tl.sum(common, axis=0))
    tl.store(here + programs, tl.sum(own, axis=0))
    tl.store(here + 2 * programs, tl.sum(true, axis=0))
    tl.store(here + 3 * programs, tl.sum(other_common, axis=0))
    tl.store(here + 4 * programs, tl.sum(other_own, axis=0))
    tl.store(here + 5 * programs, tl.sum(entropy, axis=0))


@triton.jit
def _finish_dice(common, squares, factors, smooth, weight):
    """Return one class's Dice, and store the factors of the gradients of its two sums."""
    # Of 1 − n/d, averaged over both classes: −(2/d) with respect to p·y, (n/d²) · 2p with respect to p².
    dice = tl.div_rn(2 * common + smooth, squares + smooth)
    share = tl.div_rn(weight, squares + smooth)
    tl.store(factors, -share)
    tl.store(factors + 1, share * dice)
    return dice


@triton.jit(do_not_specialize=["programs", "voxels", "smooth", "weight"])
def dice_ce_finish(partial, lost, factors, programs, voxels, smooth, weight, PARTS: tl.constexpr):
    """Add the programs' sums: the loss, and the five `factors` of its gradient. One program, since there is little to add."""
    wait_for_previous()
    program = tl.arange(0, PARTS)
    here, known = partial + program, program < programs
    # All loads come before the sums: the program waits for memory once.
    common = tl.load(here, mask=known, other=0.0)
    own = tl.load(here + programs, mask=known, other=0.0)
    true = tl.load(here + 2 * programs, mask=known, other=0.0)
    other_common = tl.load(here + 3 * programs, mask=known, other=0.0)
    other_own = tl.load(here + 4 * programs, mask=known, other=0.0)
    entropy = tl.load(here + 5 * programs, mask=known, other=0.0)
    common, own, true = tl.sum(common, axis=0), tl.sum(own, axis=0), tl.sum(true, axis=0)
    other_common, other_own, entropy = tl.sum(other_common, axis=0), tl.sum(other_own, axis=0), tl.sum(entropy, axis=0)
    count = voxels.to(tl.float32)
    dice = _finish_dice(common, own + true, factors, smooth, weight)
    other_dice = _finish_dice(other_common, other_own + (count - true), factors + 2, smooth, weight)
    tl.store(factors + 4, tl.div_rn(weight, count))
    tl.store(lost, weight * (0.5 * ((1 - dice) + (1 - other_dice)) + tl.div_rn(entropy, count)))


@triton.jit
def dice_ce_pass_gradient(pairs, labels, factors, above, below, like, voxels, BLOCK: tl.constexpr):
    """Gradients of both logits; `above` is the gradient of the loss.

    `factors`: of y and p in the foreground's Dice, of 1−y and 1−p in the background's, and of p−y.
    """
    wait_for_previous()
    first = tl.program_id(0).to(tl.int64) * BLOCK
    voxel, inside, y, _, p, q, _ = _load_voxels(pairs, labels, first, voxels, like, BLOCK)
    foreground = tl.load(factors + 1) * p + tl.where(y, tl.load(factors), 0.0)
    background = tl.load(factors + 3) * q + tl.where(y, 0.0, tl.load(factors + 2))
    gradient = p * q * (foreground - background) + tl.load(factors + 4) * tl.where(y, -q, p)
    gradient *= tl.load(above).to(tl.float32)
    tl.store(below + voxel, join_pairs(-gradient, gradient, like), mask=inside)


class _DiceCELoss(Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, smooth: float, weight: float) -> Tensor:
        logits, labels = as_channels_last(logits), labels.contiguous()
        voxels = labels.numel()
        programs = min(triton.cdiv(voxels, _BLOCK), _PROGRAMS)
        partial = logits.new_empty((6, programs), dtype=torch.float32)
        dice_ce_sum_terms[(programs,)](as_pairs(logits), labels, partial, logits, voxels, BLOCK=_BLOCK, **LAUNCH)
        lost, factors = partial.new_empty(()), partial.new_empty(5)
        dice_ce_finish[(1,)](partial, lost, factors, programs, voxels, smooth, weight, PARTS=_PARTS, num_warps=_WARPS, **LAUNCH)
        ctx.factors = factors
        ctx.save_for_backward(logits, labels)
        return lost

    @staticmethod
    @refuse_double_backward
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        logits, labels = ctx.saved_tensors
        below = torch.empty_like(logits)
        voxels = labels.numel()
        tiles = triton.cdiv(voxels, _BLOCK)
        dice_ce_pass_gradient[(tiles,)](
            as_pairs(logits), labels, ctx.factors, gradients[0], as_pairs(below), logits, voxels, BLOCK=_BLOCK, **LAUNCH
        )
        return below, None, None, None


def dice_ce_loss(logits: Tensor, labels: Tensor, smooth: float, weight: float) -> Tensor:
    """Return weight · (Dice loss + cross entropy) of two classes, as MONAI's DiceCELoss has it.

    With `softmax=True, to_onehot_y=True, squared_pred=True, batch=True, include_background=True`, `smooth` in numerator and
    denominator, and `weight` for both parts. Source of the formula: MONAI, `monai.losses.DiceLoss`.

    Args:
        logits: shape (items, 2, x, y, z), on a GPU.
        labels: 0 or 1, shape (items, 1, x, y, z), uint8.
        smooth: added to the numerator and the denominator of Dice.
        weight: of both parts.

    Raises:
        ValueError: logits and labels are not of these shapes, or not of the same voxels.
    """
    items, _, *sides = labels.shape
    if logits.shape != (items, 2, *sides) or labels.shape != (items, 1, *sides):
        raise ValueError(f"logits of shape {tuple(logits.shape)} do not go with labels of shape {tuple(labels.shape)}")
    return cast(Tensor, _DiceCELoss.apply(logits, labels, smooth, weight))
