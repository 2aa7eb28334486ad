"""The augmentation as a whole, and each transformation, has the distribution of batchgeneratorsv2's.

Statistics of many small samples are compared by two-sample Kolmogorov-Smirnov tests. Each test as a whole has the level 0.001:
if both distributions are equal, one of 1000 choices of the seed would fail it. The seed is 0. Differences as large as those in
`WRONG` are found, which is tested, too.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp

pytest.importorskip("nnunetv2", reason="nnU-Net is not installed: make nnunet")

from batchgeneratorsv2.transforms.utils.compose import ComposeTransforms
from batchgeneratorsv2.transforms.utils.random import RandomTransform
from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

from speedproof_accelerate.nnunet.augmentation.draws import Uniform
from speedproof_accelerate.nnunet.augmentation.pipeline import (
    Pipeline,
    UnsupportedTransformError,
    translate_pipeline,
)
from workloads.spleen.tests.training.kernel_checks import DEVICE

LEVEL = 0.001
SAMPLES = 600
LABELS = (-1, 0, 1, 2)
CASES = {  # size of the network's patch, size before the crop, largest angle, whether slices move in their plane
    "volumes": ((10, 12, 8), (14, 15, 12), 0.52, False),
    "images": ((14, 12), (19, 17), 3.14, False),
    "slices": ((4, 14, 12), (4, 19, 17), 3.14, True),
}


def publish(case):
    """Return nnU-Net's training transforms."""
    size, _, angle, by_slices = CASES[case]
    scales = [[1.0] * len(size), [0.5] * len(size)]
    masked = [True, False]
    axes = tuple(range(len(size)))
    return nnUNetTrainer.get_training_transforms(
        size, (-angle, angle), scales, axes, by_slices, use_mask_for_norm=masked, foreground_labels=(1, 2)
    )


def make_sample(case):
    """Return one image of two channels without symmetries, and its labels."""
    shape = CASES[case][1]
    generator = torch.Generator().manual_seed(11)
    mode = "trilinear" if len(shape) == 3 else "bilinear"
    smooth = torch.nn.functional.interpolate(torch.randn((1, 3, *[3] * len(shape)), generator=generator), shape, mode=mode)
    image = smooth[0, :2] + 0.2 * torch.randn((2, *shape), generator=generator)
    label = torch.bucketize(smooth[0, 2:], torch.tensor([-0.6, 0.0, 0.6])).short() - 1
    return image, label


def measure(image, targets):
    """Return statistics of one augmented sample."""
    found = []
    for channel in image:
        steps = [float(channel.diff(dim=axis).abs().mean()) for axis in range(channel.dim())]
        halves = [float(channel.narrow(axis, 0, channel.shape[axis] // 2).mean()) for axis in range(channel.dim())]
        found += [*map(float, (channel.mean(), channel.std(), channel.min(), channel.max())), *steps, *halves]
        found += torch.quantile(channel.flatten(), torch.tensor([0.1, 0.5, 0.9])).tolist()
    for target in targets:
        found += [float((target == label).float().mean()) for label in LABELS[1:]]
        found += [float((target[0].narrow(axis, 0, 2) == 1).float().mean()) for axis in range(target.dim() - 1)]
    return found


def measure_published(transforms, case):
    image, label = make_sample(case)
    rows = []
    for _ in range(SAMPLES):
        out = transforms(image=image.clone(), segmentation=label.clone())
        targets = out["segmentation"]
        rows.append(measure(out["image"], targets if isinstance(targets, list) else [targets]))
    return np.array(rows)


def measure_ours(pipeline, case):
    image, label = make_sample(case)
    batch = 60
    rows = []
    for _ in range(SAMPLES // batch):
        images, targets = pipeline(*(torch.stack([one] * batch).to(DEVICE) for one in (image, label)))
        images, targets = images.cpu(), [one.cpu() for one in (targets if isinstance(targets, list) else [targets])]
        rows += [measure(images[number], [one[number] for one in targets]) for number in range(batch)]
    return np.array(rows)


def least_probability(ours, published):
    """Return the smallest p-value of all statistics, times their number (Bonferroni)."""
    tested = [
        ks_2samp(ours[:, one].round(5), published[:, one].round(5), method="asymp").pvalue for one in range(ours.shape[1])
    ]
    return min(tested) * len(tested)


def seed():
    np.random.seed(0)  # noqa: NPY002  # batchgeneratorsv2 draws from it
    torch.manual_seed(0)


@pytest.mark.parametrize("case", CASES)
def test_the_whole_augmentation_has_the_published_distribution(case):
    seed()
    published = publish(case)
    ours = translate_pipeline(published, LABELS)
    assert least_probability(measure_ours(ours, case), measure_published(published, case)) > LEVEL


def certain(published):
    """Return the published transforms with a probability, now each certain, by name; the crop first."""
    crop, *others = published.transforms
    crop.p_rotation = crop.p_scaling = 1
    named = {"spatial": [crop]}
    for one in others:
        if isinstance(one, RandomTransform):
            inverted = "inverted " if getattr(one.transform, "p_invert_image", 0) else ""
            named[inverted + type(one.transform).__name__] = [RandomTransform(one.transform, 1.0)]
        elif type(one).__name__ == "MirrorTransform":
            named["mirroring"] = [one]
    return named


NAMES = [
    "spatial",
    "GaussianNoiseTransform",
    "GaussianBlurTransform",
    "MultiplicativeBrightnessTransform",
    "ContrastTransform",
    "SimulateLowResolutionTransform",
    "inverted GammaTransform",
    "GammaTransform",
    "mirroring",
]


def test_each_transformation_of_the_pipeline_is_tested():
    assert list(certain(publish("volumes"))) == NAMES


WRONG = {
    "spatial": {"angle": Uniform(-0.4, 0.4)},
    "GaussianNoiseTransform": {"deviation": Uniform(0, 0.12)},
    "GaussianBlurTransform": {"per_channel": 0.65},
    "MultiplicativeBrightnessTransform": {"factor": Uniform(0.65, 1.35)},
    "ContrastTransform": {"preserve_range": False},
    "SimulateLowResolutionTransform": {"scale": Uniform(0.7, 1)},
    "inverted GammaTransform": {"inverted": False},
    "GammaTransform": {"exponent": Uniform(0.7, 1.5)},
    "mirroring": {"axes": (0, 1)},
}


@pytest.mark.parametrize("name", NAMES)
def test_a_transformation_has_the_published_distribution_and_another_is_found(name):
    seed()
    transforms = ComposeTransforms(certain(publish("volumes"))[name])
    published = measure_published(transforms, "volumes")
    ours = translate_pipeline(transforms, LABELS)
    assert least_probability(measure_ours(ours, "volumes"), published) > LEVEL
    seed()
    (transform,) = ours.transformations
    wrong = Pipeline((replace(transform, **WRONG[name]),), None)
    assert least_probability(measure_ours(wrong, "volumes"), published) < LEVEL


def test_a_setting_without_counterpart_is_named():
    published = publish("volumes")
    published.transforms[0].p_elastic_deform = 0.2
    with pytest.raises(UnsupportedTransformError, match="SpatialTransform: elastic deformation has no counterpart"):
        translate_pipeline(published, LABELS)


def test_a_transform_without_counterpart_is_named():
    class Another(type(publish("volumes").transforms[1].transform)):
        pass

    with pytest.raises(UnsupportedTransformError, match="Another has no counterpart"):
        translate_pipeline(ComposeTransforms([Another()]), LABELS)
