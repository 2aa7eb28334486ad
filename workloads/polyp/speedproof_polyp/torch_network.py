"""ResUNet++ (Jha et al. 2019) in PyTorch, as Keras would build it: its paddings, its batch norm, its initial weights.

A stem, three residual blocks that halve, a bridge of parallel dilated convolutions, three steps up, each with attention, and
dilated convolutions again. Every block ends in squeeze and excitation. 4,070,385 weights, running means and variances included.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

RATES = (6, 12, 18, 1)  # of the parallel dilated convolutions
SQUEEZE = 8  # channels / SQUEEZE are left between
_TRUNCATED = 0.87962566  # the deviation of a standard normal that is cut off at two


class ResUNetPlusPlus(nn.Module):
    """From N × 3 × H × W, H and W divisible by 8, to N × 1 × H × W in [0, 1]; `filters` of the stem, 16 times as many below."""

    def __init__(self, filters: int = 16) -> None:
        super().__init__()
        widths = [filters * 2**level for level in range(5)]
        self.stem = Stem(3, widths[0])
        self.down = nn.ModuleList(Residual(widths[k], widths[k + 1], 2) for k in range(3))
        self.bridge = Pyramid(widths[3], widths[4])
        inside = [widths[4], widths[3], widths[2]]
        self.attention = nn.ModuleList(Attention(widths[2 - k], inside[k]) for k in range(3))
        self.up = nn.ModuleList(Residual(inside[k] + widths[2 - k], widths[3 - k], 1) for k in range(3))
        self.last = Pyramid(widths[1], widths[0])
        self.head = convolution(widths[0], 1, 1)

    def forward(self, image: Tensor) -> Tensor:
        """Return each pixel's probability."""
        skips = [self.stem(image)]
        for block in self.down:
            skips.append(block(skips[-1]))
        inner = self.bridge(skips.pop())
        for attention, block in zip(self.attention, self.up, strict=True):
            skip = skips.pop()
            attended = functional.interpolate(attention(skip, inner), scale_factor=2, mode="nearest")
            inner = block(torch.cat([attended, skip], 1))
        return torch.sigmoid(self.head(self.last(inner)).float())


class SameConvolution(nn.Conv2d):
    """A convolution that pads as Keras' `same`: an odd number of rows or columns is split with one more at the end."""

    def forward(self, image: Tensor) -> Tensor:
        """Return the convolved image, of its size divided by the stride."""
        if self.stride[0] == 1:
            return super().forward(image)
        size = self.kernel_size[0]
        rows, columns = (max(size - self.stride[0] - (-length) % self.stride[0], 0) for length in image.shape[2:])
        padding = (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2)
        return self._conv_forward(functional.pad(image, padding), self.weight, self.bias)


def convolution(channels_in: int, channels_out: int, size: int, stride: int = 1, rate: int = 1) -> SameConvolution:
    """Return a convolution with Keras' initial weights."""
    padding = rate * (size // 2) if stride == 1 else 0
    layer = SameConvolution(channels_in, channels_out, size, stride, padding, rate)
    nn.init.xavier_uniform_(layer.weight)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
    return layer


def norm(channels: int) -> nn.BatchNorm2d:
    """Return a batch norm with Keras' momentum and epsilon."""
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


def activated(channels_in: int, channels_out: int, stride: int = 1) -> nn.Sequential:
    """Return batch norm, ReLU and a convolution of 3×3."""
    return nn.Sequential(norm(channels_in), nn.ReLU(), convolution(channels_in, channels_out, 3, stride))


def initialise_as_he(weight: Tensor) -> None:
    """Fill a matrix as Keras' `he_normal` does: variance 2 / inputs, values beyond two deviations drawn again."""
    deviation = math.sqrt(2 / weight.shape[1]) / _TRUNCATED
    nn.init.trunc_normal_(weight, std=deviation, a=-2 * deviation, b=2 * deviation)


class Excitation(nn.Module):
    """Squeeze and excitation: each channel weighted by what all of them hold on the mean."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        between = max(1, channels // SQUEEZE)
        self.squeeze, self.excite = nn.Linear(channels, between, bias=False), nn.Linear(between, channels, bias=False)
        for layer in (self.squeeze, self.excite):
            initialise_as_he(layer.weight)

    def forward(self, image: Tensor) -> Tensor:
        """Return the weighted image."""
        weights = torch.sigmoid(self.excite(functional.relu(self.squeeze(image.mean((2, 3))))))
        return image * weights[..., None, None]


class Stem(nn.Module):
    """The first residual block, which begins with a convolution and keeps the size."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.first = convolution(channels_in, channels_out, 3)
        self.second = activated(channels_out, channels_out)
        self.shortcut = nn.Sequential(convolution(channels_in, channels_out, 1), norm(channels_out))
        self.excitation = Excitation(channels_out)

    def forward(self, image: Tensor) -> Tensor:
        """Return the block's output."""
        return self.excitation(self.second(self.first(image)) + self.shortcut(image))


class Residual(nn.Module):
    """Two activated convolutions beside a 1×1 one."""

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.first = activated(channels_in, channels_out, stride)
        self.second = activated(channels_out, channels_out)
        self.shortcut = nn.Sequential(convolution(channels_in, channels_out, 1, stride), norm(channels_out))
        self.excitation = Excitation(channels_out)

    def forward(self, image: Tensor) -> Tensor:
        """Return the block's output."""
        return self.excitation(self.second(self.first(image)) + self.shortcut(image))


class Pyramid(nn.Module):
    """Atrous spatial pyramid pooling: dilated convolutions side by side, their sum, and a 1×1 convolution."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList(
            nn.Sequential(convolution(channels_in, channels_out, 3, rate=rate), norm(channels_out)) for rate in RATES
        )
        self.join = convolution(channels_out, channels_out, 1)

    def forward(self, image: Tensor) -> Tensor:
        """Return the joined branches."""
        joined: Tensor = self.join(sum(branch(image) for branch in self.branches))
        return joined


class Attention(nn.Module):
    """The deeper level's output, weighted by itself and by the skip connection, which is twice as high and wide."""

    def __init__(self, channels_skip: int, channels: int) -> None:
        super().__init__()
        self.side, self.below = activated(channels_skip, channels), activated(channels, channels)
        self.both = activated(channels, channels)

    def forward(self, skip: Tensor, below: Tensor) -> Tensor:
        """Return the weighted image from below."""
        return self.both(functional.max_pool2d(self.side(skip), 2) + self.below(below)) * below


def count_weights(network: nn.Module) -> int:
    """Return how many numbers a network is made of as Keras counts them: its running means and variances, too."""
    kept = [buffer for buffer in network.buffers() if buffer.is_floating_point()]
    return sum(values.numel() for values in [*network.parameters(), *kept])
