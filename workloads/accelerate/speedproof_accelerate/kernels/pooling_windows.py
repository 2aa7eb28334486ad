"""The windows of poolings that do not overlap, channels last: what the kernels of all poolings share."""

from math import prod
from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from speedproof_accelerate.kernels.channels_last import empty_volume
from speedproof_accelerate.kernels.launch import LAUNCH

CHUNK = 8  # channels that are read at once
CHUNKS = 128  # of a program's results
NUMBERS = ["chunks", "Y", "Z", "channels"]


@triton.jit
def find_windows(
    chunks, Y, Z, channels, WX: tl.constexpr, WY: tl.constexpr, WZ: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr
):
    """Return a program's values of the results, which of them exist, and where their windows begin.

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
    # The hint is repeated: for a window's first voxel, the compiler removes `place_in_window`'s addition of 0 with its hint.
    return tl.multiple_of(number * CHUNK, CHUNK)[:, None] + value, inside, tl.multiple_of(start, CHUNK)


@triton.jit
def place_in_window(start, number: tl.constexpr, Y, Z, channels, WY: tl.constexpr, WZ: tl.constexpr, CHUNK: tl.constexpr):
    """Return where the values of one voxel of each window are: its number counts along z first, then y, then x."""
    apart = ((number // (WY * WZ) * (Y * WY) + number // WZ % WY) * (Z * WZ) + number % WZ).to(tl.int64) * channels
    return tl.multiple_of(start + apart, CHUNK)[:, None] + tl.arange(0, CHUNK)[None, :]


def launch(kernel: Any, tensors: tuple[Tensor, ...], results: Tensor, window: tuple[int, ...]) -> None:
    """Launch a kernel whose programs are tiles of the results' chunks."""
    chunks = results.numel() // CHUNK
    wide = (1, *window) if len(window) == 2 else window
    kernel[(triton.cdiv(chunks, CHUNKS),)](
        *tensors,
        chunks,
        *results.shape[-2:],
        results.shape[1],
        WX=wide[0],
        WY=wide[1],
        WZ=wide[2],
        CHUNK=CHUNK,
        BLOCK=CHUNKS,
        **LAUNCH,
    )


def empty_results(x: Tensor, window: tuple[int, ...]) -> Tensor:
    """Return an uninitialized volume with a voxel for each window of another, channels last."""
    items, channels, *sizes = x.shape
    return empty_volume(items, channels, tuple(size // one for size, one in zip(sizes, window, strict=True)), x)


def require_windows(x: Tensor, window: tuple[int, ...]) -> None:
    """Check that a volume divides into windows, and its channels into chunks.

    Raises:
        ValueError: channels are not a multiple of 8, or sizes not of the window.
    """
    _, channels, *sizes = x.shape
    if channels % CHUNK or any(size % one for size, one in zip(sizes, window, strict=True)) or not prod(sizes):
        raise ValueError(
            f"{channels} channels of {' × '.join(map(str, sizes))} cannot be pooled by {' × '.join(map(str, window))}: "
            f"channels must be a multiple of {CHUNK}, and sizes of the window"
        )
