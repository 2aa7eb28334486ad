"""What `accelerate` knows of dynamic_network_architectures, whose networks nnU-Net trains: PlainConvUNet, ResidualEncoderUNet.

Its convolution block has each module twice: in a sequence, which it calls, and under a name of its own. A module's checkpoint
holds both names, so both stay, and name the same part.
"""

from collections.abc import Iterator
from typing import Any, cast

from torch import Tensor, nn

from speedproof_accelerate.bias_free import BiasFreeSequence, bias_of
from speedproof_accelerate.blocks import concat_channels
from speedproof_accelerate.originals import is_own, path_of
from speedproof_accelerate.parts import NormActivation, add_bias, convolve_without_bias, load, slope_of

_BLOCKS = "dynamic_network_architectures.building_blocks"
CONVOLUTION_BLOCK = f"{_BLOCKS}.simple_conv_blocks.ConvDropoutNormReLU"
RESIDUAL_BLOCK = f"{_BLOCKS}.residual.BasicBlockD"
DECODER = f"{_BLOCKS}.unet_decoder.UNetDecoder"
_SEQUENCE = "all_modules"


def find_aliases(network: nn.Module) -> Iterator[tuple[nn.Module, str, str]]:
    """Yield convolution blocks with each second name of a module, and that module's name in the block's sequence."""
    for block in network.modules():
        if path_of(block) == CONVOLUTION_BLOCK:
            called = {id(one): key for key, one in block.get_submodule(_SEQUENCE).named_children()}
            for key, one in block.named_children():
                if id(one) in called:
                    yield block, key, called[id(one)]


def restore_alias(block: nn.Module, key: str, called: str) -> None:
    """Let a second name in a convolution block mean what its sequence calls now."""
    block.add_module(key, cast(Any, block.get_submodule(_SEQUENCE))._modules[called])


class ConcatDecoder(nn.Module):
    """A U-Net's decoder that concatenates by our kernel, as `UNetDecoder`.

    Attributes:
        deep_supervision: whether it returns the results of all resolutions, the highest first, or only the highest.
    """

    def __init__(self, decoder: Any) -> None:
        """Replace a decoder."""
        super().__init__()
        for name, module in decoder.named_children():
            self.add_module(name, module)
        self.deep_supervision = decoder.deep_supervision
        self.num_classes = decoder.num_classes
        self.training = decoder.training

    def forward(self, skips: list[Tensor]) -> Tensor | list[Tensor]:
        """Return the network's results; `skips` are the encoder's, the lowest resolution last."""
        x, results = skips[-1], []
        levels = zip(self._list("transpconvs"), self._list("stages"), self._list("seg_layers"), skips[-2::-1], strict=True)
        for upsample, stage, head, skip in levels:
            x = stage(concat_channels(upsample(x), skip))
            if self.deep_supervision or skip is skips[0]:
                results.append(head(x))
        return results[::-1] if self.deep_supervision else results[0]

    def _list(self, name: str) -> nn.ModuleList:
        return cast(nn.ModuleList, self.get_submodule(name))


def can_fuse_residual(block: Any) -> bool:
    """Return whether a residual block ends with a convolution, an instance norm, the addition and a (leaky) ReLU alone."""
    last = list(block.conv2.get_submodule(_SEQUENCE).children())
    plain = not block.apply_stochastic_depth and not block.apply_se and is_own(block.nonlin2, (nn.ReLU, nn.LeakyReLU))
    if not plain or cast(float, slope_of(block.nonlin2)) < 0 or len(last) != 2 or not isinstance(last[1], NormActivation):
        return False
    return isinstance(last[1].replaced, nn.modules.instancenorm._InstanceNorm) and not last[1].has_activation


class NormResidualBlock(nn.Module):
    """A residual block whose last norm adds the residual and activates, as `BasicBlockD`."""

    def __init__(self, block: Any) -> None:
        """Replace a block for which :func:`can_fuse_residual` holds."""
        super().__init__()
        for name, module in block.named_children():
            self.add_module(name, module)
        self.has_skip = isinstance(block.skip, nn.Module)  # otherwise the input itself is added
        self.training = block.training

    def forward(self, x: Tensor) -> Tensor:
        """Return activation(norm(convolutions(x)) + skip(x))."""
        residual = cast(nn.Module, self.skip)(x) if self.has_skip else x
        sequence = cast(nn.Module, self.conv2).get_submodule(_SEQUENCE)
        convolution, norm = cast(tuple[nn.Module, NormActivation], tuple(sequence.children()))
        y, bias = cast(nn.Module, self.conv1)(x), None
        if isinstance(sequence, BiasFreeSequence) and norm.own_because is None:
            y, bias = convolve_without_bias(convolution, y), bias_of(convolution)
        else:
            y = convolution(y)
        activation = cast(nn.Module, self.nonlin2)
        if norm.find_misfit(y):
            return cast(Tensor, activation(norm.compute_as_torch(add_bias(y, bias)) + residual))
        if residual.shape != y.shape or residual.dtype != y.dtype:
            return cast(Tensor, activation(norm.compute(y, bias) + residual))
        kernels, own = load("group_norm_residual"), norm.replaced
        kind = kernels.Norm(1, False, own.eps)
        slope = slope_of(activation)
        return cast(Tensor, kernels.group_norm_residual(y, residual, kind, own.weight, own.bias, slope=slope, left_out=bias))
