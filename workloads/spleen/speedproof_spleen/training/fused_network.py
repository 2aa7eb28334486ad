"""The UNet with the kernels in place: the same parameters under the same names, the same function.

What a convolution adds to all voxels alike (its bias), the batch norm behind it takes away again; so it is left out of the
pass over memory, and counted only where it shows: in the running mean.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, cast

import torch
from torch import Tensor, nn

from speedproof_accelerate.kernels import reference
from speedproof_accelerate.kernels.strided_implementations import choose_strided, choose_transposed
from speedproof_spleen.segmentation.unet import Level, ResidualUnit

FEW_CHANNELS = 2  # at most, for the kernels at full resolution
CONV3D_CHANNELS = (8, 16, 32)  # for which a convolution of stride 1 has a kernel
# Modules of kernels that define the operations below.
FUSED_OPERATIONS = ("batch_norm_prelu", "conv3d", "conv3d_strided", "conv_transpose3d", "concat_channels")


@dataclass(frozen=True)
class Operations:
    """Who computes what: the kernels, or torch."""

    batch_norm_prelu: Callable[..., Tensor]
    conv3d_strided_pair: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
    conv3d_plus_input: Callable[[Tensor, Tensor, Tensor], Tensor]
    conv_transpose3d_pair: Callable[[Tensor, Tensor, Tensor], Tensor]
    conv3d: Callable[[Tensor, Tensor], Tensor]
    conv3d_and_input: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
    concat_channels: Callable[[Tensor, Tensor], Tensor]
    split_channels: Callable[[Tensor], tuple[Tensor, Tensor]]

    @classmethod
    def of(cls, *modules: ModuleType) -> "Operations":
        """Return the functions of these names that the modules hold."""
        return cls(*(next(getattr(one, name) for one in modules if hasattr(one, name)) for name in cls.__dataclass_fields__))


class FusedConvolution(nn.Module):
    """A convolution without its bias, then batch norm, PReLU and perhaps a residual in one."""

    conv: Any
    adn: Any

    def __init__(self, unit: Any, operations: Operations, direct: bool) -> None:
        """Take over a unit's parameters. `direct`: a convolution that has a kernel of its own goes by it."""
        super().__init__()
        self.conv = unit.conv
        self.adn = unit.adn
        if hasattr(self.adn, "D"):
            raise ValueError(f"dropout of {self.adn.D.p}")
        self._operations = operations
        self._direct = direct and has_kernel(self.conv)

    def forward(self, x: Tensor) -> Tensor:
        """Return the unit's result, channels last."""
        return self.finish(self.convolve(x))

    def convolve(self, x: Tensor) -> Tensor:
        """Return what the convolution gives, its bias left out."""
        if self._direct:
            return self._operations.conv3d(_autocast(x), self.conv.weight)
        return convolve_without_bias(self.conv, x)

    def finish(self, convolved: Tensor, residual: Tensor | None = None, residual_bias: Tensor | None = None) -> Tensor:
        """Return what follows the convolution."""
        norm, slope = self.adn.N, self.adn.A.weight
        return self._operations.batch_norm_prelu(convolved, norm, slope, self.conv.bias, residual, residual_bias)


class FusedResidualUnit(nn.Module):
    """A residual unit whose sum is part of its last norm; its first convolution and its residual's may be one kernel."""

    residual: Any

    def __init__(self, unit: ResidualUnit, operations: Operations, direct: bool) -> None:
        """Take over a unit's parameters. `direct`: both convolutions of its input go as one; some, by a kernel."""
        super().__init__()
        self.conv = nn.Sequential()
        for name, one in unit.conv.named_children():
            self.conv.add_module(name, FusedConvolution(one, operations, direct))
        self.residual = unit.residual
        self._operations = operations
        self._pair: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]] | None = None
        if direct and find_strided_channels(unit):
            self._pair = operations.conv3d_strided_pair
        self._keeps = direct and keeps_input(unit)
        self._joined = direct and getattr(unit.residual, "kernel_size", None) == cast(Any, unit.conv[0]).conv.kernel_size

    def forward(self, x: Tensor) -> Tensor:
        """Return the unit's result, channels last."""
        first, *others = cast(list[FusedConvolution], list(self.conv))
        bias = None
        if self._pair:
            convolved, residual = self._pair(_autocast(x), first.conv.weight, self.residual.weight)
            bias = self.residual.bias
        elif self._joined:
            convolved, residual = self._operations.split_channels(convolve_both(first.conv, self.residual, x))
            bias = self.residual.bias
        elif self._keeps:
            convolved, residual = self._operations.conv3d_and_input(_autocast(x), first.conv.weight)
        else:
            convolved, residual = first.convolve(x), x
            if isinstance(self.residual, nn.Conv3d):
                residual, bias = convolve_without_bias(self.residual, x), self.residual.bias
        for unit in others:
            convolved = unit.convolve(first.finish(convolved))
            first = unit
        return first.finish(convolved, residual, bias)


