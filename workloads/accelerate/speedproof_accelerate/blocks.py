"""Blocks of known networks that take the places of MONAI's: they concatenate and add in the passes of kernels."""

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from speedproof_accelerate.parts import (
    FLOATS,
    FewChannelConvolution,
    NormActivation,
    add_bias,
    find_obstacle,
    keeping_kind,
    load,
    precision_of,
)


class ResidualBlock(nn.Module):
    """Twice norm, activation and convolution, plus the input, as in MONAI's SegResNet.

    One pass gives both gradients of the input, and the second convolution's kernel adds the input.
    """

    def __init__(self, block: Any) -> None:
        """Replace a block whose norms are parts."""
        super().__init__()
        for name, module in block.named_children():
            self.add_module(name, module)
        self.training = block.training

    @keeping_kind
    def forward(self, x: Tensor) -> Tensor:
        """Return the block's result plus its input."""
        norm1, norm2, conv = cast(NormActivation, self.norm1), cast(NormActivation, self.norm2), cast(Any, self.conv2)
        y, beside = (norm1.compute_as_torch(x), x) if norm1.find_misfit(x) else norm1.compute_and_pass(x)
        y = norm2(cast(nn.Module, self.conv1)(y))
        last = conv.conv if len(conv) == 1 else conv
        if not isinstance(last, FewChannelConvolution) or last.find_misfit(y) or beside.dtype != precision_of(y):
            return cast(Tensor, conv(y) + beside)
        return add_bias(last.compute_without_bias(y, beside), last.replaced.bias)


class ConcatSkip(nn.Module):
    """The concatenation of the input and a submodule's result, as MONAI's `SkipConnection`."""

    def __init__(self, skip: Any) -> None:
        """Replace a skip connection."""
        super().__init__()
        self.submodule = skip.submodule
        self.training = skip.training

    def forward(self, x: Tensor) -> Tensor:
        """Return the channels of both."""
        return concat_channels(x, self.submodule(x))


class ConcatUpBlock(nn.Module):
    """The convolution of an upsampled volume and that of a skip connection, as MONAI's `UnetUpBlock`."""

    def __init__(self, block: Any) -> None:
        """Replace a block."""
        super().__init__()
        self.transp_conv, self.conv_block = block.transp_conv, block.conv_block
        self.training = block.training

    def forward(self, inp: Tensor, skip: Tensor) -> Tensor:
        """Return the result of the convolutions."""
        return cast(Tensor, self.conv_block(concat_channels(self.transp_conv(inp), skip)))


class ConcatUpCat(nn.Module):
    """The convolutions of an upsampled volume and that of a skip connection, as MONAI's `UpCat` of its BasicUNet.

    MONAI's calls torch's padding even if there is nothing to pad, which copies the volume to another layout.
    """

    def __init__(self, block: Any) -> None:
        """Replace a block."""
        super().__init__()
        self.upsample, self.convs, self.is_pad = block.upsample, block.convs, block.is_pad
        self.training = block.training

    def forward(self, x: Tensor, x_e: Tensor | None) -> Tensor:
        """Return the result of the convolutions; x_e: the skip connection, if there is one."""
        x_0 = self.upsample(x)
        if not isinstance(x_e, Tensor):
            return cast(Tensor, self.convs(x_0))
        missing = [int(x_0.shape[side] != x_e.shape[side]) for side in range(-1, 1 - x.dim(), -1)]
        if self.is_pad and any(missing):
            x_0 = functional.pad(x_0, [size for one in missing for size in (0, one)], "replicate")
        return cast(Tensor, self.convs(concat_channels(x_e, x_0)))


@keeping_kind
def concat_channels(first: Tensor, second: Tensor) -> Tensor:
    """Return both volumes' channels: by a kernel, whose gradient is two dense volumes, if it fits; otherwise by torch."""
    alike = first.shape == second.shape and first.dtype == second.dtype
    if alike and _fits_concat(first, first.shape[1]):
        return cast(Tensor, load("concat_channels").concat_channels(first, second))
    return torch.cat([first, second], dim=1)


def split_channels(both: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first and the second half of the channels; by a kernel, if it fits, as dense volumes."""
    if _fits_concat(both, both.shape[1] // 2):
        return cast(tuple[Tensor, Tensor], load("concat_channels").split_channels(both))
    first, second = both.chunk(2, dim=1)
    return first, second


def _fits_concat(x: Tensor, channels: int) -> bool:
    """Return whether the kernel fits volumes of so many channels each."""
    fits = channels % 8 == 0 and x.dim() in (4, 5) and x.dtype in FLOATS and x.numel()
    return bool(fits) and find_obstacle(x.device) is None
