"""A volume that cannot give a patch is named before anything trains, whatever cache its variant has."""

import socket
import tempfile
from pathlib import Path

import nibabel
import numpy as np
import pytest
import torch

from speedproof.api import TrainingError
from speedproof_spleen.config import check_config
from speedproof_spleen.segmentation import build_case
from speedproof_spleen.training.loaders import build_loaders

CPU = torch.device("cpu")


def loaders(config, files, variant, **workload):
    values = config.model_dump(mode="json")
    values["workload"] |= {"window_size": [16] * 3} | workload
    values["variants"]["turbo"] |= {"precision": "fp32", "kernels": []}
    checked = check_config(values)
    case = build_case("spleen", checked.workload, checked.variants[variant], CPU)
    return build_loaders(case, checked.variants[variant], files[:1], files[1:2], CPU)


@pytest.mark.parametrize("variant", ["baseline", "regular", "fast", "turbo"])
def test_a_patch_larger_than_a_volume_is_one_line_with_both_shapes(ci_config, volumes, variant):
    """40×36×28 voxels of 8 mm, as wanted: 48 is more, 28 would fit."""
    with pytest.raises(TrainingError) as raised:
        loaders(ci_config, volumes, variant, patch_size=[32, 32, 48])
    said = "image0.nii.gz: 40×36×28 voxels after resampling, smaller than a patch of 32×32×48; lower workload.patch_size or"
    assert said in str(raised.value)


@pytest.mark.parametrize("variant", ["baseline", "turbo"])
def test_a_spacing_that_leaves_too_little_is_named(ci_config, volumes, variant):
    """Along x, 39 steps of 8 mm are 7.8 of 40 mm, between 8.8 voxels, which round to 9."""
    with pytest.raises(TrainingError, match=r"image0\.nii\.gz: 9×8×6 voxels after resampling, smaller than a patch"):
        loaders(ci_config, volumes, variant, patch_size=[16] * 3, spacing_mm=[40, 40, 40])


def test_a_spacing_that_gives_too_many_voxels_is_named_before_they_are_made(ci_config, volumes):
    with pytest.raises(TrainingError, match=r"image0\.nii\.gz: 3121×2801×2161 voxels after resampling, too many; raise"):
        loaders(ci_config, volumes, "baseline", spacing_mm=[0.1, 0.1, 0.1])


def test_a_volume_in_which_nothing_is_seen_is_named(ci_config, volumes, tmp_path):
    dark = tmp_path / "dark.nii.gz"
    nibabel.save(nibabel.Nifti1Image(np.full((40, 36, 28), -500, np.int16), np.diag([8.0, 8.0, 8.0, 1.0])), dark)
    with pytest.raises(TrainingError, match=r"dark\.nii\.gz: nothing of it is above workload\.intensity_range; correct"):
        loaders(ci_config, [volumes[0], volumes[1] | {"image": str(dark)}], "turbo", patch_size=[16] * 3)


def test_axes_are_compared_as_the_chains_turn_them(ci_config, tmp_path):
    """Stored as (head, right, front): 28×40×36 voxels become 40×36×28."""
    affine = np.array([[0, 8.0, 0, 0], [0, 0, 8.0, 0], [8.0, 0, 0, 0], [0, 0, 0, 1]])
    case = {}
    for kind in ("image", "label"):
        case[kind] = str(tmp_path / f"{kind}.nii.gz")
        nibabel.save(nibabel.Nifti1Image(np.full((28, 40, 36), 1, np.int16), affine), case[kind])
    with pytest.raises(TrainingError, match="40×36×28 voxels after resampling"):
        loaders(ci_config, [case, case], "baseline", patch_size=[16, 16, 32])


def test_a_temporary_folder_too_long_for_the_workers_sockets_is_named(ci_config, volumes, monkeypatch):
    with tempfile.TemporaryDirectory() as top:
        fits, longer = (str(Path(top, "x" * (length - len(top) - 1))) for length in (75, 76))
        monkeypatch.setattr(tempfile, "tempdir", fits)
        loaders(ci_config, volumes, "regular")
        sockets = Path(fits, "pymp-01234567")
        sockets.mkdir(parents=True)
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(sockets / "listener-01234567"))
        monkeypatch.setattr(tempfile, "tempdir", longer)
        loaders(ci_config, volumes, "baseline")
        with pytest.raises(TrainingError, match=rf"^TMPDIR: {longer}: 76 bytes long, .* at most 75; name a shorter folder$"):
            loaders(ci_config, volumes, "regular")
