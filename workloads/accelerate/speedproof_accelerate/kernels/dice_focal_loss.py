"""Dice and focal loss of overlapping regions as one operation: one pass over logits and labels forward, one backward."""

from typing import Any, cast

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function

from speedproof_accelerate.kernels.autograd import refuse_double_backward
from speedproof_accelerate.kernels.channels_last import as_channels_last
from speedproof_accelerate.kernels.launch import LAUNCH, wait_for_previous

_BLOCK = 256  # voxels that a program takes at a time
_PROGRAMS = 1056  # that sum: eight on each multiprocessor of a large GPU
MOST_REGIONS = 8  # the bits of a label


@triton.jit
def _load_voxels(logits, labels, first, voxels, regions, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    """Return for each logit of a tile: place, whether it is inside, label, p, probability of the label, and its logarithm."""
    voxel = first + tl.arange(0, BLOCK)
    region = tl.arange(0, WIDTH)[None, :]
    inside = (voxel < voxels)[:, None] & (region < regions)
    place = voxel[:, None] * regions + region
    x = tl.load(logits + place, mask=inside, other=0.0).to(tl.float32)
    bits = tl.load(labels + voxel, mask=voxel < voxels, other=0).to(tl.int32)
    y = ((bits[:, None] >> region) & 1) == 1
    small = tl.exp(-tl.abs(x))
    likely = 1.0 / (1.0 + small)
    p = tl.where(x > 0, likely, small * likely)
    right = tl.where(y, p, tl.where(x > 0, small * likely, likely))
    log_right = tl.minimum(tl.where(y, x, -x), 0.0) - tl.log(1.0 + small)
    return place, inside, y, p, right, log_right


@triton.jit
def regions_sum_terms(logits, labels, partial, voxels, regions, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    """Each program: sums over its voxels, for each region, of p·y, p², y and focal loss."""
    wait_for_previous()
    program, programs = tl.program_id(0).to(tl.int64), tl.num_programs(0)
    common = tl.zeros((BLOCK, WIDTH), tl.float32)
    own = tl.zeros((BLOCK, WIDTH), tl.float32)
    true = tl.zeros((BLOCK, WIDTH), tl.float32)
    focal = tl.zeros((BLOCK, WIDTH), tl.float32)
    for start in range(program * BLOCK, voxels, programs * BLOCK):
        _, inside, y, p, right, log_right = _load_voxels(logits, labels, start, voxels, regions, BLOCK, WIDTH)
        p = tl.where(inside, p, 0.0)
        common += tl.where(y, p, 0.0)
        own += p * p
        true += (y & inside).to(tl.float32)
        focal -= tl.where(inside, (1.0 - right) * (1.0 - right) * log_right, 0.0)
    region = tl.arange(0, WIDTH)
    here, step, known = partial + region * programs + program, regions * programs, region < regions
    tl.store(here, tl.sum(common, axis=0), mask=known)
    tl.store(here + step, tl.sum(own, axis=0), mask=known)
    tl.store(here + 2 * step, tl.sum(true, axis=0), mask=known)
    tl.store(here + 3 * step, tl.sum(focal, axis=0), mask=known)


@triton.jit
def regions_pass_gradient(logits, labels, factors, above, below, voxels, regions, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    """Gradients of the logits. `factors`, for each region: of y and of p in Dice, and of the focal loss."""
    wait_for_previous()
    first = tl.program_id(0).to(tl.int64) * BLOCK
    place, inside, y, p, right, log_right = _load_voxels(logits, labels, first, voxels, regions, BLOCK, WIDTH)
    region = tl.arange(0, WIDTH)
    known = region < regions
    of_label = tl.load(factors + region, mask=known, other=0.0)[None, :]
    of_chance = tl.load(factors + regions + region, mask=known, other=0.0)[None, :]
    of_focal = tl.load(factors + 2 * regions + region, mask=known, other=0.0)[None, :]
    wrong = 1.0 - right
    focal = wrong * wrong * (2.0 * right * log_right - wrong)
    gradient = p * (1.0 - p) * (of_chance * p + tl.where(y, of_label, 0.0)) + of_focal * tl.where(y, focal, -focal)
    gradient *= tl.load(above).to(tl.float32)
    tl.store(below + place, gradient.to(below.dtype.element_ty), mask=inside)


class _DiceFocalLoss(Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, smooth: float) -> Tensor:
        logits, labels = as_channels_last(logits), labels.contiguous()
        voxels, regions = labels.numel(), logits.shape[1]
        programs, width = min(triton.cdiv(voxels, _BLOCK), _PROGRAMS), triton.next_power_of_2(regions)
        partial = logits.new_empty((4, regions, programs), dtype=torch.float32)
        regions_sum_terms[(programs,)](logits, labels, partial, voxels, regions, BLOCK=_BLOCK, WIDTH=width, **LAUNCH)
        common, own, true, focal = partial.sum(2)
        above, below = 2 * common + smooth, own + true + smooth
        shares = torch.full_like(below, 1 / (regions * voxels))
        ctx.factors = torch.stack([-2 / (regions * below), 2 * above / (regions * below.square()), shares])
        ctx.save_for_backward(logits, labels)
        return cast(Tensor, (1 - above / below).mean() + focal.sum() / (regions * voxels))

    @staticmethod
    @refuse_double_backward
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        logits, labels = ctx.saved_tensors
        below, voxels, regions = torch.empty_like(logits), labels.numel(), logits.shape[1]
        regions_pass_gradient[(triton.cdiv(voxels, _BLOCK),)](
            logits, labels, ctx.factors, gradients[0], below, voxels, regions, BLOCK=_BLOCK,
            WIDTH=triton.next_power_of_2(regions), **LAUNCH,
        )  # fmt: skip
        return below, None, None


def dice_focal_loss(logits: Tensor, labels: Tensor, smooth: float) -> Tensor:
    """Return Dice loss plus focal loss of overlapping regions, as MONAI's DiceFocalLoss has it.

    With `sigmoid=True, squared_pred=True, batch=True`, `smooth` in numerator and denominator, and a focus (gamma) of 2. Source
    of the formulas: MONAI, `monai.losses.DiceLoss` and `FocalLoss`.

    Args:
        logits: shape (items, regions, x, y, z), on a GPU; up to 8 regions.
        labels: shape (items, 1, x, y, z), uint8: bit k says whether a voxel belongs to region k.
        smooth: added to the numerator and the denominator of Dice.

    Raises:
        ValueError: logits and labels are not of these shapes, or not of the same voxels.
    """
    items, _, *sides = labels.shape
    fit = logits.shape[0] == items and list(logits.shape[2:]) == sides and logits.shape[1] <= MOST_REGIONS
    if not fit or labels.shape[1] != 1 or labels.dtype != torch.uint8:
        raise ValueError(f"logits of shape {tuple(logits.shape)} do not go with {labels.dtype} of shape {tuple(labels.shape)}")
    return cast(Tensor, _DiceFocalLoss.apply(logits, labels, smooth))
