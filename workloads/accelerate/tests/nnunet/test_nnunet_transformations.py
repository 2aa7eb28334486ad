"""Each transformation, with parameters given, is that of batchgeneratorsv2. Ours runs on the GPU if there is one."""

import math

import pytest
import torch

pytest.importorskip("nnunetv2", reason="nnU-Net is not installed: make nnunet")

from batchgeneratorsv2.transforms.intensity.brightness import MultiplicativeBrightnessTransform
from batchgeneratorsv2.transforms.intensity.contrast import ContrastTransform
from batchgeneratorsv2.transforms.intensity.gamma import GammaTransform
from batchgeneratorsv2.transforms.intensity.gaussian_noise import GaussianNoiseTransform
from batchgeneratorsv2.transforms.noise.gaussian_blur import GaussianBlurTransform
from batchgeneratorsv2.transforms.spatial.low_resolution import SimulateLowResolutionTransform
from batchgeneratorsv2.transforms.spatial.mirroring import MirrorTransform
from batchgeneratorsv2.transforms.spatial.spatial import SpatialTransform
from batchgeneratorsv2.transforms.utils.deep_supervision_downsampling import DownsampleSegForDSTransform
from batchgeneratorsv2.transforms.utils.nnunet_masking import MaskImageTransform
from batchgeneratorsv2.transforms.utils.seg_to_regions import ConvertSegmentationToRegionsTransform
from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

from speedproof_accelerate.nnunet.augmentation.brightness import multiply_brightness
from speedproof_accelerate.nnunet.augmentation.contrast import change_contrast
from speedproof_accelerate.nnunet.augmentation.gamma import correct_gamma
from speedproof_accelerate.nnunet.augmentation.gaussian_blur import blur
from speedproof_accelerate.nnunet.augmentation.gaussian_noise import add_gaussian_noise
from speedproof_accelerate.nnunet.augmentation.low_resolution import lower_resolution
from speedproof_accelerate.nnunet.augmentation.mirror import mirror
from speedproof_accelerate.nnunet.augmentation.pipeline import translate_pipeline
from speedproof_accelerate.nnunet.augmentation.spatial import affine_matrices, transform_spatially
from speedproof_accelerate.nnunet.augmentation.targets import MaskOutside, Regions, downsample_targets
from workloads.spleen.tests.training.kernel_checks import DEVICE

SHAPES = [(3, 2, 11, 14, 9), (4, 2, 13, 17)]  # three volumes, four images
EVERY = torch.tensor([0, 1])


@pytest.fixture(params=SHAPES, ids=["volumes", "images"])
def images(request):
    """Return a batch of two channels."""
    return torch.randn(request.param, generator=torch.Generator().manual_seed(3))


def assert_samples_close(ours, published):
    torch.testing.assert_close(ours.cpu(), torch.stack(published), rtol=1e-5, atol=5e-6)


def test_noise_has_the_published_deviation_in_all_channels(images):
    ours = images.clone()
    torch.manual_seed(5)
    add_gaussian_noise(ours, [1], torch.tensor([[0.3]]))
    torch.manual_seed(5)
    params = {"apply_idx": EVERY, "num_apply": 2, "sigmas": 0.3}
    theirs = GaussianNoiseTransform(synchronize_channels=True)._apply_to_image(images[1].clone(), **params)
    assert_samples_close(ours, [images[0], theirs, *images[2:]])


def test_blur_is_the_published_one(images):
    """The widths take kernels of 3, 5 and 7 voxels."""
    axes = images.dim() - 2
    widths = torch.tensor([[0.5, 0.7, 1.0], [0.99, 0.6, 0.51], [0.8, 0.8, 0.75]])[:, :axes]
    ours = images.to(DEVICE, copy=True)
    blur(ours, [1, 2, 3], widths)  # channel 1 of sample 0, both of sample 1
    transform = GaussianBlurTransform()
    first = transform._apply_to_image(
        images[0].clone(), apply_to_channel=torch.tensor([False, True]), sigmas=[widths[0].tolist()]
    )
    second = transform._apply_to_image(
        images[1].clone(), apply_to_channel=torch.tensor([True, True]), sigmas=widths[1:].tolist()
    )
    assert_samples_close(ours, [first, second, *images[2:]])


def test_brightness_is_the_published_one(images):
    ours = images.to(DEVICE, copy=True)
    factors = torch.tensor([0.8, 1.2])
    multiply_brightness(ours, [0, 1], factors)
    transform = MultiplicativeBrightnessTransform(1, synchronize_channels=False)
    theirs = transform._apply_to_image(images[0].clone(), apply_to_channel=EVERY, multipliers=factors)
    assert_samples_close(ours, [theirs, *images[1:]])


