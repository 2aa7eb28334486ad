"""Volumes are the same each time, read to their end before anything trains, and refused in one line where unsound."""

import gzip
import json

import nibabel
import numpy as np
import pytest

from speedproof.api import Dataset, SpeedproofError, find_entry, read_record
from speedproof_brain_tumour import phantom
from speedproof_brain_tumour.data import REGISTRY, Data, complete, prepare_dataset
from speedproof_common.data import check_source


@pytest.fixture
def decathlon(tmp_path):
    """A folder of five tiny cases in the Decathlon layout: as few as can be trained with."""
    folder = tmp_path / "mine"
    for name in ("imagesTr", "labelsTr"):
        (folder / name).mkdir(parents=True)
    for index in range(5):
        phantom.write_case(folder, "tiny", 0, index)
    names = [f"BRATS_{index:03d}.nii.gz" for index in range(1, 6)]
    listed = [{"image": f"./imagesTr/{name}", "label": f"./labelsTr/{name}"} for name in names]
    (folder / "dataset.json").write_text(json.dumps({"training": listed}))
    return folder


def prepare(tmp_path, **data):
    """Do what the workflow's first stage does, and return what it wrote."""
    asked = check_source(Data, {"folder": str(tmp_path / "data"), **data}, "config")
    prepare_dataset(asked, tmp_path / "dataset.json", workers=2)
    return read_record(tmp_path / "dataset.json", Dataset)


def replace_voxels(path, voxels, affine=np.eye(4)):  # noqa: B008 - never changed
    nibabel.save(nibabel.Nifti1Image(voxels, affine), path)


def list_again(folder, change):
    """Write dataset.json with its cases changed."""
    described = json.loads((folder / "dataset.json").read_text())
    (folder / "dataset.json").write_text(json.dumps({"training": change(described["training"])}))


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
    dataset = prepare(tmp_path, source="local", local_folder=str(decathlon))
    assert [case.name for case in dataset.cases] == [f"BRATS_00{number}" for number in range(1, 6)]
    assert dataset.cases[0].shape == (24, 24, 16) and dataset.cases[0].foreground_voxels > 0
    assert (tmp_path / dataset.folder).resolve() == decathlon and not dataset.synthetic


def test_the_stand_in_is_made_once(tmp_path):
    asked = {"source": "stand_in", "stand_in": {"size": "tiny", "seed": 1}}
    made = prepare(tmp_path, **asked)
    assert (len(made.cases), made.synthetic, made.version) == (10, True, "tiny, seed 1")
    volume = tmp_path / made.folder / made.cases[0].image
    at = volume.stat().st_mtime_ns
    assert prepare(tmp_path, **asked).digest == made.digest
    assert volume.stat().st_mtime_ns == at


def test_a_configuration_is_told_what_its_volumes_need():
    values = {"data": {"source": "download", "folder": "here"}, "completed": {"variants": {}}}
    completed = complete(values, "config")["completed"]
    entry = find_entry(REGISTRY, "Task01_BrainTumour")
    assert completed["download_mib"] == entry.expected_mib and completed["data_mib"] > 2 * entry.expected_mib
    assert completed["folders"]["data.folder"] == "here" and completed["variants"] == {}


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


def mirror_the_label(folder):
    replace_voxels(folder / "labelsTr/BRATS_001.nii.gz", np.ones((24, 24, 16), np.uint8), np.diag([-1, 1, 1, 1]))


def give_an_affine_of_no_number(folder):
    image = nibabel.Nifti1Image(np.ones((24, 24, 16), np.uint8), np.eye(4))
    image.header["pixdim"][1], image.header["sform_code"] = np.nan, 0
    image.header["qform_code"] = 0
    (folder / "labelsTr/BRATS_001.nii.gz").unlink()
    (folder / "labelsTr/BRATS_001.nii.gz").write_bytes(gzip.compress(image.header.binaryblock + bytes(4 + 24 * 24 * 16)))


