"""Random parameters, drawn on the CPU by torch's generator."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Range(Protocol):
    """A distribution of one parameter."""

    def draw(self, *shape: int) -> Tensor:
        """Return independent values on the CPU."""


@dataclass(frozen=True)
class Uniform:
    """Evenly distributed from `low` to `high`."""

    low: float
    high: float

    def draw(self, *shape: int) -> Tensor:
        """Return independent values on the CPU."""
        return self.low + (self.high - self.low) * torch.rand(shape)


@dataclass(frozen=True)
class Factor:
    """At even odds evenly distributed from `low` to 1, or from 1 to `high`."""

    low: float
    high: float

    def draw(self, *shape: int) -> Tensor:
        """Return independent values on the CPU."""
        far = torch.where(torch.rand(shape) < 0.5, self.low, self.high)
        return 1 + (far - 1) * torch.rand(shape)


def choose(count: int, probability: float) -> list[int]:
    """Return those of `count` numbers that were drawn, each with this probability."""
    return torch.nonzero(torch.rand(count) < probability).flatten().tolist()


def choose_rows(images: Tensor, probability: float, per_channel: float) -> list[int]:
    """Return the rows of the chosen channels of chosen samples; a row is one channel of one sample.

    Args:
        images: shape (samples, channels, …).
        probability: of a sample.
        per_channel: of each channel of a chosen sample.
    """
    channels = images.shape[1]
    return [
        sample * channels + channel for sample in choose(len(images), probability) for channel in choose(channels, per_channel)
    ]


def send(values: Tensor | Sequence[int], device: torch.device) -> Tensor:
    """Copy values from the CPU to a device, without waiting for it."""
    tensor = values if isinstance(values, Tensor) else torch.tensor(values)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)
