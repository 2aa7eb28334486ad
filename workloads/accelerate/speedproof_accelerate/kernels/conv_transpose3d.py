"""A transposed 3D convolution of two volumes' channels, stride 2; `strided_implementations.py` chooses the kernels."""

from typing import Any, cast

from torch import Tensor
from torch.autograd import Function

from speedproof_accelerate.kernels.autograd import refuse_double_backward
from speedproof_accelerate.kernels.channels_last import as_channels_last
from speedproof_accelerate.kernels.conv3d_strided import build_matrices, convolve, sum_weight_gradients, transpose
from speedproof_accelerate.kernels.strided_implementations import choose_transposed
from speedproof_accelerate.kernels.weight_matrices import as_dense


class _ConvTranspose3dPair(Function):
    @staticmethod
    def forward(ctx: Any, kernels: Any, first: Tensor, second: Tensor, weight: Tensor) -> Tensor:
        halves = [as_channels_last(first), as_channels_last(second)]
        weights, last = as_dense(weight)
        ctx.layout, windows, neighbours = build_matrices(kernels, weights, last, first.dtype, both=True)
        ctx.kernels = kernels
        ctx.save_for_backward(*halves, windows, *weights)
        return transpose(kernels, halves, neighbours, weight.shape[1])

    @staticmethod
    @refuse_double_backward
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        first, second, windows, *weights = ctx.saved_tensors
        full = as_channels_last(gradients[0])
        # Seen from its results, a transposed convolution is a strided one.
        made = sum_weight_gradients(ctx.kernels, full, [first, second], ctx.layout, weights)
        return None, *convolve(ctx.kernels, full, windows, first.shape[1]), *made


def conv_transpose3d_pair(first: Tensor, second: Tensor, weight: Tensor) -> Tensor:
    """Return a 3 × 3 × 3 transposed convolution, stride 2 and padding 1, without a bias, of two volumes' channels.

    Args:
        first: shape (items, channels, x, y, z), on a GPU.
        second: of the same shape; its channels follow those of `first`.
        weight: shape (2 · channels, results, 3, 3, 3), as `nn.ConvTranspose3d` has it; its gradient has its type.

    Raises:
        ValueError: the shapes do not fit each other, or no implementation fits the channels.
    """
    channels, results = first.shape[1], weight.shape[1]
    if first.shape != second.shape or weight.shape[0] != 2 * channels:
        shapes = " and ".join(str(tuple(one.shape)) for one in (first, second))
        raise ValueError(f"volumes of shapes {shapes} do not fit weights of shape {tuple(weight.shape)}")
    found = choose_transposed(channels, results)
    if found is None:
        raise ValueError(f"no kernel convolves two volumes of {channels} channels, transposed, to {results}; use torch's")
    return cast(Tensor, _ConvTranspose3dPair.apply(found.load(), first, second, weight))
