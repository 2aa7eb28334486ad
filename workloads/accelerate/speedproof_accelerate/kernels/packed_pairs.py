"""Volumes of one or two channels as integers that hold two values each, for wider loads."""

import torch
import triton
import triton.language as tl
from torch import Tensor


def as_pairs(full: Tensor) -> Tensor:
    """Return a dense channels-last tensor of one or two channels as integers of two values each."""
    return full.permute(0, 2, 3, 4, 1).reshape(-1, 2).view(torch.int32 if full.element_size() == 2 else torch.int64)


@triton.jit
def split_pairs(pairs, like):
    """Return the two values of each pair, which are of the type that `like` points to."""
    kind: tl.constexpr = like.dtype.element_ty
    if kind.primitive_bitwidth == 16:
        return pairs.to(tl.int16).to(kind, bitcast=True), (pairs >> 16).to(tl.int16).to(kind, bitcast=True)
    else:  # noqa: RET505 (what follows a constant branch would be compiled, too)
        return pairs.to(tl.int32).to(kind, bitcast=True), (pairs >> 32).to(tl.int32).to(kind, bitcast=True)


@triton.jit
def join_pairs(first, other, like):
    """Return pairs of values, rounded to the type that `like` points to."""
    kind: tl.constexpr = like.dtype.element_ty
    if kind.primitive_bitwidth == 16:
        low, high = first.to(kind).to(tl.int16, bitcast=True), other.to(kind).to(tl.int16, bitcast=True)
        return (low.to(tl.int32) & 0xFFFF) | (high.to(tl.int32) << 16)
    else:  # noqa: RET505 (as above)
        low, high = first.to(kind).to(tl.int32, bitcast=True), other.to(kind).to(tl.int32, bitcast=True)
        return (low.to(tl.int64) & 0xFFFFFFFF) | (high.to(tl.int64) << 32)
