"""Mirroring."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from speedproof_accelerate.nnunet.augmentation.draws import choose, send


def mirror(x: Tensor, samples: Sequence[int], axis: int) -> None:
    """Flip some samples along one spatial axis, in place."""
    if samples:
        index = send(samples, x.device)
        x.index_copy_(0, index, x.index_select(0, index).flip(2 + axis))


@dataclass(frozen=True)
class Mirror:
    """Each axis of each sample flips at even odds."""

    axes: tuple[int, ...]

    def __call__(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the batch after the transformation."""
        for axis in self.axes:
            samples = choose(len(images), 0.5)
            mirror(images, samples, axis)
            mirror(labels, samples, axis)
        return images, labels
