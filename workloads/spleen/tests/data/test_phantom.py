"""A phantom is the same wherever it is made, has the promised form, and shows a spleen that a network can find."""

import json
import os

import nibabel
import numpy as np
import pytest
from scipy.ndimage import binary_dilation, binary_erosion, label

from speedproof.api import DataError, sha256_of
from speedproof_spleen.data import phantom
from speedproof_spleen.data.phantom import draw_volume, make_phantom, write_volume
from speedproof_spleen.data.sizes import SIZES, estimate_bytes

NAMES = [f"spleen_{number}.nii.gz" for number in range(1, 9)]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    make_phantom(folder, "tiny", seed=3, workers=1)
    return folder


def checksums(folder):
    return {str(path.relative_to(folder)): sha256_of(path) for path in folder.rglob("*") if path.is_file()}


def test_it_has_the_decathlon_layout(tiny):
    volumes = {f"{kind}/{name}" for kind in ("imagesTr", "labelsTr") for name in NAMES}
    assert set(checksums(tiny)) == {"dataset.json", *volumes}
    described = json.loads((tiny / "dataset.json").read_text())
    assert described["training"] == [{"image": f"./imagesTr/{name}", "label": f"./labelsTr/{name}"} for name in NAMES]
    assert (described["numTraining"], described["numTest"], described["test"]) == (8, 0, [])
    assert described["labels"] == {"0": "background", "1": "spleen"}


def test_the_same_seed_gives_the_same_bytes_however_many_work(tiny, tmp_path):
    make_phantom(tmp_path, "tiny", seed=3, workers=2)
    assert checksums(tmp_path) == checksums(tiny)


def test_a_volume_depends_on_size_seed_and_index_alone(tiny, tmp_path):
    for kind in ("imagesTr", "labelsTr"):
        (tmp_path / kind).mkdir()
    write_volume(tmp_path, "tiny", 3, 5)
    among_others = checksums(tiny)
    paths = ("imagesTr/spleen_6.nii.gz", "labelsTr/spleen_6.nii.gz")
    assert checksums(tmp_path) == {path: among_others[path] for path in paths}


@pytest.mark.parametrize(("seed", "index"), [(4, 5), (3, 4)])
def test_another_seed_or_index_gives_another_volume(tiny, seed, index):
    image, marked, _ = draw_volume("tiny", seed, index)
    for kind, voxels in (("imagesTr", image), ("labelsTr", marked)):
        other = np.asanyarray(nibabel.load(tiny / kind / "spleen_6.nii.gz").dataobj)
        assert not np.array_equal(voxels, other)


@pytest.mark.parametrize("name", NAMES)
def test_volumes_have_the_form_of_their_size(tiny, name):
    image, marked = (nibabel.load(tiny / kind / name) for kind in ("imagesTr", "labelsTr"))
    assert (image.get_data_dtype(), marked.get_data_dtype()) == (np.int16, np.uint8)
    assert image.shape == marked.shape
    assert image.shape[:2] == (64, 64)
    assert 24 <= image.shape[2] <= 32
    x_mm, y_mm, z_mm = image.header.get_zooms()
    assert x_mm == y_mm
    assert 360 / 64 <= x_mm <= 420 / 64  # the scanner's field of view
    assert min(abs(z_mm - spacing_mm) for spacing_mm in (8, 9, 10)) < 1e-4
    assert image.header.get_xyzt_units()[0] == "mm"
    assert np.array_equal(image.affine, marked.affine)
    assert nibabel.aff2axcodes(image.affine) == ("R", "A", "S")
    center_mm = image.affine @ [31.5, 31.5, 0, 1]
    assert center_mm[:2] == pytest.approx([0, 0], abs=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_the_spleen_is_one_organ_and_as_bright_as_promised(tiny, name):
    """About 118 HU, 9 from body to body; in one body texture of 3.6 and noise of up to 14, 14.5 together."""
    hu = nibabel.load(tiny / "imagesTr" / name).get_fdata()
    marked = np.asanyarray(nibabel.load(tiny / "labelsTr" / name).dataobj)
    assert set(np.unique(marked)) == {0, 1}
    parts, _ = label(marked)
    assert np.bincount(parts.ravel())[1:].max() > 0.95 * marked.sum()
    inside = hu[binary_erosion(marked)]  # boundaries are mixed with what is behind them
    around = hu[binary_dilation(marked, iterations=2) & (marked == 0)]
    assert 118 - 4 * 9 < inside.mean() < 118 + 4 * 9
    assert inside.std() < 1.2 * 14.5
    assert np.median(around) < inside.mean() - 14.5
    assert (hu.min(), hu.max() > 300) == (-1024, True)  # noise in air reaches the scale's end; bones


def test_the_spleen_lies_where_spleens_lie(tiny):
    for name in NAMES:
        marked = nibabel.load(tiny / "labelsTr" / name)
        right_mm, front_mm, _, _ = marked.affine @ [*np.argwhere(np.asanyarray(marked.dataobj)).mean(axis=0), 1]
        assert right_mm < -50
        assert front_mm < 0


@pytest.mark.parametrize("size", SIZES)
def test_a_size_needs_no_more_room_than_estimated(size):
    spec = SIZES[size]
    most_voxels = spec.volumes * spec.pixels**2 * spec.slices[1]
    assert most_voxels < estimate_bytes(size) < 2 * most_voxels


def test_tiny_takes_no_more_room_than_estimated(tiny):
    """Noise fills these files more than larger ones, with up to 1.3 bytes a voxel."""
    assert sum(path.stat().st_size for path in tiny.rglob("*.*")) <= estimate_bytes("tiny")


def die(*_):
    os._exit(9)


def test_a_process_that_is_killed_is_named_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(phantom, "write_volume", die)
    with pytest.raises(DataError, match="a process was killed, likely for memory; each needs about 500 MiB: use fewer"):
        make_phantom(tmp_path, "tiny", seed=3, workers=1)
    assert not (tmp_path / "dataset.json").exists()