@pytest.mark.parametrize("preserve_range", [True, False])
def test_contrast_is_the_published_one(images, preserve_range):
    ours = images.to(DEVICE, copy=True)
    factors = torch.tensor([0.8, 1.2])
    change_contrast(ours, [0, 1], factors, preserve_range=preserve_range)
    transform = ContrastTransform(1, preserve_range, False)
    theirs = transform._apply_to_image(images[0].clone(), apply_to_channel=EVERY, multipliers=factors)
    assert_samples_close(ours, [theirs, *images[1:]])


@pytest.mark.parametrize("scales", [(0.5, 0.93), (1.0, 0.61)])
def test_low_resolution_is_the_published_one(images, scales):
    axes = images.dim() - 2
    each = torch.tensor(scales)[:, None].repeat(1, axes)
    each[0, 0] = 1  # an axis that is left as it is
    ours = images.to(DEVICE, copy=True)
    lower_resolution(ours, [0, 1], each)
    transform = SimulateLowResolutionTransform(1, False, True, ())
    theirs = transform._apply_to_image(images[0].clone(), apply_to_channel=EVERY, scales=each)
    assert_samples_close(ours, [theirs, *images[1:]])


@pytest.mark.parametrize("inverted", [True, False])
@pytest.mark.parametrize("keep_statistics", [True, False])
def test_gamma_is_the_published_one(images, inverted, keep_statistics):
    ours = images.to(DEVICE, copy=True)
    exponents = torch.tensor([0.7, 1.5])
    correct_gamma(ours, [0, 1], exponents, inverted=inverted, keep_statistics=keep_statistics)
    theirs = GammaTransform(1, inverted, False, 1, keep_statistics)._apply_to_image(
        images[0].clone(),
        apply_to_channel=EVERY,
        gamma=exponents,
        retain_stats=torch.tensor([keep_statistics] * 2),
        invert_image=torch.tensor([inverted] * 2),
    )
    assert_samples_close(ours, [theirs, *images[1:]])


def test_gamma_of_a_constant_image_is_the_image():
    images = torch.full((1, 1, 4, 4), 2.5, device=DEVICE)
    correct_gamma(images, [0], torch.tensor([0.7]), inverted=False, keep_statistics=True)
    torch.testing.assert_close(images.cpu(), torch.full((1, 1, 4, 4), 2.5))


def test_mirroring_flips_the_chosen_samples(images):
    ours = images.to(DEVICE, copy=True)
    mirror(ours, [0, 2], 1)
    theirs = [MirrorTransform((1,))._apply_to_image(images[number], axes=[1]) for number in (0, 2)]
    assert torch.equal(ours.cpu(), torch.stack([theirs[0], images[1], theirs[1], *images[3:]]))


def make_labels(shape, labels):
    """Return smooth blobs, so that borders of several labels meet, and noise in one corner."""
    generator = torch.Generator().manual_seed(7)
    coarse = torch.randn((shape[0], len(labels), *[4] * (len(shape) - 2)), generator=generator)
    mode = "trilinear" if len(shape) == 5 else "bilinear"
    fine = torch.nn.functional.interpolate(coarse, shape[2:], mode=mode)
    return torch.tensor(labels, dtype=torch.int16)[fine.argmax(1)][:, None]


def by_published_spatial(images, labels, size, angles, scale):
    """Return what the published transform makes of one sample with these angles, in radians, and this scale."""
    transform = SpatialTransform(
        size,
        0,
        False,
        p_rotation=1,
        rotation=lambda image, dim: angles[dim if len(size) == 3 else 0],
        p_scaling=1,
        scaling=scale,
        p_synchronize_scaling_across_axes=1,
        border_mode_seg="constant",
        padding_value_seg=-1,
    )
    out = transform(image=images, segmentation=labels)
    return out["image"], out["segmentation"]


MOVES = [
    ((0.4, -0.3, 0.2), 1.4, "beyond the border"),
    ((0.5, 0.1, -0.5), 0.7, "inside"),
    ((0.0, 0.0, 0.0), 1.0, "as it is"),
    ((math.pi / 2, 0.0, 0.0), 1.0, "ties of labels"),
]


