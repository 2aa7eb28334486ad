"""An unstrided convolution whose data gradient is computed as what it is: a convolution with mirrored weights.

cuDNN's own kernels for that gradient take twice as long as its forward ones where channels are few.
"""

from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional


class _Convolution(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return functional.conv3d(x, weight, padding=1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        (gradient,) = gradients
        mirrored = weight.transpose(0, 1).flip(2, 3, 4).contiguous(memory_format=torch.channels_last_3d)
        below = functional.conv3d(gradient, mirrored, padding=1)
        ones = [1, 1, 1]
        _, of_weight, _ = torch.ops.aten.convolution_backward(
            gradient, x, weight, None, ones, ones, ones, False, [0, 0, 0], 1, [False, True, False]
        )
        return below, of_weight


def convolve_mirrored(x: Tensor, weight: Tensor) -> Tensor:
    """Return a convolution without a bias, stride 1 and padding 1, of shape (items, results, x, y, z).

    Args:
        x: shape (items, channels, x, y, z).
        weight: shape (results, channels, 3, 3, 3), of any precision.
    """
    return cast(Tensor, _Convolution.apply(x, weight.to(x.dtype)))
