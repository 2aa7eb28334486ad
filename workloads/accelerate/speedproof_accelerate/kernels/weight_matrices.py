"""Weights laid out as the matrices that kernels multiply by, and gradients of such matrices summed to gradients of weights.

Weights are read, and their gradients written, in the weights' memory order, channels last or not, so neither needs a copy.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn.functional import pad

from speedproof_accelerate.kernels.launch import LAUNCH, allow_next, jit, wait_for_previous

NONE = 2**31 - 1  # in place of a weight's number: the matrix has a 0 there

_SPREAD = 256  # elements of a program
# Of a program that sums: neighbouring elements, matrices and warps. Each thread sums its own elements, a warp loads 512 bytes
# at once, and all 16 loads overlap. By itself, the compiler takes 32 registers per thread, and overlaps three or four. The
# weights of 16 channels make 1241 programs, some nine on each multiprocessor of a large GPU; the fewest weights make 200.
_SUMMED, _MATRICES, _WARPS, _REGISTERS = 256, 16, 2, 96
# Of a program that gathers, one warp: elements, of one or more weights; sums read at once (layers have up to 25).
_GATHERED, _SHARES = 32, 32
# Numbers that differ between layers, and tensors of any alignment: Triton must not compile a kernel again for each.
_VARYING = ["first", "second", "count", "total", "length", "shares", "pitch"]


@dataclass(frozen=True)
class Layout:
    """How one or two tensors of weights, numbered consecutively, make matrices; int32, on the weights' device.

    Attributes:
        places: of the matrices' shape: the numbers of weights, or NONE.
        sources: shape (blocks, sums, weights of a block): places in the flattened matrix of a gradient whose sum is a weight's.
        targets: shape (blocks, weights of a block): the numbers of these weights. The last block may contain NONE.
    """

    places: Tensor
    sources: Tensor
    targets: Tensor

    @classmethod
    def of(cls, places: Tensor, gradient: Tensor, weights: int, device: torch.device) -> "Layout":
        """Return the layout of so many weights by their numbers in the matrices, and in the matrix of their gradient.

        In the latter, each weight occurs equally often: 1, 2, 4, 8, 16 or 32 times.
        """
        flat = gradient.flatten()
        found = flat.argsort(stable=True)[: int((flat != NONE).sum())].view(weights, -1)
        # In the order of the matrix, so that neighbouring threads read neighbouring elements.
        targets = found[:, 0].argsort()
        each = _GATHERED // found.shape[1]
        beyond = -weights % each
        sources = pad(found[targets], (0, 0, 0, beyond)).view(-1, each, found.shape[1]).transpose(1, 2).contiguous()
        targets = pad(targets, (0, beyond), value=NONE).view(-1, each)
        return cls(*(one.int().to(device) for one in (places, sources, targets)))


@jit(do_not_specialize=_VARYING)
def weights_spread(first, second, places, out, count, total, length, BLOCK: tl.constexpr):
    """Each element of the matrices: the weight at its place, of the first `count` or of the others, or 0."""
    wait_for_previous()
    allow_next()
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < length
    place = tl.load(places + index, mask=inside, other=0)
    value = tl.load(first + place, mask=inside & (place < count), other=0.0).to(tl.float32)
    value += tl.load(second + (place - count), mask=inside & (place >= count) & (place < total), other=0.0).to(tl.float32)
    tl.store(out + index, value.to(out.dtype.element_ty), mask=inside)


@jit(do_not_specialize=["programs"])
def weights_sum(partial, sums, programs, pitch, BLOCK: tl.constexpr, MATRICES: tl.constexpr):
    """Sum shares of the matrices of so many programs. Programs: (tiles of elements, shares of matrices)."""
    wait_for_previous()
    element = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    number = tl.program_id(1) * MATRICES + tl.arange(0, MATRICES)[:, None]
    inside = element < pitch
    found = tl.load(partial + number * pitch + element[None, :], mask=(number < programs) & inside[None, :], other=0.0)
    tl.store(sums + tl.program_id(1) * pitch + element, tl.sum(found, axis=0), mask=inside)


@jit(do_not_specialize=_VARYING)
def weights_gather(
    partial,
    sources,
    targets,
    first,
    second,
    count,
    total,
    shares,
    pitch,
    SUMS: tl.constexpr,
    BLOCK: tl.constexpr,
    SHARES: tl.constexpr,
):
    """Each weight's gradient: the sum of its elements in the sums of so many shares of matrices. Programs: blocks."""
    wait_for_previous()
    block = tl.program_id(0)
    each: tl.constexpr = BLOCK // SUMS
    source = tl.load(sources + block * BLOCK + tl.arange(0, BLOCK))
    target = tl.load(targets + block * each + tl.arange(0, each))  # loaded here, before its use: one wait for both
    sums = tl.zeros((SHARES, BLOCK), tl.float32)
    for start in range(0, shares, SHARES):
        number = start + tl.arange(0, SHARES)[:, None]
        sums += tl.load(partial + number * pitch + source[None, :], mask=number < shares, other=0.0)
    gradient = tl.sum(tl.reshape(tl.sum(sums, axis=0), (SUMS, each)), axis=0)
    tl.store(first + target, gradient.to(first.dtype.element_ty), mask=target < count)
    tl.store(second + (target - count), gradient.to(second.dtype.element_ty), mask=(target >= count) & (target < total))


