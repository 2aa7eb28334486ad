"""The whole augmentation of a batch, with the settings of a published pipeline of batchgeneratorsv2."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from batchgeneratorsv2.transforms.base.basic_transform import BasicTransform
from batchgeneratorsv2.transforms.intensity.brightness import MultiplicativeBrightnessTransform
from batchgeneratorsv2.transforms.intensity.contrast import BGContrast, ContrastTransform
from batchgeneratorsv2.transforms.intensity.gamma import GammaTransform
from batchgeneratorsv2.transforms.intensity.gaussian_noise import GaussianNoiseTransform
from batchgeneratorsv2.transforms.noise.gaussian_blur import GaussianBlurTransform
from batchgeneratorsv2.transforms.spatial.low_resolution import SimulateLowResolutionTransform
from batchgeneratorsv2.transforms.spatial.mirroring import MirrorTransform
from batchgeneratorsv2.transforms.spatial.spatial import SpatialTransform
from batchgeneratorsv2.transforms.utils.compose import ComposeTransforms
from batchgeneratorsv2.transforms.utils.deep_supervision_downsampling import DownsampleSegForDSTransform
from batchgeneratorsv2.transforms.utils.nnunet_masking import MaskImageTransform
from batchgeneratorsv2.transforms.utils.pseudo2d import Convert2DTo3DTransform, Convert3DTo2DTransform
from batchgeneratorsv2.transforms.utils.random import RandomTransform
from batchgeneratorsv2.transforms.utils.remove_label import RemoveLabelTransform
from batchgeneratorsv2.transforms.utils.seg_to_regions import ConvertSegmentationToRegionsTransform
from torch import Tensor

from speedproof_accelerate.nnunet.augmentation.brightness import Brightness
from speedproof_accelerate.nnunet.augmentation.contrast import Contrast
from speedproof_accelerate.nnunet.augmentation.draws import Factor, Range, Uniform
from speedproof_accelerate.nnunet.augmentation.gamma import Gamma
from speedproof_accelerate.nnunet.augmentation.gaussian_blur import GaussianBlur
from speedproof_accelerate.nnunet.augmentation.gaussian_noise import GaussianNoise
from speedproof_accelerate.nnunet.augmentation.low_resolution import LowResolution
from speedproof_accelerate.nnunet.augmentation.mirror import Mirror
from speedproof_accelerate.nnunet.augmentation.spatial import Spatial
from speedproof_accelerate.nnunet.augmentation.targets import MaskOutside, Regions, ReplaceLabel, downsample_targets

Transformation = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


class UnsupportedTransformError(ValueError):
    """A published transform, or one of its settings, has no counterpart here."""


@dataclass(frozen=True)
class Pipeline:
    """Transformations of a batch, one after another, and the targets of deep supervision.

    Attributes:
        transformations: in order.
        scales: of each target; None: one target, not in a list.
    """

    transformations: tuple[Transformation, ...]
    scales: tuple[tuple[float, ...], ...] | None

    @torch.no_grad()
    def __call__(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor | list[Tensor]]:
        """Return the augmented images and the targets; both inputs may be changed."""
        for transform in self.transformations:
            images, labels = transform(images, labels)
        return images, labels if self.scales is None else downsample_targets(labels, self.scales)


def translate_pipeline(published: BasicTransform, known: Sequence[int]) -> Pipeline:
    """Return the counterpart of a published pipeline: the same order, probabilities and ranges.

    Args:
        published: as made by a trainer's `get_training_transforms` or `get_validation_transforms`.
        known: all labels that occur in the data.

    Raises:
        UnsupportedTransformError: a transform or a setting has no counterpart.
    """
    if type(published) is not ComposeTransforms:
        raise UnsupportedTransformError(f"{type(published).__name__} is not ComposeTransforms")
    transformations: list[Transformation] = []
    scales: tuple[tuple[float, ...], ...] | None = None
    by_slices = False
    for number, one in enumerate(published.transforms):
        if type(one) in (Convert3DTo2DTransform, Convert2DTo3DTransform):
            by_slices = type(one) is Convert3DTo2DTransform
            _require(not by_slices or type(published.transforms[number + 1]) is SpatialTransform, one, "its place")
        elif type(one) is SpatialTransform:
            transformations.append(_translate_spatial(one, known, by_slices))
        elif type(one) is DownsampleSegForDSTransform:
            _require(number == len(published.transforms) - 1, one, "its place")
            scales = tuple(tuple(scale) for scale in one.ds_scales)
        else:
            _require(not by_slices, one, "its place")
            transformations.append(_translate(one))
    return Pipeline(tuple(transformations), scales)


def _require(supported: bool, published: Any, setting: str) -> None:
    if not supported:
        raise UnsupportedTransformError(f"{type(published).__name__}: {setting} has no counterpart")


def _translate(one: Any) -> Transformation:
    """Return the counterpart of a transform with or without a probability."""
    probability, inner = (one.apply_probability, one.transform) if type(one) is RandomTransform else (1.0, one)
    if type(inner) in _INTENSITIES:
        return _INTENSITIES[type(inner)](inner, probability)
    if type(inner) not in _ALWAYS or probability < 1:
        raise UnsupportedTransformError(f"{type(inner).__name__} has no counterpart")
    return _ALWAYS[type(inner)](inner)


def _range_of(given: Any, published: Any) -> Range:
    if type(given) is BGContrast and isinstance(given.contrast_range, tuple | list):
        low, high = given.contrast_range
        _require(low < 1 < high, published, f"the range {low} to {high}")
        return Factor(low, high)
    if isinstance(given, int | float):
        return Uniform(given, given)
    _require(isinstance(given, tuple | list), published, f"a range of type {type(given).__name__}")
    return Uniform(*given)


def _translate_spatial(one: Any, known: Sequence[int], by_slices: bool) -> Spatial:
    _require(one.p_elastic_deform == 0, one, "elastic deformation")
    _require(not one.random_crop, one, "a random crop")
    _require(one.p_rot_per_axis == 1, one, "rotation about some axes")
    _require(one.p_synchronize_scaling_across_axes == 1 or one.p_scaling == 0, one, "a scale for each axis")
    _require((one.mode_image, one.mode_seg, one.align_corners) == ("bilinear", "bilinear", False), one, "its interpolation")
    _require(one.padding_mode_image == "zeros" and one.border_mode_seg == "constant", one, "its padding")
    _require(one.seg_tiebreak == "nearest", one, f"the tiebreak {one.seg_tiebreak!r}")
    return Spatial(
        tuple(int(side) for side in one.patch_size),
        tuple(int(label) for label in known),
        int(one.padding_value_seg),
        one.p_rotation,
        _range_of(one.rotation, one),
        one.p_scaling,
        _range_of(one.scaling, one),
        by_slices,
    )


def _translate_noise(one: Any, probability: float) -> GaussianNoise:
    _require(one.synchronize_channels and one.p_per_channel == 1, one, "noise that differs between channels")
    return GaussianNoise(probability, _range_of(one.noise_variance, one))  # named a variance, used as a standard deviation


def _translate_blur(one: Any, probability: float) -> GaussianBlur:
    _require(not one.synchronize_channels and not one.synchronize_axes, one, "a common width")
    return GaussianBlur(probability, one.p_per_channel, _range_of(one.blur_sigma, one))


def _translate_brightness(one: Any, probability: float) -> Brightness:
    _require(not one.synchronize_channels, one, "a common factor")
    return Brightness(probability, one.p_per_channel, _range_of(one.multiplier_range, one))


def _translate_contrast(one: Any, probability: float) -> Contrast:
    _require(not one.synchronize_channels, one, "a common factor")
    return Contrast(probability, one.p_per_channel, _range_of(one.contrast_range, one), one.preserve_range)


def _translate_low_resolution(one: Any, probability: float) -> LowResolution:
    _require(one.synchronize_axes and not one.synchronize_channels, one, "a scale for each axis, or a common one")
    _require(one.allowed_channels is None, one, "a choice of channels")
    return LowResolution(probability, one.p_per_channel, _range_of(one.scale, one), tuple(one.ignore_axes or ()))


def _translate_gamma(one: Any, probability: float) -> Gamma:
    _require(not one.synchronize_channels, one, "a common exponent")
    _require(one.p_invert_image in (0, 1) and one.p_retain_stats in (0, 1), one, "inversion or statistics at random")
    exponent = _range_of(one.gamma, one)
    return Gamma(probability, one.p_per_channel, exponent, one.p_invert_image == 1, one.p_retain_stats == 1)


def _translate_removal(one: Any) -> ReplaceLabel:
    _require(one.segmentation_channels is None, one, "a choice of channels")
    return ReplaceLabel(one.label_value, one.set_to)


def _translate_regions(one: Any) -> Regions:
    return Regions(tuple(tuple(int(label) for label in region.tolist()) for region in one.regions), one.channel_in_seg)


_INTENSITIES: dict[type, Callable[[Any, float], Transformation]] = {
    GaussianNoiseTransform: _translate_noise,
    GaussianBlurTransform: _translate_blur,
    MultiplicativeBrightnessTransform: _translate_brightness,
    ContrastTransform: _translate_contrast,
    SimulateLowResolutionTransform: _translate_low_resolution,
    GammaTransform: _translate_gamma,
}
_ALWAYS: dict[type, Callable[[Any], Transformation]] = {
    MirrorTransform: lambda one: Mirror(tuple(one.allowed_axes)),
    MaskImageTransform: lambda one: MaskOutside(tuple(one.apply_to_channels), one.channel_idx_in_seg, one.set_outside_to),
    RemoveLabelTransform: _translate_removal,
    ConvertSegmentationToRegionsTransform: _translate_regions,
}
