"""From a case's files to what the network sees: MONAI's transforms, in the documented order."""

from collections.abc import Hashable, Mapping
from typing import Any

import torch
from monai.transforms import (
    Compose,
    EnsureChannelFirstd,
    LoadImaged,
    MapTransform,
    NormalizeIntensityd,
    Orientationd,
    RandFlipd,
    RandScaleIntensityd,
    RandShiftIntensityd,
    RandSpatialCropd,
    Spacingd,
    ToDeviced,
)

from speedproof_brain_tumour.variants import Variant

BOTH = ("image", "label")
REGIONS = ("tumour core", "whole tumour", "enhancing tumour")


class ToRegionsd(MapTransform):
    """Labels 1 oedema, 2 enhancing, 3 not enhancing become three overlapping regions; the third as the documented programs have
    it, whose authors doubt it. Each is worked out by itself, as there: what two have in common takes its time twice.
    """

    def __call__(self, data: Mapping[Hashable, torch.Tensor]) -> dict[Hashable, torch.Tensor]:
        """Return the data with each label as (3, …) of 0 and 1."""
        named = dict(data)
        for key in self.keys:
            label = named[key]
            core = (label == 2) | (label == 3)
            whole = (label == 2) | (label == 3) | (label == 1)
            named[key] = torch.stack([core, whole, label == 2]).float()
        return named


def training_chain(variant: Variant, crop: tuple[int, ...], device: torch.device) -> Compose:
    """Return what a training case goes through; `crop` is a patch's voxels."""
    return Compose(
        [
            *_fixed(variant, device),
            RandSpatialCropd(BOTH, roi_size=list(crop), random_size=False),
            *[RandFlipd(BOTH, prob=0.5, spatial_axis=axis) for axis in range(3)],
            NormalizeIntensityd("image", nonzero=True, channel_wise=True),
            RandScaleIntensityd("image", factors=0.1, prob=variant.augment_share),
            RandShiftIntensityd("image", offsets=0.1, prob=variant.augment_share),
        ]
    )


def validation_chain(variant: Variant, device: torch.device) -> Compose:
    """Return what a validation case goes through."""
    return Compose([*_fixed(variant, device), NormalizeIntensityd("image", nonzero=True, channel_wise=True)])


def _fixed(variant: Variant, device: torch.device) -> list[Any]:
    on_device = [ToDeviced(BOTH, device=device)] if variant.cache == "gpu" else []
    return [
        LoadImaged(BOTH),
        *on_device,
        EnsureChannelFirstd("image"),
        ToRegionsd("label"),
        Orientationd(BOTH, axcodes="RAS", labels=(("L", "R"), ("P", "A"), ("I", "S"))),
        Spacingd(BOTH, pixdim=(1.0, 1.0, 1.0), mode=("bilinear", "nearest")),
    ]
