"""What a region goes through in a worker, and what a batch goes through on its device. NVTX ranges as published."""

import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import nvtx
import torch
from monai.transforms import (
    CastToType,
    CastToTyped,
    Compose,
    CuCIM,
    GridSplitd,
    Lambdad,
    RandCuCIM,
    RandFlipd,
    Randomizable,
    RandRotate90d,
    RandZoomd,
    ScaleIntensityRanged,
    ToCupy,
    ToNumpyd,
    ToTensor,
    ToTensord,
    Transform,
)
from torch import Tensor
from torch.nn import functional

from speedproof_pathology import jitter
from speedproof_pathology.regions import GRID
from speedproof_pathology.variants import Variant

ZOOM = (0.9, 1.1)
_RANGE: dict[str, Any] = {"a_min": 0.0, "a_max": 255.0, "b_min": -1.0, "b_max": 1.0}


class Ranged(Transform):
    """A transform in an NVTX range of that name."""

    def __init__(self, name: str, transform: Callable[[Any], Any]) -> None:
        self.name, self.transform = name, transform

    def __call__(self, data: Any) -> Any:
        """Transform."""
        with nvtx.annotate(self.name):
            return self.transform(data)


class RangedRandom(Ranged, Randomizable):
    """A random transform in such a range, which is seeded as it would be without."""

    def set_random_state(self, seed: int | None = None, state: np.random.RandomState | None = None) -> "RangedRandom":
        """Seed the transform."""
        self.transform.set_random_state(seed, state)  # type: ignore[attr-defined]
        return self

    def randomize(self, data: Any = None) -> None:
        """Draw nothing: the transform itself does."""


