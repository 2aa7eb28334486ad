"""Average pooling of channels-last images and volumes by windows that do not overlap.

Torch copies channels-last volumes to another layout, and returns that one. Here each program reads the windows of its results,
16 bytes at a time, and writes the gradient in the same way.
"""

from math import prod
from typing import Any, cast

import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function

from speedproof_accelerate.kernels.autograd import refuse_double_backward
from speedproof_accelerate.kernels.channels_last import as_channels_last, empty_volume
from speedproof_accelerate.kernels.launch import LAUNCH, jit, wait_for_previous

CHUNK = 8  # channels that are read at once
_CHUNKS = 128  # of a program's results
_NUMBERS = ["chunks", "Y", "Z", "channels"]


@triton.jit
def _find_windows(
    chunks, Y, Z, channels, WX: tl.constexpr, WY: tl.constexpr, WZ: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr
):
    """Return a program's values of the results, which of them exist, the values of a chunk, and where their windows begin.

    Y, Z: size of the results.
    """
    number = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.arange(0, CHUNK)[None, :]
    inside = (number < chunks)[:, None] & (value >= 0)
    per_voxel = channels // CHUNK
    voxel = number // per_voxel
    z, row = voxel % Z, voxel // Z
    y, plane = row % Y, row // Y  # planes of all items: windows do not cross items
    start = ((plane * WX * (Y * WY) + y * WY) * (Z * WZ) + z * WZ) * channels + number % per_voxel * CHUNK
    return tl.multiple_of(number * CHUNK, CHUNK)[:, None] + value, inside, value, start


@jit(do_not_specialize=_NUMBERS)
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
    results, inside, value, start = _find_windows(chunks, Y, Z, channels, WX, WY, WZ, CHUNK, BLOCK)
    total = tl.zeros((BLOCK, CHUNK), tl.float32)
    for dx in tl.static_range(WX):
        for dy in tl.static_range(WY):
            for dz in tl.static_range(WZ):
                apart = ((dx * (Y * WY) + dy) * (Z * WZ) + dz).to(tl.int64) * channels
                place = tl.multiple_of(start + apart, CHUNK)
                total += tl.load(x + place[:, None] + value, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + results, (total / (WX * WY * WZ)).to(out.dtype.element_ty), mask=inside)


@jit(do_not_specialize=_NUMBERS)
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
    results, inside, value, start = _find_windows(chunks, Y, Z, channels, WX, WY, WZ, CHUNK, BLOCK)
    given = tl.load(gradient + results, mask=inside, other=0.0)
    share = (given.to(tl.float32) / (WX * WY * WZ)).to(out.dtype.element_ty)
    for dx in tl.static_range(WX):
        for dy in tl.static_range(WY):
            for dz in tl.static_range(WZ):
                apart = ((dx * (Y * WY) + dy) * (Z * WZ) + dz).to(tl.int64) * channels
                place = tl.multiple_of(start + apart, CHUNK)
                tl.store(out + place[:, None] + value, share, mask=inside)


def _launch(kernel: Any, read: Tensor, written: Tensor, results: Tensor, window: tuple[int, ...]) -> None:
    chunks = results.numel() // CHUNK
    wide = (1, *window) if len(window) == 2 else window
    kernel[(triton.cdiv(chunks, _CHUNKS),)](
        read,
        written,
        chunks,
        *results.shape[-2:],
        results.shape[1],
        WX=wide[0],
        WY=wide[1],
        WZ=wide[2],
        CHUNK=CHUNK,
        BLOCK=_CHUNKS,
        **LAUNCH,
    )


class _AvgPool(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, window: tuple[int, ...]) -> Tensor:
        x = as_channels_last(x)
        items, channels, *sides = x.shape
        ctx.window, ctx.sides = window, tuple(sides)
        out = empty_volume(items, channels, tuple(side // one for side, one in zip(sides, window, strict=True)), x)
        _launch(avg_pool_sum, x, out, out, window)
        return out

    @staticmethod
    @refuse_double_backward
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        gradient = as_channels_last(gradients[0])
        items, channels = gradient.shape[:2]
        below = empty_volume(items, channels, ctx.sides, gradient)
        _launch(avg_pool_pass_gradient, gradient, below, gradient, ctx.window)
        return below, None


def avg_pool(x: Tensor, window: tuple[int, ...]) -> Tensor:
    """Return the averages of windows beside each other, channels last.

    Args:
        x: shape (items, channels, …): channels are a multiple of 8, and sizes of the window.
        window: its sizes: two for images, three for volumes.

    Raises:
        ValueError: channels or sizes are not such multiples.
    """
    _, channels, *sides = x.shape
    if channels % CHUNK or any(side % one for side, one in zip(sides, window, strict=True)) or not prod(sides):
        raise ValueError(
            f"{channels} channels of {' × '.join(map(str, sides))} cannot be pooled by {' × '.join(map(str, window))}: "
            f"channels must be a multiple of {CHUNK}, and sizes of the window"
        )
    return cast(Tensor, _AvgPool.apply(x, window))
