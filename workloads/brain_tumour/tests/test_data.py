"""Volumes are the same each time, read to their end before anything trains, and refused in one line where unsound."""

import json
from pathlib import Path

import nibabel
import numpy as np
import pytest

from speedproof.fetch.registry import find_entry
from speedproof.records.dataset import Dataset
from speedproof.records.files import read_record
from speedproof_brain_tumour import phantom
from speedproof_brain_tumour.data import REGISTRY, main


@pytest.fixture
def decathlon(tmp_path):
    """A folder of two tiny cases in the Decathlon layout."""
    folder = tmp_path / "mine"
    for name in ("imagesTr", "labelsTr"):
        (folder / name).mkdir(parents=True)
    for index in range(2):
        phantom.write_case(folder, "tiny", 0, index)
    names = [f"BRATS_{index:03d}.nii.gz" for index in (1, 2)]
    listed = [{"image": f"./imagesTr/{name}", "label": f"./labelsTr/{name}"} for name in names]
    (folder / "dataset.json").write_text(json.dumps({"training": listed}))
    return folder


def run_prepare(tmp_path, **data):
    config, out = tmp_path / "config.yaml", tmp_path / "dataset.json"
    config.write_text(json.dumps({"data": {"folder": str(tmp_path / "data"), **data}}))
    return main([f"--config={config}", f"--out={out}", "--log=unused"]), out


def replace_voxels(path, voxels):
    nibabel.save(nibabel.Nifti1Image(voxels, np.eye(4)), path)


def test_a_phantom_is_the_same_each_time_and_has_nested_lesions():
    image, label = phantom.draw_case((32, 32, 24), seed=3, index=1)
    again = phantom.draw_case((32, 32, 24), seed=3, index=1)
    assert np.array_equal(image, again[0]) and np.array_equal(label, again[1])
    assert not np.array_equal(image, phantom.draw_case((32, 32, 24), seed=3, index=2)[0])
    assert image.shape == (32, 32, 24, 4) and set(np.unique(label)) == {0, 1, 2, 3}
    # Each shell lies in the hull of the one around it, and all of them in the head.
    for inner, outer in ((3, 2), (2, 1)):
        for axis in range(3):
            low, high = np.nonzero(label == outer)[axis].min(), np.nonzero(label == outer)[axis].max()
            found = np.nonzero(label == inner)[axis]
            assert low <= found.min() and found.max() <= high
    assert (image[label > 0] > 0).all()


def test_the_full_phantom_is_as_large_as_the_published_set():
    assert phantom.SIZES["full"] == (484, (240, 240, 155))


def test_the_published_set_is_in_the_registry():
    entry = find_entry(REGISTRY, "Task01_BrainTumour")
    assert (entry.md5, entry.licence) == ("240a19d752f0d9e9101544901065d872", "CC-BY-SA-4.0")


def test_a_folder_of_ones_own_is_read_to_its_end_and_described(tmp_path, decathlon):
    status, out = run_prepare(tmp_path, source="local", local_folder=str(decathlon))
    assert status == 0
    dataset = read_record(out, Dataset)
    assert [case.name for case in dataset.cases] == ["BRATS_001", "BRATS_002"]
    assert dataset.cases[0].shape == (24, 24, 16) and dataset.cases[0].foreground_voxels > 0
    assert Path(dataset.folder) == decathlon and not dataset.synthetic


def spoil_nothing(folder):
    pass


def cut_short(folder):
    path = folder / "imagesTr/BRATS_002.nii.gz"
    path.write_bytes(path.read_bytes()[:-2000])


def take_away(folder):
    (folder / "labelsTr/BRATS_001.nii.gz").unlink()


def forget_description(folder):
    (folder / "dataset.json").unlink()


def give_three_channels(folder):
    replace_voxels(folder / "imagesTr/BRATS_001.nii.gz", np.ones((24, 24, 16, 3), np.int16))


def give_a_fourth_label(folder):
    replace_voxels(folder / "labelsTr/BRATS_001.nii.gz", np.full((24, 24, 16), 4, np.uint8))


def give_no_number(folder):
    replace_voxels(folder / "imagesTr/BRATS_001.nii.gz", np.full((24, 24, 16, 4), np.nan, np.float32))


@pytest.mark.parametrize(
    ("spoil", "data", "said"),
    [
        (cut_short, {}, "BRATS_002.nii.gz: cannot be read"),
        (take_away, {}, "BRATS_001.nii.gz: cannot be read"),
        (forget_description, {}, "no dataset.json that lists `training` cases"),
        (give_three_channels, {}, "an image has 4 channels more"),
        (give_a_fourth_label, {}, "labels other than 0 to 3"),
        (give_no_number, {}, "voxels that are no numbers"),
        (spoil_nothing, {"local_folder": None}, "data.local_folder: is missing"),
        (spoil_nothing, {"size": "huge"}, "data.size: "),
        (spoil_nothing, {"sized": "tiny"}, "data.sized: "),
        (spoil_nothing, {"source": "msd", "registry_entry": "Task02"}, "data.registry_entry: no dataset `Task02`"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_cannot_be_trained_with_is_refused_in_one_line(tmp_path, decathlon, capsys, spoil, data, said):
    spoil(decathlon)
    status, out = run_prepare(tmp_path, **{"source": "local", "local_folder": str(decathlon), **data})
    printed = capsys.readouterr().err
    assert status != 0 and not out.exists()
    assert said in printed and printed.count("\n") == 1
