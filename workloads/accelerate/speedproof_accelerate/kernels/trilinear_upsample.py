"""Trilinear upsampling of channels-last volumes, as `nn.Upsample(scale_factor=2, mode="trilinear", align_corners=False)`.

Torch copies channels-last volumes to another layout, and sums the gradient by atomic operations. Here each program gathers the
inputs of its voxels: 8 neighbours forward, 64 backward, most of them from the cache.
"""

from typing import Any, cast

import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function

from speedproof_accelerate.kernels.autograd import refuse_double_backward
from speedproof_accelerate.kernels.channels_last import as_channels_last, empty_volume
from speedproof_accelerate.kernels.launch import LAUNCH, jit, wait_for_previous

_TILE, _WIDEST = 1024, 64  # values of a program, and channels of its tile
_FEW_CHANNELS = 16  # for fewer, a kernel is compiled for each number, for the widest possible loads
_NUMBERS = ["X", "Y", "Z"]


@triton.jit
def _find_neighbours(place, side):
    """Return the two inputs of an upsampled voxel: it is three quarters of the first, and a quarter of the second."""
    near = place // 2
    return near, tl.minimum(tl.maximum(near + place % 2 * 2 - 1, 0), side - 1)


@jit(do_not_specialize=_NUMBERS)
def upsample_enlarge(x, out, X, Y, Z, channels, FEW: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Programs: (tiles of upsampled voxels, tiles of channels, items). X, Y, Z: size of the input."""
    wait_for_previous()
    pitch = FEW if FEW else channels
    item = tl.program_id(2).to(tl.int64)
    channel = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)[None, :]
    voxel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    count = 8 * X * Y * Z
    inside = (voxel < count)[:, None] & (channel < pitch)
    x0, x1 = _find_neighbours(voxel // (4 * Y * Z), X)
    y0, y1 = _find_neighbours(voxel // (2 * Z) % (2 * Y), Y)
    z0, z1 = _find_neighbours(voxel % (2 * Z), Z)
    start = x + item * X * Y * Z * pitch
    total = tl.zeros((BLOCK, WIDTH), tl.float32)
    for dx in tl.static_range(2):
        for dy in tl.static_range(2):
            for dz in tl.static_range(2):
                place = ((x1 if dx else x0) * Y + (y1 if dy else y0)) * Z + (z1 if dz else z0)
                value = tl.load(start + place.to(tl.int64)[:, None] * pitch + channel, mask=inside, other=0.0)
                total += (0.25 if dx else 0.75) * (0.25 if dy else 0.75) * (0.25 if dz else 0.75) * value.to(tl.float32)
    target = out + (item * count + voxel.to(tl.int64))[:, None] * pitch + channel
    tl.store(target, total.to(out.dtype.element_ty), mask=inside)


@jit(do_not_specialize=_NUMBERS)
def upsample_pass_gradient(gradient, out, X, Y, Z, channels, FEW: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Programs: (tiles of voxels, tiles of channels, items): along each axis, a voxel is an input of four upsampled ones.

    Beyond the edge, the outermost upsampled voxel stands in: it has no other input.
    """
    wait_for_previous()
    pitch = FEW if FEW else channels
    item = tl.program_id(2).to(tl.int64)
    channel = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)[None, :]
    voxel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = (voxel < X * Y * Z)[:, None] & (channel < pitch)
    px, py, pz = 2 * (voxel // (Y * Z)) - 1, 2 * (voxel // Z % Y) - 1, 2 * (voxel % Z) - 1
    start = gradient + item * 8 * X * Y * Z * pitch
    total = tl.zeros((BLOCK, WIDTH), tl.float32)
    for dx in range(4):
        row_x = tl.minimum(tl.maximum(px + dx, 0), 2 * X - 1) * (2 * Y)
        share_x = tl.where((dx == 1) | (dx == 2), 0.75, 0.25)
        for dy in range(4):
            row = (row_x + tl.minimum(tl.maximum(py + dy, 0), 2 * Y - 1)) * (2 * Z)
            share = share_x * tl.where((dy == 1) | (dy == 2), 0.75, 0.25)
            for dz in tl.static_range(4):
                place = row + tl.minimum(tl.maximum(pz + dz, 0), 2 * Z - 1)
                value = tl.load(start + place.to(tl.int64)[:, None] * pitch + channel, mask=inside, other=0.0)
                total += share * (0.75 if dz == 1 or dz == 2 else 0.25) * value.to(tl.float32)
    target = out + (item * X * Y * Z + voxel.to(tl.int64))[:, None] * pitch + channel
    tl.store(target, total.to(out.dtype.element_ty), mask=inside)


def _launch(kernel: Any, read: Tensor, written: Tensor, sides: tuple[int, ...]) -> None:
    items, channels, *enlarged = written.shape
    width = min(triton.next_power_of_2(channels), _WIDEST)
    block, voxels = _TILE // width, enlarged[0] * enlarged[1] * enlarged[2]
    kernel[(triton.cdiv(voxels, block), triton.cdiv(channels, width), items)](
        read, written, *sides, channels, FEW=channels if channels < _FEW_CHANNELS else 0, WIDTH=width, BLOCK=block, **LAUNCH
    )


class _TrilinearUpsample(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x = as_channels_last(x)
        items, channels, *sides = x.shape
        out = empty_volume(items, channels, tuple(2 * side for side in sides), x)
        _launch(upsample_enlarge, x, out, tuple(sides))
        return out

    @staticmethod
    @refuse_double_backward
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        gradient = as_channels_last(gradients[0])
        items, channels, *sides = gradient.shape
        halves = tuple(side // 2 for side in sides)
        below = empty_volume(items, channels, halves, gradient)
        _launch(upsample_pass_gradient, gradient, below, halves)
        return below


def trilinear_upsample(x: Tensor) -> Tensor:
    """Return upsampled volumes, channels last: shape (items, channels, x, y, z) becomes (items, channels, 2x, 2y, 2z).

    An upsampled volume must have fewer than 2³¹ voxels.
    """
    return cast(Tensor, _TrilinearUpsample.apply(x))
