"""The operations of the kernels in plain torch, for any device: used without a GPU, and as references in tests."""

import torch
from torch import Tensor
from torch.nn import functional


def batch_norm_prelu(
    x: Tensor,
    norm: torch.nn.BatchNorm3d,
    slope: Tensor,
    conv_bias: Tensor,
    residual: Tensor | None = None,
    residual_bias: Tensor | None = None,
) -> Tensor:
    """Return PReLU(batch norm(x + conv_bias)) + residual + residual_bias; see :mod:`.batch_norm_prelu`."""
    y = functional.prelu(norm(x + _per_channel(conv_bias, x)), slope.to(x.dtype))
    if residual is not None:
        y = y + residual
    return y if residual_bias is None else y + _per_channel(residual_bias, y)


def conv3d(x: Tensor, weight: Tensor) -> Tensor:
    """Return a convolution without a bias, stride 1 and padding 1."""
    return functional.conv3d(x, weight, padding=1)


def conv3d_and_input(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return a convolution without a bias, stride 1 and padding 1, and x."""
    return conv3d(x, weight), x


def conv3d_plus_input(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return x + convolution(x) + bias."""
    return x + functional.conv3d(x, weight, bias, padding=1)


def conv3d_strided_pair(x: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Return two convolutions of the same volume, stride 2 and padding 1, without biases."""
    return tuple(functional.conv3d(x, weight, stride=2, padding=1) for weight in (first, second))  # type: ignore[return-value]


def conv_transpose3d_pair(first: Tensor, second: Tensor, weight: Tensor) -> Tensor:
    """Return a transposed convolution of two volumes' channels, stride 2 and padding 1, without a bias."""
    return functional.conv_transpose3d(torch.cat([first, second], dim=1), weight, stride=2, padding=1, output_padding=1)


def concat_channels(first: Tensor, second: Tensor) -> Tensor:
    """Return a volume with both volumes' channels."""
    return torch.cat([first, second], dim=1)


def split_channels(both: Tensor) -> tuple[Tensor, Tensor]:
    """Return two volumes, each with half of the channels."""
    first, second = both.chunk(2, dim=1)
    return first, second


def _per_channel(values: Tensor, like: Tensor) -> Tensor:
    return values.to(like.dtype).view(1, -1, 1, 1, 1)
