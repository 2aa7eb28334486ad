"""Gaussian noise."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from speedproof_accelerate.nnunet.augmentation.draws import Range, choose, send


def add_gaussian_noise(images: Tensor, samples: Sequence[int], deviations: Tensor) -> None:
    """Add noise to some samples, in place.

    Args:
        images: shape (samples, channels, …).
        samples: the numbers of those that get noise.
        deviations: the noise's standard deviation in each channel, shape (chosen samples, channels) or (chosen samples, 1).
    """
    if not samples:
        return
    noise = torch.randn((len(samples), *images.shape[1:]), device=images.device)
    scale = send(deviations, images.device)
    noise *= scale.view(*scale.shape, *[1] * (images.dim() - 2))
    images.index_add_(0, send(samples, images.device), noise)


@dataclass(frozen=True)
class GaussianNoise:
    """Noise of a random standard deviation, the same in all channels of a sample."""

    probability: float
    deviation: Range

    def __call__(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the batch after the transformation."""
        samples = choose(len(images), self.probability)
        add_gaussian_noise(images, samples, self.deviation.draw(len(samples), 1))
        return images, labels