class DirectResidualUnit(nn.Module):
    """A bare convolution of few channels, and its input added: the network's last unit."""

    conv: Any

    def __init__(self, unit: ResidualUnit, operations: Operations) -> None:
        """Take over the unit's parameters."""
        super().__init__()
        self.conv = unit.conv
        self.residual = unit.residual
        self._operations = operations

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits, channels last."""
        convolution = self.conv.unit0.conv
        return self._operations.conv3d_plus_input(x, convolution.weight, convolution.bias)


class FusedSkip(nn.Module):
    """A level's input, followed by what its deeper part makes of it; joined by a kernel if both have the same shape."""

    submodule: Any

    def __init__(self, skip: Any, operations: Operations) -> None:
        """Take over a skip connection whose units are fused."""
        super().__init__()
        self.submodule = skip.submodule
        self._operations = operations

    def forward(self, x: Tensor) -> Tensor:
        """Return both volumes' channels."""
        deeper = self.submodule(x)
        join = self._operations.concat_channels if x.shape == deeper.shape else reference.concat_channels
        return join(_autocast(x), _autocast(deeper))


class FusedLevel(nn.Sequential):
    """A level whose transposed convolution reads both volumes of the skip connection without joining them first."""

    def __init__(self, level: Level, operations: Operations) -> None:
        """Take over a level whose units are fused."""
        super().__init__(*level)
        self._transpose = operations.conv_transpose3d_pair

    def forward(self, x: Tensor) -> Tensor:
        """Return the unit's result on the way up, channels last."""
        down, skip, (enlarging, unit) = cast(Any, self)
        kept = down(x)
        pair = _autocast(kept), _autocast(skip.submodule(kept))
        return cast(Tensor, unit(enlarging.finish(self._transpose(*pair, enlarging.conv.weight))))


def fuse(module: nn.Module, operations: Operations, *, direct: bool) -> nn.Module:
    """Return the network with its units exchanged for fused ones, and, if `direct`, some of its convolutions for kernels.

    Raises:
        ValueError: the network has dropout, which the fused units leave out.
    """
    children: list[tuple[str, Any]] = list(module.named_children())
    for name, child in children:
        if isinstance(child, ResidualUnit):
            if hasattr(child.conv[-1], "adn"):
                setattr(module, name, FusedResidualUnit(child, operations, direct))
            elif direct and cast(Any, child.conv[0]).conv.in_channels == FEW_CHANNELS:
                setattr(module, name, DirectResidualUnit(child, operations))
        elif hasattr(child, "adn"):
            setattr(module, name, FusedConvolution(child, operations, direct))
        else:
            fuse(child, operations, direct=direct)
            if direct and find_transposed_channels(child):
                setattr(module, name, FusedLevel(child, operations))
            elif direct and isinstance(child, Level):
                child[1] = FusedSkip(child[1], operations)
    return module


def find_transposed_channels(level: Any) -> tuple[int, int] | None:
    """Return the channels of each volume of a level's skip connection, and of what a kernel makes of both; None: no kernel."""
    if not isinstance(level, Level):
        return None
    down, _, (enlarging, _) = cast(Any, level)
    channels, convolution = down.conv[0].conv.out_channels, enlarging.conv
    found = channels, convolution.out_channels
    return found if convolution.in_channels == 2 * channels and choose_transposed(*found) else None


def find_strided_channels(unit: nn.Module) -> tuple[int, int] | None:
    """Return the channels of a residual unit's input and of each of its two strided convolutions; None: no kernel.

    A volume of one channel is an image, which needs no gradient.
    """
    if not isinstance(unit, ResidualUnit) or not isinstance(unit.residual, nn.Conv3d) or unit.residual.kernel_size != (3, 3, 3):
        return None
    found = unit.residual.in_channels, unit.residual.out_channels
    return found if choose_strided(*found, input_gradient=found[0] > 1) else None


def keeps_input(unit: nn.Module) -> bool:
    """Return whether a residual unit adds its input as it is, and its first convolution goes by a kernel of ours."""
    return (
        isinstance(unit, ResidualUnit) and isinstance(unit.residual, nn.Identity) and has_kernel(cast(Any, unit.conv[0]).conv)
    )


def has_kernel(convolution: nn.Module) -> bool:
    """Return whether a convolution within a level goes by a kernel of ours; the library's serve all others well."""
    if not isinstance(convolution, nn.Conv3d) or (convolution.stride, convolution.kernel_size) != ((1, 1, 1), (3, 3, 3)):
        return False
    return convolution.in_channels == convolution.out_channels and convolution.in_channels in CONV3D_CHANNELS


def convolve_without_bias(convolution: nn.Module, x: Tensor) -> Tensor:
    """Return what a convolution gives, its bias left out."""
    if isinstance(convolution, nn.ConvTranspose3d):
        return nn.functional.conv_transpose3d(
            x, convolution.weight, None, convolution.stride, cast(Any, convolution.padding), convolution.output_padding
        )
    assert isinstance(convolution, nn.Conv3d)
    return nn.functional.conv3d(x, convolution.weight, None, convolution.stride, convolution.padding)


def convolve_both(first: nn.Conv3d, second: nn.Conv3d, x: Tensor) -> Tensor:
    """Return what two convolutions of a shape make of the same volume, one's channels behind the other's, biases left out.

    The library does one of twice the width, which takes hardly longer than either, and the volume's gradient takes no sum.
    """
    return nn.functional.conv3d(x, torch.cat([first.weight, second.weight]), None, first.stride, first.padding)


def _autocast(x: Tensor) -> Tensor:
    """Return a kernel's input in the precision that autocast would give a convolution's."""
    kind = x.device.type
    return x.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else x
