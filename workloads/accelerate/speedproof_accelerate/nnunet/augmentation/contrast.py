"""Contrast: differences from the mean, multiplied."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from speedproof_accelerate.nnunet.augmentation.draws import Range, choose_rows
from speedproof_accelerate.nnunet.augmentation.rows import change_rows, per_row


def change_contrast(images: Tensor, rows: Sequence[int], factors: Tensor, *, preserve_range: bool) -> None:
    """Multiply the differences from each row's mean by a factor, in place; the result may stay in the row's range."""

    def change(x: Tensor) -> Tensor:
        axes = tuple(range(1, x.dim()))
        mean = x.mean(axes, keepdim=True)
        changed = (x - mean) * per_row(factors, x) + mean
        return changed.clamp(x.amin(axes, keepdim=True), x.amax(axes, keepdim=True)) if preserve_range else changed

    change_rows(images, rows, change)


@dataclass(frozen=True)
class Contrast:
    """A random factor for each channel."""

    probability: float
    per_channel: float
    factor: Range
    preserve_range: bool

    def __call__(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the batch after the transformation."""
        rows = choose_rows(images, self.probability, self.per_channel)
        change_contrast(images, rows, self.factor.draw(len(rows)), preserve_range=self.preserve_range)
        return images, labels
