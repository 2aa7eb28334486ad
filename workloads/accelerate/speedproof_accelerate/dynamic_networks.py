"""What `accelerate` knows of dynamic_network_architectures, whose networks nnU-Net trains: PlainConvUNet, ResidualEncoderUNet.

Its convolution block has each module twice: in a sequence, which it calls, and under a name of its own. A module's checkpoint
holds both names, so both stay, and name the same part.
"""

from collections.abc import Iterator
from typing import Any, cast

from torch import Tensor, nn

from speedproof_accelerate.originals import path_of
from speedproof_accelerate.parts import concat_channels

_BLOCKS = "dynamic_network_architectures.building_blocks"
CONVOLUTION_BLOCK = f"{_BLOCKS}.simple_conv_blocks.ConvDropoutNormReLU"
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
