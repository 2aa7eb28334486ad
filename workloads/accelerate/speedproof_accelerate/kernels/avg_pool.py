"""Average pooling of channels-last images and volumes by windows that do not overlap.

Torch copies channels-last volumes to another layout, and returns that one. Here each program reads the windows of its results,
16 bytes at a time, and writes the gradient in the same way.
"""

from typing import Any, cast

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


@jit(do_not_specialize=NUMBERS)
def avg_pool_sum(
    x,
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
    """Programs: tiles of the results' chunks."""
    wait_for_previous()
    results, inside, start = find_windows(chunks, Y, Z, channels, WX, WY, WZ, CHUNK, BLOCK)
    total = tl.zeros((BLOCK, CHUNK), tl.float32)
    for number in tl.static_range(WX * WY * WZ):
        place = place_in_window(start, number, Y, Z, channels, WY, WZ, CHUNK)
        total += tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + results, (total / (WX * WY * WZ)).to(out.dtype.element_ty), mask=inside)


@jit(do_not_specialize=NUMBERS)
def avg_pool_pass_gradient(
    gradient,
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
    share = (given.to(tl.float32) / (WX * WY * WZ)).to(out.dtype.element_ty)
    for number in tl.static_range(WX * WY * WZ):
        tl.store(out + place_in_window(start, number, Y, Z, channels, WY, WZ, CHUNK), share, mask=inside)


class _AvgPool(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, window: tuple[int, ...]) -> Tensor:
        x = as_channels_last(x)
        ctx.window, ctx.sides = window, tuple(x.shape[2:])
        out = empty_results(x, window)
        launch(avg_pool_sum, (x, out), out, window)
        return out

    @staticmethod
    @refuse_double_backward
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        gradient = as_channels_last(gradients[0])
        below = empty_volume(gradient.shape[0], gradient.shape[1], ctx.sides, gradient)
        launch(avg_pool_pass_gradient, (gradient, below), gradient, ctx.window)
        return below, None


def avg_pool(x: Tensor, window: tuple[int, ...]) -> Tensor:
    """Return the averages of windows beside each other, channels last.

    Args:
        x: shape (items, channels, …): channels are a multiple of 8, and sizes of the window.
        window: its sizes: two for images, three for volumes.

    Raises:
        ValueError: channels or sizes are not such multiples.
    """
    require_windows(x, window)
    return cast(Tensor, _AvgPool.apply(x, window))
