"""The deterministic transforms in plain torch give MONAI's voxels, whatever way a volume lies and however it is spaced."""

import nibabel
import numpy as np
import pytest
import torch
from monai.transforms import LoadImaged

from speedproof_spleen.data.nifti import read_case
from speedproof_spleen.segmentation import build_case
from speedproof_spleen.segmentation.preprocessing import Preparation
from speedproof_spleen.variant import SpleenVariant

CPU = torch.device("cpu")
TURBO = {
    "title": "Turbo",
    "cache": "resident",
    "track_meta": False,
    "scoring": "device",
    "batch_size": 2,
    "optimizer": {"name": "adam", "learning_rate": 1e-3},
    "epochs": 1,
    "validate_every": 1,
}


def rotation(degrees):
    angle = np.radians(degrees)
    return np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])


# From voxels to millimetres; the offset is added below.
AFFINES = {
    "RAS": np.diag([0.8, 0.9, 5.0]),
    "LPS": np.diag([-0.8, -0.8, 2.5]),
    "head first": np.array([[0, 0, 3.0], [-0.7, 0, 0], [0, 0.7, 0]]),
    "tilted": rotation(20) @ np.diag([0.9, -0.9, 4.0]),
    "sheared": np.array([[0.9, 0.1, 0.0], [0.0, 0.9, 0.3], [0.0, 0.2, 4.0]]),
    "spaced as wanted": np.diag([1.5, 1.5, 2.0]),
    "nearly spaced as wanted": np.diag([1.5004, -1.5, 2.0]),
    "half-way between voxels": np.diag([3.0, 6.0, 8.0]),  # where a label's nearest voxel is one of two
}


def save_case(folder, affine, shape=(23, 18, 11)):
    random = np.random.default_rng(1)
    image = random.integers(-200, 300, shape).astype(np.int16)
    image[:2], image[:, -3:], image[..., :1] = -1000, -1000, -1000  # cropped away
    label = (random.random(shape) > 0.6).astype(np.uint8)
    case = {}
    for key, voxels in (("image", image), ("label", label)):
        case[key] = str(folder / f"{key}.nii.gz")
        nibabel.save(nibabel.Nifti1Image(voxels, affine), case[key])
    return case


def prepare_both(config, case):
    """Return a case's volumes by the documented chain, and by ours."""
    documented = build_case("spleen", config.workload, config.variants["baseline"], CPU).validation_transform()(case)
    plain = build_case("spleen", config.workload, SpleenVariant.model_validate(TURBO | {"toolkit": "torch"}), CPU)
    made = plain.preparation_transform()(read_case(case))
    assert isinstance(plain.preparation_transform(), Preparation)
    return {key: documented[key].as_tensor() for key in case}, made


@pytest.mark.parametrize("name", AFFINES)
def test_volumes_are_monais_to_the_last_bit(full_config, tmp_path, name):
    affine = np.eye(4)
    affine[:3, :3], affine[:3, 3] = AFFINES[name], (-170.3, 12.0, 801.5)
    theirs, ours = prepare_both(full_config, save_case(tmp_path, affine))
    for key in ("image", "label"):
        assert ours[key].dtype == theirs[key].dtype
        assert torch.equal(ours[key], theirs[key])
    assert 0 < ours["image"].float().mean() < 1


def test_a_header_that_contradicts_itself_is_corrected_as_monai_does(full_config, tmp_path):
    case = save_case(tmp_path, np.diag([0.8, 0.8, 5.0, 1.0]))
    for path in case.values():
        image = nibabel.load(path)
        contradicting = nibabel.Nifti1Image(np.asanyarray(image.dataobj), image.affine, image.header)
        contradicting.header.set_qform(np.diag([0.71, -0.71, 3.3, 1.0]))  # also sets the spacing, unlike the sform
        nibabel.save(contradicting, path)
    theirs, ours = prepare_both(full_config, case)
    assert torch.equal(ours["image"], theirs["image"]) and torch.equal(ours["label"], theirs["label"])
    assert ours["image"].shape[-1] < LoadImaged(keys=["image"])(case)["image"].shape[-1] * 4.0 / 2  # 3.3 mm slices, not 5


def test_a_volume_in_which_nothing_is_seen_is_empty(full_config, tmp_path):
    case = save_case(tmp_path, np.diag([1.5, 1.5, 2.0, 1.0]))
    nibabel.save(nibabel.Nifti1Image(np.full((4, 5, 6), -1000, np.int16), np.diag([1.5, 1.5, 2.0, 1.0])), case["image"])
    preparation = Preparation((1.5, 1.5, 2.0), (-57, 164), CPU)
    assert preparation(read_case(case))["image"].shape == (1, 0, 0, 0)
