"""The documented variants' losses in plain torch: soft Dice, alone or with cross entropy."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from speedproof_spleen import variant as config


class SoftDice(nn.Module):
    """The Dice loss of (logits, labels): one minus the mean of 2 |A ∩ B| / (|A| + |B|), with probabilities for A.

    As MONAI's `DiceLoss(to_onehot_y=True, softmax=True)`. Source: F. Milletari et al., "V-Net", 3DV 2016, whose candidate is
    that of squared probabilities.
    """

    def __init__(
        self, *, include_background: bool = True, squared: bool = False, over_batch: bool = False, smooth: float = 1e-5
    ) -> None:
        """Take Dice of each volume, or `over_batch` of all; `smooth` is added above and below the fraction line."""
        super().__init__()
        self._first_class = 0 if include_background else 1
        self._squared = squared
        self._summed = (0, 2, 3, 4) if over_batch else (2, 3, 4)
        self._smooth = smooth

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss, a scalar, of logits (volumes, classes, x, y, z) and labels (volumes, 1, x, y, z)."""
        probabilities = logits.softmax(dim=1)[:, self._first_class :]
        classes = torch.arange(self._first_class, logits.shape[1], device=labels.device).view(1, -1, 1, 1, 1)
        true = (labels == classes).to(probabilities.dtype)
        common = (probabilities * true).sum(self._summed)
        own = probabilities.square() if self._squared else probabilities
        sizes = own.sum(self._summed) + true.sum(self._summed)
        return (1 - (2 * common + self._smooth) / (sizes + self._smooth)).mean()


class DiceAndCrossEntropy(nn.Module):
    """The Dice loss of squared probabilities over the batch, and cross entropy, added, either with a weight.

    As MONAI's `DiceCELoss(to_onehot_y=True, softmax=True, squared_pred=True, batch=True)`.
    """

    def __init__(self, settings: config.DiceCELoss) -> None:
        super().__init__()
        self._dice = SoftDice(
            include_background=settings.include_background, squared=True, over_batch=True, smooth=settings.smooth
        )
        self._weight = settings.weight

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss, a scalar, of logits (volumes, classes, x, y, z) and labels (volumes, 1, x, y, z)."""
        return self._weight * (self._dice(logits, labels) + functional.cross_entropy(logits, labels[:, 0].long()))
