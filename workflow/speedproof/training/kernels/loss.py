"""Dice loss and cross entropy of two classes as one operation: one pass over logits and labels forward, one backward."""

from typing import Any, cast

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function

from speedproof.training.kernels.rows import as_channels_last

_BLOCK = 2048
_PROGRAMS = 1056


@triton.jit
def _load_difference(logits, voxel, inside):
    """Return the foreground's logit less the background's."""
    pair = tl.load(logits + voxel[:, None] * 2 + tl.arange(0, 2)[None, :], mask=inside[:, None], other=0.0).to(tl.float32)
    background, foreground = tl.split(pair)
    return foreground - background


@triton.jit(do_not_specialize=["voxels"])
def dice_ce_sum_terms(logits, labels, partial, voxels, BLOCK: tl.constexpr):
    """Each program: sums of p·y, p², y, (1−p)·(1−y), (1−p)² and cross entropy over its voxels; p, y: of the foreground."""
    program = tl.program_id(0)
    common = tl.zeros((BLOCK,), tl.float32)
    own = tl.zeros((BLOCK,), tl.float32)
    true = tl.zeros((BLOCK,), tl.float32)
    other_common = tl.zeros((BLOCK,), tl.float32)
    other_own = tl.zeros((BLOCK,), tl.float32)
    entropy = tl.zeros((BLOCK,), tl.float32)
    for start in range(program * BLOCK, voxels, tl.num_programs(0) * BLOCK):
        voxel = start + tl.arange(0, BLOCK)
        inside = voxel < voxels
        difference = _load_difference(logits, voxel, inside)
        y = tl.load(labels + voxel, mask=inside, other=0).to(tl.float32)
        p = tl.sigmoid(difference)
        q = tl.sigmoid(-difference)
        counted = inside.to(tl.float32)
        common += p * y
        own += p * p * counted
        true += y
        other_common += q * (counted - y)
        other_own += q * q * counted
        against = tl.where(y > 0, -difference, difference)
        entropy += counted * (tl.maximum(against, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(against))))
    here = partial + program * 6
    tl.store(here, tl.sum(common, axis=0))
    tl.store(here + 1, tl.sum(own, axis=0))
    tl.store(here + 2, tl.sum(true, axis=0))
    tl.store(here + 3, tl.sum(other_common, axis=0))
    tl.store(here + 4, tl.sum(other_own, axis=0))
    tl.store(here + 5, tl.sum(entropy, axis=0))


@triton.jit(do_not_specialize=["voxels"])
def dice_ce_pass_gradient(logits, labels, factors, out, voxels, BLOCK: tl.constexpr):
    """Gradients of both logits. `factors`: of y and p in the foreground's Dice, of 1−y and 1−p in the other's, of p−y."""
    voxel = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = voxel < voxels
    difference = _load_difference(logits, voxel, inside)
    y = tl.load(labels + voxel, mask=inside, other=0).to(tl.float32)
    p = tl.sigmoid(difference)
    q = tl.sigmoid(-difference)
    foreground = tl.load(factors) * y + tl.load(factors + 1) * p
    background = tl.load(factors + 2) * (1.0 - y) + tl.load(factors + 3) * q
    gradient = p * q * (foreground - background) + tl.load(factors + 4) * tl.where(y > 0, -q, p)
    both = tl.join(-gradient, gradient).to(out.dtype.element_ty)
    tl.store(out + voxel[:, None] * 2 + tl.arange(0, 2)[None, :], both, mask=inside[:, None])


class _DiceCrossEntropy(Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, smooth: float, weight: float) -> Tensor:
        logits, labels = as_channels_last(logits), labels.contiguous()
        voxels = labels.numel()
        programs = min(triton.cdiv(voxels, _BLOCK), _PROGRAMS)
        partial = logits.new_empty((programs, 6), dtype=torch.float32)
        dice_ce_sum_terms[(programs,)](logits, labels, partial, voxels, BLOCK=_BLOCK)
        common, own, true, other_common, other_own, entropy = partial.sum(dim=0)
        numerators = 2 * torch.stack([common, other_common]) + smooth
        denominators = torch.stack([own + true, other_own + voxels - true]) + smooth
        # Of 1 − n/d, averaged over both classes: −(2/d) with respect to p·y, (n/d²) · 2p with respect to p².
        of_common = -weight / denominators
        of_own = weight * numerators / denominators**2
        of_entropy = torch.full_like(entropy, weight / voxels)
        ctx.factors = torch.stack([of_common[0], of_own[0], of_common[1], of_own[1], of_entropy])
        ctx.save_for_backward(logits, labels)
        return weight * (1 - numerators / denominators).mean() + weight * entropy / voxels

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        logits, labels = ctx.saved_tensors
        below = torch.empty_like(logits)
        voxels = labels.numel()
        factors = ctx.factors * gradients[0].float()
        dice_ce_pass_gradient[(triton.cdiv(voxels, _BLOCK),)](logits, labels, factors, below, voxels, BLOCK=_BLOCK)
        return below, None, None, None


def dice_cross_entropy(logits: Tensor, labels: Tensor, smooth: float, weight: float) -> Tensor:
    """Return weight · (Dice loss + cross entropy) of two classes, as MONAI's DiceCELoss has it.

    With `softmax=True, to_onehot_y=True, squared_pred=True, batch=True, include_background=True`, `smooth` in numerator and
    denominator, and `weight` for both parts. Source of the formula: MONAI, `monai.losses.DiceLoss`.

    Args:
        logits: shape (items, 2, x, y, z), on a GPU.
        labels: 0 or 1, shape (items, 1, x, y, z), uint8.
        smooth: what is added above and below the fraction line of Dice.
        weight: of both parts.

    Raises:
        ValueError: logits and labels are not of these shapes, or not of the same voxels.
    """
    items, _, *sides = labels.shape
    if logits.shape != (items, 2, *sides) or labels.shape != (items, 1, *sides):
        raise ValueError(f"logits of shape {tuple(logits.shape)} do not go with labels of shape {tuple(labels.shape)}")
    return cast(Tensor, _DiceCrossEntropy.apply(logits, labels, smooth, weight))
