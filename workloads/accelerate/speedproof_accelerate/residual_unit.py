"""MONAI's residual unit, whose first convolution and that beside it read the same volume: one operation computes both."""

from typing import Any, cast

import torch
from torch import Tensor, nn

from speedproof_accelerate.bias_free import BiasFreeUnit
from speedproof_accelerate.blocks import split_channels
from speedproof_accelerate.kernels.strided_implementations import choose_strided
from speedproof_accelerate.originals import MONAI_CONVOLUTION, find_addition, is_own, is_plain_sequence, path_of
from speedproof_accelerate.parts import (
    HALVES,
    Convolution,
    add_bias,
    convolve_like,
    find_obstacle,
    keeping_kind,
    load,
    precision_of,
)

RESIDUAL_UNIT = "monai.networks.blocks.convolutions.ResidualUnit"
_CONVOLUTIONS = (nn.Conv2d, nn.Conv3d)


def can_pair(unit: Any) -> bool:
    """Return whether both convolutions of a unit's input may be computed as one."""
    pair = _find_pair(unit)
    return pair is not None and find_addition(unit.conv) is None and all(is_own(one, _CONVOLUTIONS) for one in pair)


class PairedUnit(nn.Module):
    """A residual unit, as MONAI's `ResidualUnit`.

    Two convolutions of few channels with a stride of 2 have a kernel. Other pairs are one convolution of twice the channels,
    which takes hardly longer than either, and whose gradient of the input takes no sum.
    """

    def __init__(self, unit: Any) -> None:
        """Replace a unit."""
        super().__init__()
        self.conv, self.residual = unit.conv, unit.residual
        self.spatial_dims, self.in_channels, self.out_channels = unit.spatial_dims, unit.in_channels, unit.out_channels
        self.training = unit.training

    @keeping_kind
    def forward(self, x: Tensor) -> Tensor:
        """Return the unit's result."""
        pair = _find_pair(self)
        fits = pair and x.numel() and x.dim() == pair[0].weight.dim() and precision_of(x) in HALVES
        if not pair or not fits or find_obstacle(x.device):
            residual = cast(nn.Module, self.residual)(x)
            return cast(Tensor, cast(nn.Module, self.conv)(x) + residual)
        (one, other), (first, *others) = pair, cast(Any, self.conv)
        omits_bias = isinstance(first, BiasFreeUnit) and first.omits_bias(x)
        y, residual = _convolve_pair(x, one, other)
        y = first.finish(y) if omits_bias else first.adn(add_bias(y, one.bias))
        for module in others:
            y = module(y)
        return cast(Tensor, y + add_bias(residual, other.bias))

    def list_kernel_weights(self) -> list[nn.Parameter]:
        """Return the weights that a kernel of ours may read."""
        pair = _find_pair(self)
        if pair is None:
            return []
        one, other = pair
        results, channels = one.weight.shape[:2]
        return [one.weight, other.weight] if choose_strided(channels, results, input_gradient=False) else []


def _find_pair(unit: Any) -> tuple[Any, Any] | None:
    """Return both convolutions of a unit's input if they are alike; None: they are not, or were exchanged since."""
    first = next(unit.conv.children(), None)
    if type(unit.conv) is not nn.Sequential or not _begins_with_convolution(first):
        return None
    one, other = _original(cast(Any, first).conv), _original(unit.residual)
    plain = all(type(each) in _CONVOLUTIONS and each.groups == 1 and each.padding_mode == "zeros" for each in (one, other))
    return (one, other) if plain and _describe(one) == _describe(other) else None


def _convolve_pair(x: Tensor, one: Any, other: Any) -> tuple[Tensor, Tensor]:
    """Return what two convolutions make of x without their biases."""
    results, channels = one.weight.shape[:2]
    if _fits_kernel(x, one) and choose_strided(channels, results, input_gradient=x.requires_grad):
        compute = load("conv3d_strided").conv3d_strided_pair
        return cast(tuple[Tensor, Tensor], compute(x.to(precision_of(x)), one.weight, other.weight))
    return split_channels(convolve_like(one, x, torch.cat([one.weight, other.weight])))


def _fits_kernel(x: Tensor, one: Any) -> bool:
    cube = x.dim() == 5 and {*one.kernel_size} == {3} and {*one.stride} == {2} and {*one.padding} == {*one.dilation} == {1}
    return cube and not any(side % 2 for side in x.shape[2:])


def _begins_with_convolution(unit: Any) -> bool:
    """Return whether a unit is MONAI's `Convolution`, or its replacement that omits the bias: a convolution comes first."""
    if isinstance(unit, BiasFreeUnit):
        return True
    return path_of(unit) == MONAI_CONVOLUTION and [*unit._modules] == ["conv", "adn"] and is_plain_sequence(unit)


def _original(module: Any) -> Any:
    return module.replaced if isinstance(module, Convolution) else module


def _describe(one: Any) -> tuple[Any, ...]:
    """Return what is equal for convolutions that can be computed as one."""
    return type(one), one.weight.shape, one.weight.dtype, one.stride, one.padding, one.dilation
