"""Spleen segmentation in abdominal CT, as MONAI's tutorials train it (DESIGN.md, "the documented sides").

Sources: MONAI tutorials, `performance_profiling/radiology/train_base_nvtx.py` and `train_fast_nvtx.py` (the profiling pair)
and `acceleration/fast_training_tutorial.ipynb` (the tutorial pair).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from monai.data import decollate_batch
from monai.inferers import sliding_window_inference
from monai.losses import DiceCELoss, DiceLoss
from monai.metrics import DiceMetric
from monai.networks.layers import Norm
from monai.networks.nets import UNet
from monai.transforms import (
    AsDiscrete,
    Compose,
    CropForegroundd,
    EnsureChannelFirstd,
    EnsureTyped,
    FgBgToIndicesd,
    LoadImaged,
    Orientationd,
    RandCropByPosNegLabeld,
    ScaleIntensityRanged,
    Spacingd,
    Transform,
)
from torch import Tensor, nn

from speedproof.cases.dice import DeviceDice
from speedproof.config import model as config
from speedproof.profiling.ranges import mark_transform

CLASSES = 2  # background and spleen
KEYS = ["image", "label"]


@dataclass(frozen=True)
class Spleen:
    """The spleen case under one variant, on one device."""

    workload: config.Workload
    variant: config.Variant
    device: torch.device

    def split_files(self, files: list[dict[str, str]]) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
        """Return the files that train and those that validate: the last ones by name."""
        return files[: -self.workload.validation_cases], files[-self.workload.validation_cases :]

    def training_transform(self) -> Compose:
        """Return the chain from a file to `patches_per_volume` patches.

        The tensors go to the GPU, for a cache there, before the random crop; else they are typed after it, and the loop
        moves each batch.
        """
        steps = self._deterministic_transforms()
        if self.variant.index_transform:
            indexing = FgBgToIndicesd(keys="label", fg_postfix="_fg", bg_postfix="_bg", image_key="image")
            steps.append(("Indexing", indexing))
        if self.variant.cache == "gpu":
            steps += [self._ensure_type(), ("RandCrop", self._random_crop())]
        else:
            steps += [("RandCrop", self._random_crop()), self._ensure_type()]
        return self._compose(steps)

    def validation_transform(self) -> Compose:
        """Return the chain from a file to a whole volume."""
        return self._compose([*self._deterministic_transforms(), self._ensure_type()])

    def preparation_transform(self) -> Compose:
        """Return the chain from a file to a whole volume on the device, where all but the reading is done."""
        (load, first, *others) = self._deterministic_transforms()
        return self._compose([load, first, ("EnsureType", EnsureTyped(keys=KEYS, device=self.device)), *others])

    def preparation_settings(self) -> dict[str, Any]:
        """Return what, besides the files, decides what that chain gives."""
        return self.workload.model_dump(mode="json", include={"spacing_mm", "intensity_range"})

    def patch_size(self) -> tuple[int, int, int]:
        """Return the voxels of a training patch along each axis."""
        return self.workload.patch_size

    def network(self) -> nn.Module:
        """Return MONAI's UNet: strides of 2, two residual units, batch norm, PReLU."""
        network = self.variant.network
        return UNet(
            spatial_dims=3,
            in_channels=1,
            out_channels=CLASSES,
            channels=network.channels,
            strides=(2,) * (len(network.channels) - 1),
            num_res_units=2,
            norm=Norm.BATCH,
            dropout=network.dropout,
        ).to(self.device)

    def loss(self) -> nn.Module:
        """Return the loss of (logits, labels); either takes softmax and one-hot labels itself."""
        loss = self.variant.loss
        if isinstance(loss, config.DiceLoss):
            return DiceLoss(to_onehot_y=True, softmax=True)
        return DiceCELoss(
            include_background=loss.include_background,
            to_onehot_y=True,
            softmax=True,
            squared_pred=True,
            batch=True,
            smooth_nr=loss.smooth,
            smooth_dr=loss.smooth,
            lambda_dice=loss.weight,
            lambda_ce=loss.weight,
        )

    def predict(self, network: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
        """Return the logits of whole volumes, shape (volumes, classes, x, y, z), by a sliding window."""
        window = self.workload
        batch = self.variant.window_batch or window.window_batch
        logits = sliding_window_inference(images, window.window_size, batch, network, window.window_overlap)
        assert isinstance(logits, Tensor)  # a tuple or dict only where the network returns one
        return logits

    def discretize(self, logits: Tensor, labels: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Return predictions and labels, a tensor each volume: one-hot for MONAI's metric, classes for the device's."""
        if self.variant.scoring == "device":
            return list(logits.argmax(dim=1)), list(labels[:, 0])
        to_prediction = AsDiscrete(argmax=True, to_onehot=CLASSES)
        to_label = AsDiscrete(to_onehot=CLASSES)
        predictions = [to_prediction(one) for one in decollate_batch(logits)]
        references = [to_label(one) for one in decollate_batch(labels)]
        return cast(list[Tensor], predictions), cast(list[Tensor], references)  # an array only of an array

    def metric(self) -> DiceMetric | DeviceDice:
        """Return the metric whose aggregate is the mean Dice of each class, shape (classes,), background first.

        One metric serves both documented definitions: the profiling pair's mean counts the background, the tutorial pair's
        does not.
        """
        if self.variant.scoring == "device":
            return DeviceDice(CLASSES)
        return DiceMetric(include_background=True, reduction="mean_batch")

    def patches_per_volume(self) -> int:
        """Return how many patches of a volume an epoch trains on."""
        return self.workload.patches_per_volume

    def _deterministic_transforms(self) -> list[tuple[str, Transform]]:
        low, high = self.workload.intensity_range
        scale = ScaleIntensityRanged(keys=["image"], a_min=low, a_max=high, b_min=0.0, b_max=1.0, clip=True)
        spacing = Spacingd(keys=KEYS, pixdim=self.workload.spacing_mm, mode=("bilinear", "nearest"))
        # The labels of the axes are pinned: MONAI has changed their default.
        orientation = Orientationd(keys=KEYS, axcodes="RAS", labels=(("L", "R"), ("P", "A"), ("I", "S")))
        return [
            ("LoadImage", LoadImaged(keys=KEYS)),
            ("EnsureChannelFirst", EnsureChannelFirstd(keys=KEYS)),
            ("Orientation", orientation),
            ("Spacing", spacing),
            ("ScaleIntensityRange", scale),
            ("CropForeground", CropForegroundd(keys=KEYS, source_key="image", allow_smaller=True)),
        ]

    def _random_crop(self) -> Transform:
        listed = {"fg_indices_key": "label_fg", "bg_indices_key": "label_bg"}
        searched = {"image_key": "image", "image_threshold": 0}
        return RandCropByPosNegLabeld(
            keys=KEYS,
            label_key="label",
            spatial_size=self.workload.patch_size,
            pos=1,
            neg=1,
            num_samples=self.workload.patches_per_volume,
            **(listed if self.variant.index_transform else searched),
        )

    def _ensure_type(self) -> tuple[str, Transform]:
        device = self.device if self.variant.cache == "gpu" else None
        return "EnsureType", EnsureTyped(keys=KEYS, device=device, track_meta=self.variant.track_meta)

    def _compose(self, steps: list[tuple[str, Transform]]) -> Compose:
        return Compose([mark_transform(transform, name) for name, transform in steps])
