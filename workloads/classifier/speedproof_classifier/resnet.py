"""ResNet-50 (He et al., 2015, table 1) as torchvision has it: a bottleneck's stride is that of its 3×3 convolution.

Layers are made, and then initialised, in the order in which torchvision does both: equal seeds give equal weights.
"""

from collections import OrderedDict
from itertools import pairwise

from torch import Tensor, nn

STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # channels inside, blocks
EXPANSION = 4  # of a block's channels at its end
CLASSES = 1000  # outputs, as documented: ImageNet's, of which Tiny ImageNet uses 200


class Bottleneck(nn.Module):
    """Convolutions of 1×1, 3×3 and 1×1 beside a shortcut."""

    def __init__(self, channels_in: int, channels: int, stride: int, shortcut: nn.Module | None) -> None:
        super().__init__()
        self.conv1, self.norm1 = _convolution(channels_in, channels, 1), nn.BatchNorm2d(channels)
        self.conv2, self.norm2 = _convolution(channels, channels, 3, stride), nn.BatchNorm2d(channels)
        self.conv3, self.norm3 = _convolution(channels, channels * EXPANSION, 1), nn.BatchNorm2d(channels * EXPANSION)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = shortcut

    def forward(self, x: Tensor) -> Tensor:
        """Return what the block makes of N × C × H × W."""
        y = self.relu(self.norm1(self.conv1(x)))
        y = self.relu(self.norm2(self.conv2(y)))
        y = self.norm3(self.conv3(y))
        y += x if self.shortcut is None else self.shortcut(x)
        return self.relu(y)


def resnet50(stages: tuple[tuple[int, int], ...] = STAGES, classes: int = CLASSES) -> nn.Sequential:
    """Return the network, with random weights: 25,557,032 of them by default. It takes N × 3 × H × W."""
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=_convolution(3, 64, 7, 2),
        norm1=nn.BatchNorm2d(64),
        relu=nn.ReLU(inplace=True),
        pool=nn.MaxPool2d(3, 2, padding=1),
    )
    widths = [64, *(channels * EXPANSION for channels, _ in stages)]
    for number, ((channels, blocks), (before, _)) in enumerate(zip(stages, pairwise(widths), strict=True), start=1):
        layers[f"stage{number}"] = _stage(before, channels, blocks, stride=1 if number == 1 else 2)
    layers.update(average=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(), classes=nn.Linear(widths[-1], classes))
    network = nn.Sequential(layers)
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return network


def _stage(channels_in: int, channels: int, blocks: int, stride: int) -> nn.Sequential:
    channels_out = channels * EXPANSION
    shortcut = nn.Sequential(_convolution(channels_in, channels_out, 1, stride), nn.BatchNorm2d(channels_out))
    first = Bottleneck(channels_in, channels, stride, shortcut)
    return nn.Sequential(first, *(Bottleneck(channels_out, channels, 1, None) for _ in range(blocks - 1)))


def _convolution(channels_in: int, channels_out: int, size: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels_in, channels_out, size, stride, padding=size // 2, bias=False)
