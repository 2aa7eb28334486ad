"""Batches for training and validation, which are made on the training device."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from speedproof_accelerate.nnunet.augmentation.pipeline import Pipeline
from speedproof_accelerate.nnunet.volumes import Case, cut_patch

Batch = dict[str, Any]


class ResidentPatches:
    """Patches of cases that stay on the device, chosen by nnU-Net's own loader: cases, foreground and places."""

    def __init__(self, published: Any, cases: dict[str, Case]) -> None:
        """Take a `nnUNetDataLoader`, which chooses and reads nothing, and the cases."""
        self._published = published
        self._cases = cases

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        """Return patches on the device, not augmented."""
        keys = self._published.get_indices()
        patches = [self._cut(key, self._published.get_do_oversample(place)) for place, key in enumerate(keys)]
        images, labels = (torch.stack(ones) for ones in zip(*patches, strict=True))
        return {"data": images, "target": labels, "keys": keys}

    def _cut(self, key: str, foreground: bool) -> tuple[Tensor, Tensor]:
        case = self._cases[key]
        box = self._published.get_bbox(case.image.shape[1:], foreground, case.class_locations)
        image, label = cut_patch(case, *box)
        return (image[:, 0], label[:, 0]) if self._published.patch_size_was_2d else (image, label)


class AugmentedBatches:
    """Batches of another loader, moved to the device and augmented there.

    Attributes:
        source: the other loader.
    """

    def __init__(self, source: Iterator[Batch], pipeline: Pipeline, device: torch.device) -> None:
        """Take the loader of patches, their augmentation and the device."""
        self.source = source
        self._pipeline = pipeline
        self._device = device

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        """Return a batch as nnU-Net's trainer reads it."""
        batch = next(self.source)
        images, labels = (batch[key].to(self._device, non_blocking=True) for key in ("data", "target"))
        images, target = self._pipeline(images, labels)
        return {"data": images, "target": target, "keys": batch["keys"]}


class LateLoader:
    """Batches of a loader that is made for the first of them.

    Attributes:
        made: that loader; None before.
    """

    def __init__(self, make: Callable[[], Iterator[Batch]]) -> None:
        """Take what makes the loader."""
        self.made: Iterator[Batch] | None = None
        self._make = make

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        """Return the next batch."""
        if self.made is None:
            self.made = self._make()
        return next(self.made)
