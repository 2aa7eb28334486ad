"""Gamma correction."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from speedproof_accelerate.nnunet.augmentation.draws import Range, choose_rows
from speedproof_accelerate.nnunet.augmentation.rows import change_rows, per_row

_SMALLEST = 1e-7  # a range or a standard deviation below it does not divide


def correct_gamma(images: Tensor, rows: Sequence[int], exponents: Tensor, *, inverted: bool, keep_statistics: bool) -> None:
    """Raise rows, scaled to [0, 1], to a power each and scale them back, in place.

    Args:
        images: shape (samples, channels, …).
        rows: those that are corrected; see :func:`.rows.change_rows`.
        exponents: shape (rows,).
        inverted: whether the row's negative is corrected.
        keep_statistics: whether mean and standard deviation are restored.
    """

    def change(x: Tensor) -> Tensor:
        axes = tuple(range(1, x.dim()))
        x = -x if inverted else x
        low = x.amin(axes, keepdim=True)
        span = x.amax(axes, keepdim=True) - low
        y = ((x - low) / span.clamp(min=_SMALLEST)) ** per_row(exponents, x) * span + low
        if keep_statistics:
            factor = x.std(axes, keepdim=True) / y.std(axes, keepdim=True).clamp(min=_SMALLEST)
            y = (y - y.mean(axes, keepdim=True)) * factor + x.mean(axes, keepdim=True)
        return -y if inverted else y

    change_rows(images, rows, change)


@dataclass(frozen=True)
class Gamma:
    """A random exponent for each channel."""

    probability: float
    per_channel: float
    exponent: Range
    inverted: bool
    keep_statistics: bool

    def __call__(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the batch after the transformation."""
        rows = choose_rows(images, self.probability, self.per_channel)
        exponents = self.exponent.draw(len(rows))
        correct_gamma(images, rows, exponents, inverted=self.inverted, keep_statistics=self.keep_statistics)
        return images, labels