def as_dense(*weights: Tensor) -> tuple[list[Tensor], bool]:
    """Return weights as they are if they are dense and in one order, otherwise copies; and whether their channels come last."""
    for last, order in enumerate((torch.contiguous_format, torch.channels_last_3d)):
        if all(one.is_contiguous(memory_format=order) for one in weights):
            return list(weights), bool(last)
    return [one.contiguous() for one in weights], False


def number_weights(outer: int, inner: int, *, last: bool) -> Tensor:
    """Return the number of each weight of a tensor of shape (outer, inner, 3, 3, 3) in memory; `last`: channels come last."""
    numbers = torch.arange(outer * inner * 27)
    return numbers.view(outer, 3, 3, 3, inner).movedim(-1, 1) if last else numbers.view(outer, inner, 3, 3, 3)


def spread(weights: list[Tensor], layout: Layout, kind: torch.dtype) -> Tensor:
    """Return the matrices of one or two dense tensors of weights, their elements rounded to `kind`."""
    out = torch.empty(layout.places.shape, dtype=kind, device=layout.places.device)
    length = out.numel()
    weights_spread[(triton.cdiv(length, _SPREAD),)](
        weights[0], weights[-1], layout.places, out, *_count(weights), length, BLOCK=_SPREAD, **LAUNCH
    )
    return out


def gather(partial: Tensor, layout: Layout, weights: list[Tensor]) -> list[Tensor]:
    """Return the gradients of one or two dense tensors of weights, in their memory order and of their types.

    Args:
        partial: each program's share of the gradient's matrix, one row each, in fp32.
        layout: the layout of the matrix.
        weights: the weights that were spread, or other parameters with sums in the matrix.
    """
    programs, pitch = partial.shape
    shares = triton.cdiv(programs, _MATRICES)
    summed = partial.new_empty((shares, pitch))
    # Summing complete matrices is faster than picking the elements that are needed.
    weights_sum[(triton.cdiv(pitch, _SUMMED), shares)](
        partial, summed, programs, pitch, BLOCK=_SUMMED, MATRICES=_MATRICES, num_warps=_WARPS, maxnreg=_REGISTERS, **LAUNCH
    )
    outs = [torch.empty_like(one) for one in weights]
    blocks, sums, each = layout.sources.shape
    weights_gather[(blocks,)](
        summed, layout.sources, layout.targets, outs[0], outs[-1], *_count(weights), shares, pitch,
        SUMS=sums, BLOCK=sums * each, SHARES=_SHARES, num_warps=1, **LAUNCH,
    )  # fmt: skip
    return outs


def _count(weights: list[Tensor]) -> tuple[int, int]:
    """Return how many weights the first tensor has, and how many all have."""
    return weights[0].numel(), sum(one.numel() for one in weights)
