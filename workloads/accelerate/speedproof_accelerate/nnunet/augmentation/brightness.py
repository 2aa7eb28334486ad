"""Multiplicative brightness."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from speedproof_accelerate.nnunet.augmentation.draws import Range, choose_rows
from speedproof_accelerate.nnunet.augmentation.rows import change_rows, per_row


def multiply_brightness(images: Tensor, rows: Sequence[int], factors: Tensor) -> None:
    """Multiply some rows by a factor each, in place."""
    change_rows(images, rows, lambda x: x * per_row(factors, x))


@dataclass(frozen=True)
class Brightness:
    """A random factor for each channel."""

    probability: float
    per_channel: float
    factor: Range

    def __call__(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the batch after the transformation."""
        rows = choose_rows(images, self.probability, self.per_channel)
        multiply_brightness(images, rows, self.factor.draw(len(rows)))
        return images, labels
