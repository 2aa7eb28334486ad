"""Every case is read to its end; one that cannot be trained with is named, with what is wrong with it."""

import gzip

import nibabel
import numpy as np
import pytest

from speedproof.data.verify import inspect_dataset
from speedproof.errors import DataError
from speedproof.records.dataset import Dataset
from speedproof.records.files import sha256_of
from tests.data.volumes import block_label, save_case, save_image, save_label


def digest(folder):
    cases = inspect_dataset(folder, workers=1)
    return Dataset(source="local", name="a", version="1", licence="none", synthetic=True, folder="a", cases=cases).digest


def problem(folder):
    with pytest.raises(DataError) as raised:
        inspect_dataset(folder, workers=2)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_sound_cases_are_described(tmp_path):
    for name in ("spleen_9", "spleen_10"):
        save_case(tmp_path, name)
    first, second = inspect_dataset(tmp_path, workers=2)
    assert (first.name, second.name) == ("spleen_10", "spleen_9")
    assert (first.image, first.label) == ("imagesTr/spleen_10.nii.gz", "labelsTr/spleen_10.nii.gz")
    assert (first.shape, first.spacing_mm, first.foreground_voxels) == ((4, 3, 2), (0.5, 0.75, 5.0), 4)
    assert first.image_sha256 == sha256_of(tmp_path / first.image)
    assert first.label_sha256 == sha256_of(tmp_path / first.label)


def test_hidden_files_are_no_cases(tmp_path):
    save_case(tmp_path, "spleen_1")
    (tmp_path / "imagesTr/._spleen_1.nii.gz").write_bytes(b"of a Mac")
    assert [case.name for case in inspect_dataset(tmp_path)] == ["spleen_1"]


@pytest.mark.parametrize("kind", ["image", "label"])
def test_the_digest_changes_with_one_voxel(tmp_path, kind):
    save_case(tmp_path, "spleen_1")
    before = digest(tmp_path)
    assert digest(tmp_path) == before
    image, marked = np.arange(24).reshape(4, 3, 2).astype(np.int16), block_label()
    {"image": image, "label": marked}[kind][0, 0, 0] = 1
    save_case(tmp_path, "spleen_1", image, marked)
    assert digest(tmp_path) != before


def test_a_folder_without_volumes_is_no_dataset(tmp_path):
    assert "no imagesTr/*.nii.gz; give a folder in the Decathlon layout, with imagesTr/ and labelsTr/" in problem(tmp_path)


def test_a_case_without_label_is_named(tmp_path):
    save_image(tmp_path, "spleen_1")
    said = "repair or remove 1 of 1 cases: spleen_1: no label (labelsTr/spleen_1.nii.gz)"
    assert problem(tmp_path) == f"{tmp_path}: {said}"


def test_a_case_without_image_is_named(tmp_path):
    save_label(tmp_path, "spleen_1")
    assert problem(tmp_path).endswith(": spleen_1: no image (imagesTr/spleen_1.nii.gz)")


def test_a_label_of_another_shape_is_named(tmp_path):
    save_case(tmp_path, "spleen_1", label=block_label((4, 3, 5)))
    assert problem(tmp_path).endswith(": spleen_1: image of 4×3×2 voxels, label of 4×3×5")


@pytest.mark.parametrize(("kind", "shape"), [("image", (4, 3)), ("image", (4, 3, 2, 2)), ("label", (4, 3, 2, 2))])
def test_what_is_not_three_dimensional_is_named(tmp_path, kind, shape):
    save_case(tmp_path, "spleen_1", **{kind: np.ones(shape, np.uint8)})
    assert problem(tmp_path).endswith(f": spleen_1: {kind} has {len(shape)} dimensions, 3 are needed")


def test_an_empty_label_is_named(tmp_path):
    save_case(tmp_path, "spleen_1", label=np.zeros((4, 3, 2), np.uint8))
    assert problem(tmp_path).endswith(": spleen_1: label is empty")


@pytest.mark.parametrize("value", [2, -1, 0.5, np.nan])
def test_a_label_with_other_values_is_named(tmp_path, value):
    marked = block_label().astype(np.float32)
    marked[3, 2, 0] = value
    save_case(tmp_path, "spleen_1", label=marked)
    assert problem(tmp_path).endswith(": spleen_1: label has values other than 0 and 1")


def cut(path):
    path.write_bytes(path.read_bytes()[:-9])  # gzip ends with 8 bytes of checksum and length


def cut_before_compression(path):
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:-1]))


def flip(path):
    content = bytearray(path.read_bytes())
    content[-5] ^= 1  # of gzip's checksum
    path.write_bytes(content)


def spoil_header(path):
    content = bytearray(gzip.decompress(path.read_bytes()))
    content[70] = 99  # the voxels' type
    path.write_bytes(gzip.compress(content))


def not_compressed(path):
    path.write_bytes(gzip.decompress(path.read_bytes()))


def empty(path):
    path.write_bytes(b"")


def other(path):
    path.write_text("no volume")


@pytest.mark.parametrize("damage", [cut, cut_before_compression, flip, spoil_header, not_compressed, empty, other])
@pytest.mark.parametrize(("kind", "save"), [("image", save_image), ("label", save_label)])
def test_a_file_that_cannot_be_read_is_named(tmp_path, kind, save, damage):
    save_case(tmp_path, "spleen_1")
    damage(save(tmp_path, "spleen_1"))
    assert f": spleen_1: {kind} not readable as NIfTI (" in problem(tmp_path)


def test_scaled_labels_count_as_they_are_read(tmp_path):
    save_case(tmp_path, "spleen_1")
    halved = nibabel.Nifti1Image(block_label() * 2, np.eye(4))
    halved.header.set_slope_inter(0.5, 0)
    nibabel.save(halved, tmp_path / "labelsTr/spleen_1.nii.gz")
    (case,) = inspect_dataset(tmp_path)
    assert case.foreground_voxels == 4


def test_all_bad_cases_are_counted_and_five_are_named(tmp_path):
    for number in range(1, 9):
        save_image(tmp_path, f"spleen_{number}")
    save_label(tmp_path, "spleen_3")
    said = problem(tmp_path)
    assert "repair or remove 7 of 8 cases" in said
    assert [number for number in range(1, 9) if f"spleen_{number}:" in said] == [1, 2, 4, 5, 6]
    assert said.endswith("; and 2 more")
