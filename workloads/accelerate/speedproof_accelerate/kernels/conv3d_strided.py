"""Two strided 3D convolutions of one volume; `strided_implementations.py` chooses the kernels."""

from functools import cache
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd import Function

from speedproof_accelerate.kernels.autograd import refuse_double_backward
from speedproof_accelerate.kernels.channels_last import as_channels_last, empty_volume, require_cells
from speedproof_accelerate.kernels.second_stream import compute_beside
from speedproof_accelerate.kernels.strided_implementations import choose_strided
from speedproof_accelerate.kernels.weight_matrices import Layout, as_dense, gather, number_weights, spread


class _Conv3dStridedPair(Function):
    @staticmethod
    def forward(ctx: Any, kernels: Any, x: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        x = as_channels_last(x)
        weights, last = as_dense(first, second)
        ctx.layout, windows, neighbours = build_matrices(kernels, weights, last, x.dtype, both=ctx.needs_input_grad[1])
        ctx.kernels = kernels
        ctx.save_for_backward(x, neighbours, *weights)
        one, other = convolve(kernels, x, windows, first.shape[0])
        return one, other

    @staticmethod
    @refuse_double_backward
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, neighbours, *weights = ctx.saved_tensors
        halves = [as_channels_last(one) for one in gradients]
        made = sum_weight_gradients(ctx.kernels, x, halves, ctx.layout, weights)
        # Seen from its results, a strided convolution is a transposed one.
        below = transpose(ctx.kernels, halves, neighbours, x.shape[1]) if ctx.needs_input_grad[1] else None
        return None, below, *made


def sum_weight_gradients(
    kernels: Any, full: Tensor, halves: list[Tensor], layout: Layout, weights: list[Tensor]
) -> list[Tensor]:
    """Return the gradients of weights that connect a volume with two volumes of half its resolution."""
    return compute_beside(lambda: gather(kernels.sum_weight_gradients(full, halves), layout, weights), full, *halves)


@cache
def _lay_out(kernels: Any, outer: int, inner: int, last: bool, both: bool, device: torch.device) -> tuple[Layout, int]:
    """Return the layout of the matrices by windows and, if `both`, by neighbours; and the size of the former."""
    weights = number_weights(outer, inner, last=last)
    windows = kernels.place_in_windows(weights).flatten()
    places = [windows, kernels.place_by_neighbour(weights).flatten()] if both else [windows]
    return Layout.of(torch.cat(places), kernels.place_in_gradient(weights), weights.numel(), device), len(windows)


def build_matrices(
    kernels: Any, weights: list[Tensor], last: bool, kind: torch.dtype, *, both: bool
) -> tuple[Layout, Tensor, Tensor]:
    """Return weights laid out for an implementation: layout, matrix by windows, and matrix by neighbours.

    Args:
        kernels: the module of an implementation.
        weights: one or two tensors of shape (channels, channels at full resolution, 3, 3, 3).
        last: whether their channels come last in memory.
        kind: precision of the matrices.
        both: whether the matrix by neighbours is needed; otherwise it is empty.
    """
    outer, inner = sum(len(one) for one in weights), weights[0].shape[1]
    layout, count = _lay_out(kernels, outer, inner, last, both, weights[0].device)
    matrices = spread(weights, layout, kind)
    return layout, matrices[:count], matrices[count:]


def convolve(kernels: Any, full: Tensor, windows: Tensor, channels: int) -> list[Tensor]:
    """Return two volumes of so many channels each at half the resolution.

    Raises:
        ValueError: a size is odd.
    """
    require_cells(full)
    items, _, x, y, z = full.shape
    outs = [empty_volume(items, channels, (x // 2, y // 2, z // 2), full) for _ in range(2)]
    kernels.convolve(full, windows, outs)
    return outs


def transpose(kernels: Any, halves: list[Tensor], neighbours: Tensor, channels: int) -> Tensor:
    """Return a volume of so many channels at twice the resolution."""
    items, _, x, y, z = halves[0].shape
    out = empty_volume(items, channels, (2 * x, 2 * y, 2 * z), halves[0])
    kernels.transpose(halves, neighbours, out)
    return out


def conv3d_strided_pair(x: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Return two 3 × 3 × 3 convolutions of the same volume, stride 2 and padding 1, without biases.

    Args:
        x: shape (items, channels, x, y, z), on a GPU.
        first: shape (results, channels, 3, 3, 3); its gradient has its type.
        second: likewise.

    Raises:
        ValueError: a size is odd, or no implementation fits the channels or computes the gradient of x.
    """
    results, channels = first.shape[:2]
    shapes = f"weights of shapes {tuple(first.shape)} and {tuple(second.shape)}"
    if first.shape != second.shape or channels != x.shape[1]:
        raise ValueError(f"a volume of {x.shape[1]} channels does not fit {shapes}")
    found = choose_strided(channels, results, input_gradient=x.requires_grad)
    if found is None:
        gradient = ", with a gradient of the input" if x.requires_grad else ""
        raise ValueError(f"no kernel convolves {channels} channels to two volumes of {results}{gradient}; use torch's")
    return cast(tuple[Tensor, Tensor], _Conv3dStridedPair.apply(found.load(), x, first, second))
