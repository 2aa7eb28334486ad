"""Weights laid out as the matrices that kernels multiply by, and the gradients of such matrices added up to the weights'."""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from speedproof.training.kernels.launching import LAUNCH, follow

_BLOCK = 256


@dataclass(frozen=True)
class Layout:
    """Where the elements of a matrix come from, and which of them make each weight's gradient; int32, on the weights' device.

    Attributes:
        places: of the matrix' shape: places in the flattened weights, or their number for a 0.
        sources: shape (weights, sums): places in the flattened matrix.
    """

    places: Tensor
    sources: Tensor

    @classmethod
    def of(cls, places: Tensor, weights: int, device: torch.device) -> "Layout":
        """Return the layout of so many weights by their places, in which each stands equally often."""
        flat = places.flatten()
        sources = flat.argsort(stable=True)[: int((flat < weights).sum())].view(weights, -1)
        return cls(places.int().to(device), sources.int().to(device))


@triton.jit(do_not_specialize=["count", "length"])
def weights_spread(weights, places, out, count, length, BLOCK: tl.constexpr):
    """Each element of a matrix: the weight at its place, or 0."""
    follow()
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < length
    place = tl.load(places + index, mask=inside, other=0)
    value = tl.load(weights + place, mask=inside & (place < count), other=0.0)
    tl.store(out + index, value.to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["count", "sums"])
def weights_gather(matrix, sources, out, count, sums, BLOCK: tl.constexpr):
    """Each weight's gradient: the sum of its elements'."""
    follow()
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < count
    total = tl.zeros((BLOCK,), tl.float32)
    for number in range(sums):
        source = tl.load(sources + index * sums + number, mask=inside, other=0)
        total += tl.load(matrix + source, mask=inside, other=0.0)
    tl.store(out + index, total, mask=inside)


def spread(weight: Tensor, layout: Layout, kind: torch.dtype) -> Tensor:
    """Return the matrix of some weights, its elements rounded to `kind`."""
    out = weight.new_empty(layout.places.shape, dtype=kind)
    weights_spread[(triton.cdiv(out.numel(), _BLOCK),)](
        weight.contiguous(), layout.places, out, weight.numel(), out.numel(), BLOCK=_BLOCK, **LAUNCH
    )
    return out


def gather(matrix: Tensor, layout: Layout, shape: torch.Size) -> Tensor:
    """Return the gradient of weights of this shape from the gradient of their matrix, which is in fp32."""
    out = matrix.new_empty(shape)
    count, sums = layout.sources.shape
    weights_gather[(triton.cdiv(count, _BLOCK),)](matrix, layout.sources, out, count, sums, BLOCK=_BLOCK, **LAUNCH)
    return out
