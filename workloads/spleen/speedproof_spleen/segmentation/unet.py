"""The U-Net of the documented variants in plain torch: MONAI's `UNet` with two residual units a level, batch norm and PReLU.

The same seed gives the same weights under the same names as MONAI's, so that either reads what the other has saved; but to
import it costs nothing, where importing any part of MONAI brings all of it. Source of the architecture: E. Kerfoot et al.,
"Left-Ventricle Quantification Using Residual U-Net", STACOM 2018, doi 10.1007/978-3-030-12029-0_40.
"""

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor, nn

KERNEL, PADDING, STRIDE = 3, 1, 2


class ResidualUNet(nn.Module):
    """Logits of a volume from its intensities: (volumes, inputs, x, y, z) to (volumes, outputs, x, y, z).

    Each level below the first halves the volume, so x, y and z must be divisible by 2 as many times.
    """

    def __init__(self, inputs: int, outputs: int, channels: Sequence[int], dropout: float = 0.0) -> None:
        """Build a level for each of `channels`, strides of 2 between them."""
        super().__init__()
        self.model = _build_level(inputs, outputs, channels, dropout, is_top=True)

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits."""
        logits: Tensor = self.model(images)
        return logits


def _build_level(inputs: int, outputs: int, channels: Sequence[int], dropout: float, *, is_top: bool) -> nn.Module:
    """Return a level and all below it; what is deeper is drawn first, as MONAI does, so that seeds give the same weights."""
    here, *below = channels
    if len(below) == 1:
        deeper: nn.Module = ResidualUnit(here, below[0], 1, 2, dropout)
        found = here + below[0]
    else:
        deeper = _build_level(here, here, below, dropout, is_top=False)
        found = 2 * here
    down = ResidualUnit(inputs, here, STRIDE, 2, dropout)
    enlarging = nn.ConvTranspose3d(found, outputs, KERNEL, STRIDE, PADDING, output_padding=STRIDE - 1)
    up = nn.Sequential(_activated(enlarging, dropout), ResidualUnit(outputs, outputs, 1, 1, dropout, ends_plain=is_top))
    return Level(down, _Skip(deeper), up)


class Level(nn.Sequential):
    """The way down to a resolution, what is deeper with its skip connection, and the way up again."""


class ResidualUnit(nn.Module):
    """Convolutions one behind the other, and their input added to their output, by a convolution where the shapes differ."""

    def __init__(self, inputs: int, outputs: int, stride: int, units: int, dropout: float, *, ends_plain: bool = False) -> None:
        """Chain `units` convolutions, the first of which has the stride; `ends_plain`: after the last comes no activation."""
        super().__init__()
        self.conv = nn.Sequential()
        for number in range(units):
            first = number == 0
            convolution = nn.Conv3d(inputs if first else outputs, outputs, KERNEL, stride if first else 1, PADDING)
            is_plain = ends_plain and number == units - 1
            unit = nn.Sequential(OrderedDict(conv=convolution)) if is_plain else _activated(convolution, dropout)
            self.conv.add_module(f"unit{number}", unit)
        self.residual: nn.Module = nn.Identity()
        if stride != 1:
            self.residual = nn.Conv3d(inputs, outputs, KERNEL, stride, PADDING)
        elif inputs != outputs:
            self.residual = nn.Conv3d(inputs, outputs, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the sum of both paths."""
        kept = self.residual(inputs)
        changed: Tensor = self.conv(inputs)
        return changed + kept


class _Skip(nn.Module):
    """What a module makes of its input, behind the input itself."""

    def __init__(self, submodule: nn.Module) -> None:
        super().__init__()
        self.submodule = submodule

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.cat([inputs, self.submodule(inputs)], dim=1)


def _activated(convolution: nn.Conv3d | nn.ConvTranspose3d, dropout: float) -> nn.Sequential:
    """Return a convolution with what follows it: norm (N), dropout (D) if there is any, activation (A)."""
    layers: OrderedDict[str, nn.Module] = OrderedDict(N=nn.BatchNorm3d(convolution.out_channels))
    if dropout:
        layers["D"] = nn.Dropout(dropout)
    layers["A"] = nn.PReLU()
    return nn.Sequential(OrderedDict(conv=convolution, adn=nn.Sequential(layers)))
