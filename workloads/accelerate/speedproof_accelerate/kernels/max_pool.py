"""Maximum pooling of channels-last images and volumes by windows that do not overlap.

Torch copies channels-last volumes to another layout, and returns that one. Here each program reads the windows of its results,
16 bytes at a time. It also writes which voxel of each window won: one byte for each result, which the backward pass reads to
place the gradient. To find the winner again, it would read the whole input: 16 bytes for each result, in half precision with
windows of 2 × 2 × 2.
"""

from math import prod
from typing import Any, cast

import torch
import triton.language as tl
from torch import Tensor
from torch.autograd import Function

from speedproof_accelerate.kernels.autograd import refuse_double_backward
from speedproof_accelerate.kernels.channels_last import as_channels_last, empty_volume
from speedproof_accelerate.kernels.launch import jit, wait_for_previous
from speedproof_accelerate.kernels.pooling_windows import (
    NUMBERS,
    empty_results,
    find_windows,
    launch,
    place_in_window,
    require_windows,
)
from speedproof_accelerate.resampling import MOST_VOXELS


@jit(do_not_specialize=NUMBERS)
def max_pool_find(
    x,
    out,
    winners,
    chunks,
    Y,
    Z,
    channels,
    WX: tl.constexpr,
    WY: tl.constexpr,
    WZ: tl.constexpr,
    CHUNK: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Programs: tiles of the results' chunks."""
    wait_for_previous()
    results, inside, start = find_windows(chunks, Y, Z, channels, WX, WY, WZ, CHUNK, BLOCK)
    place = place_in_window(start, 0, Y, Z, channels, WY, WZ, CHUNK)
    most = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
    winner = tl.zeros((BLOCK, CHUNK), tl.int32)
    for number in tl.static_range(1, WX * WY * WZ):
        place = place_in_window(start, number, Y, Z, channels, WY, WZ, CHUNK)
        one = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
        wins = (one > most) | (one != one)  # as in torch, the first of equal values wins, but the last NaN
        most = tl.where(wins, one, most)
        winner = tl.where(wins, number, winner)
    tl.store(out + results, most.to(out.dtype.element_ty), mask=inside)
    tl.store(winners + results, winner.to(tl.uint8), mask=inside)


@jit(do_not_specialize=NUMBERS)
def max_pool_pass_gradient(
    gradient,
    winners,
    out,
    chunks,
    Y,
    Z,
    channels,
    WX: tl.constexpr,
    WY: tl.constexpr,
    WZ: tl.constexpr,
    CHUNK: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Programs: tiles of the chunks of the results' gradient."""
    wait_for_previous()
    results, inside, start = find_windows(chunks, Y, Z, channels, WX, WY, WZ, CHUNK, BLOCK)
    given = tl.load(gradient + results, mask=inside, other=0.0)
    winner = tl.load(winners + results, mask=inside, other=0).to(tl.int32)
    for number in tl.static_range(WX * WY * WZ):
        passed = tl.where(winner == number, given, 0.0).to(out.dtype.element_ty)
        tl.store(out + place_in_window(start, number, Y, Z, channels, WY, WZ, CHUNK), passed, mask=inside)


class _MaxPool(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, window: tuple[int, ...]) -> Tensor:
        x = as_channels_last(x)
        ctx.window, ctx.sides = window, tuple(x.shape[2:])
        out = empty_results(x, window)
        winners = torch.empty_like(out, dtype=torch.uint8)
        launch(max_pool_find, (x, out, winners), out, window)
        ctx.save_for_backward(winners)
        return out

    @staticmethod
    @refuse_double_backward
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        gradient = as_channels_last(gradients[0])
        below = empty_volume(gradient.shape[0], gradient.shape[1], ctx.sides, gradient)
        launch(max_pool_pass_gradient, (gradient, *ctx.saved_tensors, below), gradient, ctx.window)
        return below, None


def max_pool(x: Tensor, window: tuple[int, ...]) -> Tensor:
    """Return the largest values of windows beside each other, channels last; NaN if a window has one.

    Args:
        x: shape (items, channels, …): channels are a multiple of 8, and sizes of the window.
        window: its sizes: two for images, three for volumes; at most 256 voxels.

    Raises:
        ValueError: channels or sizes are not such multiples, or the window is larger.
    """
    require_windows(x, window)
    if prod(window) > MOST_VOXELS:
        raise ValueError(f"a window of {prod(window)} voxels is too large: at most {MOST_VOXELS} are pooled")
    return cast(Tensor, _MaxPool.apply(x, window))
