"""The concatenation of two volumes' channels, and the split: one pass over memory, 16 bytes at a time."""

from typing import Any, cast

import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function

from speedproof_accelerate.kernels.autograd import refuse_double_backward
from speedproof_accelerate.kernels.channels_last import as_channels_last, empty_volume
from speedproof_accelerate.kernels.launch import LAUNCH, jit, wait_for_previous

_CHUNK, _CHUNKS = 8, 256  # values of a chunk, and chunks of a program from each volume


@jit(do_not_specialize=["chunks", "channels"])
def channels_move(first, second, both, chunks, channels, JOIN: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr):
    """JOIN: both volumes' rows become rows of twice the channels; otherwise the reverse."""
    wait_for_previous()
    chunk = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    apart = chunk * CHUNK
    # Channels come in whole chunks; the compiler cannot know that, since it does not know their number.
    joined = tl.multiple_of(apart + apart // channels * channels, CHUNK)
    value = tl.arange(0, CHUNK)[None, :]
    inside = (chunk < chunks)[:, None] & (value >= 0)
    near, far = both + joined[:, None] + value, both + tl.multiple_of(joined + channels, CHUNK)[:, None] + value
    one, other = first + apart[:, None] + value, second + apart[:, None] + value
    if JOIN:
        tl.store(near, tl.load(one, mask=inside, other=0.0), mask=inside)
        tl.store(far, tl.load(other, mask=inside, other=0.0), mask=inside)
    else:
        tl.store(one, tl.load(near, mask=inside, other=0.0), mask=inside)
        tl.store(other, tl.load(far, mask=inside, other=0.0), mask=inside)


def _move(first: Tensor, second: Tensor, both: Tensor, *, join: bool) -> None:
    channels, chunks = first.shape[1], first.numel() // _CHUNK
    if first.shape != second.shape or channels % _CHUNK or both.shape[1] != 2 * channels:
        shapes = " and ".join(str(tuple(one.shape)) for one in (first, second))
        raise ValueError(
            f"volumes of shapes {shapes} do not make one of {both.shape[1]} channels: theirs must be equally many, "
            f"a multiple of {_CHUNK}, and all sizes equal"
        )
    channels_move[(triton.cdiv(chunks, _CHUNKS),)](
        first, second, both, chunks, channels, JOIN=join, CHUNK=_CHUNK, BLOCK=_CHUNKS, **LAUNCH
    )


def _join(first: Tensor, second: Tensor) -> Tensor:
    first, second = as_channels_last(first), as_channels_last(second)
    items, channels, *sides = first.shape
    both = empty_volume(items, 2 * channels, tuple(sides), first)
    _move(first, second, both, join=True)
    return both


def _split(both: Tensor) -> tuple[Tensor, Tensor]:
    both = as_channels_last(both)
    items, channels, *sides = both.shape
    first, second = (empty_volume(items, channels // 2, tuple(sides), both) for _ in range(2))
    _move(first, second, both, join=False)
    return first, second


class _Join(Function):
    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor) -> Tensor:
        return _join(first, second)

    @staticmethod
    @refuse_double_backward
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        return _split(gradients[0])


class _Split(Function):
    @staticmethod
    def forward(ctx: Any, both: Tensor) -> tuple[Tensor, Tensor]:
        return _split(both)

    @staticmethod
    @refuse_double_backward
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return _join(*gradients)


def concat_channels(first: Tensor, second: Tensor) -> Tensor:
    """Return a volume with both volumes' channels, channels last.

    Args:
        first: shape (items, channels, …), channels a multiple of 8.
        second: of the same shape.

    Raises:
        ValueError: channels are not a multiple of 8, or the shapes differ.
    """
    return cast(Tensor, _Join.apply(first, second))


def split_channels(both: Tensor) -> tuple[Tensor, Tensor]:
    """Return two volumes, each with half of the channels, channels last; the reverse of :func:`concat_channels`.

    Raises:
        ValueError: half of the channels is not a multiple of 8.
    """
    return cast(tuple[Tensor, Tensor], _Split.apply(both))
