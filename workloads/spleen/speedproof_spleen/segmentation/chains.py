"""The spleen case's chains of MONAI's transforms. Importing it also imports MONAI, which is slow: import it when needed."""

from collections.abc import Mapping
from dataclasses import dataclass

import nibabel
import torch
from monai.data import MetaTensor
from monai.data.utils import correct_nifti_header_if_necessary
from monai.transforms import (
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

from speedproof.api import mark_transform
from speedproof_spleen import variant as config
from speedproof_spleen.config import Workload
from speedproof_spleen.segmentation.preprocessing import bring_voxels

KEYS = ["image", "label"]


@dataclass(frozen=True)
class SpleenChains:
    """The chains of the spleen case under one variant, on one device."""

    workload: Workload
    variant: config.SpleenVariant
    device: torch.device

    def training(self) -> Compose:
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
        return _compose(steps)

    def validation(self) -> Compose:
        """Return the chain from a file to a whole volume."""
        return _compose([*self._deterministic_transforms(), self._ensure_type()])

    def preparation(self) -> Compose:
        """Return the chain from what was read of a case to its whole volume on the device, where all of it is done."""
        (_, _, *others) = self._deterministic_transforms()
        return _compose([("Upload", Upload(self.device)), *others])

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


class Upload(Transform):
    """Brings volumes that were read to a device, as `LoadImaged` and `EnsureChannelFirstd` would give them there.

    They travel in their file's type, half the bytes of floats, and become floats there.
    """

    def __init__(self, device: torch.device) -> None:
        """Bring volumes to `device`."""
        self._device = device

    def __call__(self, data: Mapping[str, nibabel.Nifti1Image]) -> dict[str, MetaTensor]:
        """Return each volume, shape (1, x, y, z), float32, with its affine."""
        return {key: self._upload(correct_nifti_header_if_necessary(image)) for key, image in data.items()}

    def _upload(self, image: nibabel.Nifti1Image) -> MetaTensor:
        return MetaTensor(bring_voxels(image, self._device)[None].float(), affine=image.affine)


def _compose(steps: list[tuple[str, Transform]]) -> Compose:
    return Compose([mark_transform(transform, name) for name, transform in steps])