class Jitterd(Transform):
    """Colour jitter of `image`, a tensor, on the processor; metadata, as MONAI's wrapper of torchvision has it, stay."""

    def __call__(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return the same with other colours."""
        image = data["image"]
        plain = image.as_tensor() if hasattr(image, "as_tensor") else image
        coloured = jitter.jitter(plain)
        if hasattr(image, "as_tensor"):
            coloured = type(image)(coloured, meta=image.meta, applied_operations=image.applied_operations)
        return {**data, "image": coloured}


def worker_chain(variant: Variant, patch: int, share: float, *, training: bool) -> Compose:
    """Return a region's transforms in a worker process.

    `patch`: width of a patch in pixels; `share`: of patches that are flipped, and of those that are turned and zoomed.
    """
    split = [
        Lambdad("label", reshape_label),
        GridSplitd(("image", "label"), grid=(GRID, GRID), size={"image": patch, "label": 1}),
    ]
    if variant.transforms != "cpu":
        return Compose([*split, ToTensord("label")])
    if not training:
        return Compose(
            [*split, CastToTyped("image", np.float32), ScaleIntensityRanged("image", **_RANGE), ToTensord(("image", "label"))]
        )
    return Compose(
        [
            *split,
            Ranged("ToTensord", ToTensord(("image", "label"))),
            Ranged("ColorJitter", Jitterd()),
            Ranged("ToNumpyd", ToNumpyd("image")),
            RangedRandom("RandomFlip", RandFlipd("image", prob=share, spatial_axis=-1)),
            RangedRandom("RandomRotate90", RandRotate90d("image", prob=share)),
            Ranged("CastToTyped", CastToTyped("image", np.float32)),
            RangedRandom("RandomZoom", RandZoomd("image", prob=share, min_zoom=ZOOM[0], max_zoom=ZOOM[1])),
            Ranged("ScaleIntensity", ScaleIntensityRanged("image", **_RANGE)),
            Ranged("ToTensord", ToTensord("image")),
        ]
    )


def reshape_label(label: Any) -> Any:
    """Return nine labels as a picture of one channel and 3×3 pixels."""
    return label.reshape(1, GRID, GRID)


def device_chain(variant: Variant, device: torch.device, share: float, *, training: bool) -> Callable[[Tensor], Tensor] | None:
    """Return what a batch of N × 3 × H × W goes through on its device; None: nothing."""
    if variant.transforms == "cpu":
        return None
    if variant.transforms == "torch":
        return partial(augment_batch, share=share) if training else scale_batch
    scale = CuCIM(name="scale_intensity_range", **_RANGE)
    if not training:
        return Compose([ToCupy(dtype=np.dtype(np.float32)), scale, ToTensor(device=device)])
    colour = {"brightness": jitter.BRIGHTNESS, "contrast": jitter.CONTRAST, "saturation": jitter.SATURATION, "hue": jitter.HUE}
    return Compose(
        [
            Ranged("ToCupy", ToCupy()),
            Ranged("ColorJitter", RandCuCIM(name="rand_color_jitter", prob=1.0, **colour)),
            Ranged("RandomFlip", RandCuCIM(name="rand_image_flip", prob=share, spatial_axis=-1)),
            Ranged("RandomRotate90", RandCuCIM(name="rand_image_rotate_90", prob=share, max_k=3, spatial_axis=(-2, -1))),
            Ranged("CastToType", CastToType(dtype=np.float32)),
            Ranged("RandomZoom", RandCuCIM(name="rand_zoom", prob=share, min_zoom=ZOOM[0], max_zoom=ZOOM[1])),
            Ranged("ScaleIntensity", scale),
            Ranged("ToTensor", ToTensor(device=device)),
        ]
    )


def check_device(name: str, variant: Variant) -> None:
    """End the program, with one line, where a variant's transforms cannot run."""
    if variant.transforms != "cucim":
        return
    missing = [package for package in ("cucim", "cupy") if find_spec(package) is None]
    if missing or not torch.cuda.is_available():
        what = f"{' and '.join(missing)} here" if missing else "a GPU that torch sees"
        sys.exit(f"variant `{name}` transforms by cuCIM on a GPU and lacks {what}; measure `baseline` and `batched` instead")


def scale_batch(pictures: Tensor) -> Tensor:
    """Return bytes as numbers from -1 to 1."""
    return pictures.to(torch.float32) / 127.5 - 1


def augment_batch(pictures: Tensor, share: float) -> Tensor:
    """Return N × 3 × H × W bytes (H = W) in other colours, flipped, turned, zoomed, from -1 to 1: each by its own draws."""
    with nvtx.annotate("ColorJitter"):
        pictures = jitter.jitter_batch(pictures)
    with nvtx.annotate("RandomFlip"):
        pictures = torch.where(_draw(pictures, share), pictures.flip(-1), pictures)
    with nvtx.annotate("RandomRotate90"):
        turns = torch.randint(1, 4, (len(pictures), 1, 1, 1), device=pictures.device) * _draw(pictures, share)
        for quarters in (1, 2, 3):
            pictures = torch.where(turns == quarters, pictures.rot90(quarters, (-2, -1)), pictures)
    with nvtx.annotate("RandomZoom"):
        zoomed = zoom_batch(pictures.to(torch.float32), share)
    with nvtx.annotate("ScaleIntensity"):
        return scale_batch(zoomed)


def zoom_batch(pictures: Tensor, share: float) -> Tensor:
    """Return each picture zoomed around its centre by a factor of its own, or as it is; beyond its edge the edge goes on."""
    factors = torch.empty(len(pictures), device=pictures.device).uniform_(*ZOOM)
    factors = torch.where(_draw(pictures, share).flatten(), factors, torch.ones_like(factors))
    transforms = torch.zeros(len(pictures), 2, 3, device=pictures.device)
    transforms[:, 0, 0] = transforms[:, 1, 1] = 1 / factors
    places = functional.affine_grid(transforms, list(pictures.shape), align_corners=False)
    return functional.grid_sample(pictures, places, mode="bilinear", padding_mode="border", align_corners=False)


def _draw(pictures: Tensor, share: float) -> Tensor:
    """Return of each picture whether it is transformed, as N × 1 × 1 × 1."""
    return torch.rand(len(pictures), 1, 1, 1, device=pictures.device) < share