@pytest.mark.parametrize(("angles", "scale", "case"), MOVES, ids=[move[2].replace(" ", "-") for move in MOVES])
@pytest.mark.parametrize("labels", [[0, 1], [-1, 0, 1, 2, 5]], ids=["two", "five"])
@pytest.mark.parametrize(("given", "size"), [((19, 22, 16), (12, 15, 10)), ((21, 25), (14, 16))], ids=["volumes", "images"])
def test_rotation_scaling_and_crop_are_the_published_ones(angles, scale, case, labels, given, size):
    shape = (2, 2, *given)
    images, segmentation = torch.randn(shape), make_labels(shape, labels)
    axes = len(size)
    matrices = affine_matrices(torch.tensor([angles[: 3 if axes == 3 else 1]]), torch.full((1, axes), scale))
    ours = transform_spatially(images.to(DEVICE), segmentation.to(DEVICE), size, [1], matrices, labels, -1)
    ours = [one.cpu() for one in ours]
    theirs = by_published_spatial(images[1], segmentation[1], size, angles, scale)
    torch.testing.assert_close(ours[0][1], theirs[0], rtol=1e-4, atol=1e-4)
    different = (ours[1][1] != theirs[1]).float().mean()
    assert different <= (0.01 if case == "ties of labels" else 0), "only which of two voxels is nearer may depend on rounding"
    cropped = SpatialTransform(size, 0, False, border_mode_seg="constant", padding_value_seg=-1)
    untouched = cropped(image=images[0], segmentation=segmentation[0])
    assert torch.equal(ours[0][0], untouched["image"])
    assert torch.equal(ours[1][0], untouched["segmentation"])


def test_a_patch_larger_than_the_image_is_padded():
    images, labels = torch.randn(1, 1, 7, 20), torch.zeros(1, 1, 7, 20, dtype=torch.int16)
    ours = transform_spatially(images, labels, (12, 9), [], torch.zeros(0, 2, 2), [0], -1)
    cropped = SpatialTransform((12, 9), 0, False, border_mode_seg="constant", padding_value_seg=-1)
    theirs = cropped(image=images[0], segmentation=labels[0])
    assert torch.equal(ours[0][0], theirs["image"])
    assert torch.equal(ours[1][0], theirs["segmentation"])


def test_targets_are_the_published_ones():
    labels = make_labels((2, 1, 13, 16, 9), [-1, 0, 1, 2])
    scales = [[1, 1, 1], [0.5, 0.5, 1], [0.25, 0.25, 0.5]]
    ours = [one.cpu() for one in downsample_targets(labels.to(DEVICE), scales)]
    for number in range(2):
        theirs = DownsampleSegForDSTransform(scales)(segmentation=labels[number])["segmentation"]
        assert all(torch.equal(one[number], other) for one, other in zip(ours, theirs, strict=True))


def test_regions_are_the_published_ones():
    labels = make_labels((2, 1, 13, 16), [0, 1, 2, 3])
    ours = Regions(((1, 2), (2,), (3,)), 0)(torch.zeros(2, 1, 13, 16), labels.to(DEVICE))[1].cpu()
    theirs = [ConvertSegmentationToRegionsTransform([(1, 2), 2, 3])(segmentation=one)["segmentation"] for one in labels]
    assert torch.equal(ours, torch.stack(theirs))


@pytest.mark.parametrize("regions", [None, [(1, 2), 2]], ids=["labels", "regions"])
def test_validation_has_the_published_targets(regions):
    labels = make_labels((2, 1, 16, 12, 8), [-1, 0, 1, 2, 3])
    scales = [[1.0, 1.0, 1.0], [0.5, 0.5, 1.0]]
    published = nnUNetTrainer.get_validation_transforms(scales, foreground_labels=(1, 2), regions=regions, ignore_label=3)
    images, ours = translate_pipeline(published, (-1, 0, 1, 2, 3))(torch.zeros(2, 1, 16, 12, 8), labels.to(DEVICE))
    assert images.shape == (2, 1, 16, 12, 8)
    for number, label in enumerate(labels):
        theirs = published(image=torch.zeros(1, 16, 12, 8), segmentation=label.clone())["segmentation"]
        assert all(torch.equal(one[number].cpu(), other) for one, other in zip(ours, theirs, strict=True))


def test_masked_channels_are_the_published_ones(images):
    labels = make_labels((len(images), 1, *images.shape[2:]), [-1, 0, 1])
    ours = MaskOutside((1,), 0, 0.0)(images.to(DEVICE, copy=True), labels.to(DEVICE))[0].cpu()
    transform = MaskImageTransform([1])
    pairs = zip(images, labels, strict=True)
    theirs = [transform(image=image.clone(), segmentation=label)["image"] for image, label in pairs]
    assert torch.equal(ours, torch.stack(theirs))