def give_more_than_half_precision_has(folder):
    replace_voxels(folder / "imagesTr/BRATS_001.nii.gz", np.full((24, 24, 16, 4), 200_000, np.int32))


def give_complex_numbers(folder):
    replace_voxels(folder / "imagesTr/BRATS_001.nii.gz", np.ones((24, 24, 16, 4), np.complex64))


def give_colours(folder):
    colours = np.zeros((24, 24, 16), [("R", "u1"), ("G", "u1"), ("B", "u1")])
    replace_voxels(folder / "labelsTr/BRATS_001.nii.gz", colours)


def cut_thin(folder):
    replace_voxels(folder / "imagesTr/BRATS_001.nii.gz", np.ones((24, 24, 4, 4), np.int16))
    replace_voxels(folder / "labelsTr/BRATS_001.nii.gz", np.ones((24, 24, 4), np.uint8))


def nest_deeply(folder):
    (folder / "dataset.json").write_text("[" * 100_000)


@pytest.mark.parametrize(
    ("spoil", "data", "said"),
    [
        (cut_short, {}, "imagesTr/BRATS_002.nii.gz: cannot be read"),
        (take_away, {}, "labelsTr/BRATS_001.nii.gz: cannot be read"),
        (mirror_the_label, {}, "labelsTr/BRATS_001.nii.gz: lies elsewhere than its image"),
        (
            give_an_affine_of_no_number,
            {},
            "labelsTr/BRATS_001.nii.gz: its header's spacing and its affine disagree, or are not sizes",
        ),
        (give_more_than_half_precision_has, {}, "voxels up to 200000, above half precision's 65504"),
        (give_complex_numbers, {}, "imagesTr/BRATS_001.nii.gz: voxels of type complex64; write integers or floats"),
        (give_colours, {}, "labelsTr/BRATS_001.nii.gz: voxels of type "),
        (cut_thin, {}, "(24, 24, 4) voxels of 1 mm, too thin for the network"),
        (nest_deeply, {}, "no dataset.json that lists `training` cases"),
        (
            lambda folder: list_again(folder, lambda cases: cases[:4]),
            {},
            "4 cases, of which a fifth validates; give five or more",
        ),
        (lambda folder: list_again(folder, lambda cases: []), {}, "0 cases, of which a fifth validates"),
        (lambda folder: list_again(folder, lambda cases: cases + cases[:1]), {}, "lists BRATS_001.nii.gz 2 times"),
        (lambda folder: list_again(folder, lambda cases: [{"image": "a"}]), {}, "each `image` and `label`"),
        (
            lambda folder: list_again(folder, lambda cases: [*cases, {"image": "/etc/a", "label": "b"}]),
            {},
            "lies outside of the folder",
        ),
        (forget_description, {}, "no dataset.json that lists `training` cases"),
        (give_three_channels, {}, "an image has 4 channels more"),
        (give_a_fourth_label, {}, "labels other than 0 to 3"),
        (give_no_number, {}, "voxels that are not numbers"),
        (spoil_nothing, {"local_folder": None}, "source `local` needs `local_folder`: a folder in the Decathlon layout"),
        (spoil_nothing, {"stand_in": {"size": "huge"}}, "data.stand_in.size: "),
        (spoil_nothing, {"size": "tiny"}, "data.size: "),
        (spoil_nothing, {"source": "download", "registry_entry": "Task02"}, "no dataset `Task02`"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_cannot_be_trained_with_is_refused_in_one_line(tmp_path, decathlon, spoil, data, said):
    spoil(decathlon)
    with pytest.raises(SpeedproofError) as refused:
        prepare(tmp_path, **{"source": "local", "local_folder": str(decathlon), **data})
    assert said in str(refused.value) and "\n" not in str(refused.value)
    assert not (tmp_path / "dataset.json").exists()
