"""Every case is read to its end; one that cannot be trained with is named, with what is wrong with it."""

import gzip
import os
import struct
from contextlib import suppress
from pathlib import Path

import nibabel
import numpy as np
import pytest

from speedproof.api import DataError, Dataset, sha256_of
from speedproof_spleen.data.nifti import UnreadableError, parse_file
from speedproof_spleen.data.verify import inspect_dataset
from workloads.spleen.tests.data.volumes import AFFINE, block_label, save_case, save_image, save_label


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


def edit(path, offset, form, *values):
    """Write values into a volume's header."""
    content = bytearray(gzip.decompress(path.read_bytes()))
    struct.pack_into(f"<{form}", content, offset, *values)
    path.write_bytes(gzip.compress(bytes(content)))


DIM, TYPE, SPACING, OFFSET, QUATERNION, ROWS, MAGIC = 40, 70, 76, 108, 256, 280, 344  # in a header of NIfTI-1
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("place", "form", "values", "said"),
    [
        (
            DIM,
            "4h",
            (3, 32767, 32767, 32767),
            "not readable as NIfTI (its header claims 35,181,150,961,663 voxels, ",
        ),
        (DIM, "4h", (3, 1024, 1024, 1024), "bytes, more than the file can hold)"),
        (DIM, "4h", (3, 4, 3, 1), "not readable as NIfTI (something is behind its last voxel)"),
        (DIM, "4h", (3, 4, 3, 0), "not readable as NIfTI (its header claims a shape of [4, 3, 0])"),
        (DIM, "4h", (3, 4, 3, -2), "not readable as NIfTI (its header claims a shape of [4, 3, -2])"),
        (TYPE, "h", (128,), "not readable as NIfTI (its voxels are not plain numbers but colours)"),
        (TYPE, "h", (32,), "not readable as NIfTI (its voxels are not plain numbers but complex64)"),
        (TYPE, "h", (1,), "not readable as NIfTI ("),
        (
            SPACING + 4,
            "3f",
            (0.5, 0.75, 0),
            "not readable as NIfTI (its header claims voxels 0.5, 0.75, 0 mm apart, 0.01",
        ),
        (SPACING + 4, "3f", (0.5, 0.75, -5), "not readable as NIfTI (its header claims voxels 0.5, 0.75, -5 mm apart"),
        (SPACING + 4, "3f", (0.5, 0.75, NAN), "not readable as NIfTI (its header claims voxels 0.5, 0.75, nan mm apart"),
        (SPACING + 4, "3f", (0.5, 0.75, 1e9), "not readable as NIfTI (its header claims voxels 0.5, 0.75, 1e+09 mm apart"),
        (OFFSET, "f", (NAN,), "not readable as NIfTI ("),
        (OFFSET, "f", (INF,), "not readable as NIfTI ("),
        (OFFSET, "f", (-352,), "not readable as NIfTI (its header claims that voxels begin at byte -352)"),
        (MAGIC, "4s", (b"ni1",), "not readable as NIfTI (no header of NIfTI-1 in one file)"),
        (ROWS, "12f", (NAN,) * 12, "not readable as NIfTI (its affine is not of finite numbers)"),
        (ROWS, "12f", (0,) * 12, "has an affine that does not say where its voxels lie"),
        (
            ROWS,
            "12f",
            (0.5, 0, 0, INF, 0, 0.75, 0, 0, 0, 0, 5, 0),
            "not readable as NIfTI (its affine is not of finite numbers)",
        ),
        (ROWS, "12f", (0.5, 0.5, 0, 0, 0, 0, 0.75, 0, 0, 0, 5, 0), "has an affine that does not say where its voxels lie"),
    ],
)
@pytest.mark.parametrize("kind", ["image", "label"])
def test_a_header_that_cannot_be_true_is_named(tmp_path, kind, place, form, values, said):
    save_case(tmp_path, "spleen_1")
    edit(tmp_path / f"{kind}sTr/spleen_1.nii.gz", place, form, *values)
    found = problem(tmp_path)
    assert f": spleen_1: {kind} " in found
    assert said in found


def test_a_header_that_contradicts_itself_and_turns_by_no_rotation_is_named(tmp_path):
    save_case(tmp_path, "spleen_1")
    path = tmp_path / "imagesTr/spleen_1.nii.gz"
    edit(path, SPACING + 4, "f", 0.6)  # the affine says 0.5
    edit(path, QUATERNION, "3f", 2, 0, 0)
    assert problem(tmp_path).endswith(": spleen_1: image has an affine that does not say where its voxels lie")


def shift(folder, share):
    """Move a label along x by a share of its voxels' 0.5 mm."""
    edit(folder / "labelsTr/spleen_1.nii.gz", ROWS + 12, "f", 0.5 * share)


@pytest.mark.parametrize("share", [0.05, -0.05])
def test_a_label_may_be_rounded_otherwise_than_its_image(tmp_path, share):
    save_case(tmp_path, "spleen_1")
    shift(tmp_path, share)
    assert len(inspect_dataset(tmp_path)) == 1


def test_a_label_that_lies_elsewhere_than_its_image_is_named(tmp_path):
    save_case(tmp_path, "spleen_1")
    shift(tmp_path, 0.5)
    assert problem(tmp_path).endswith(": spleen_1: label lies elsewhere than its image, by up to 0.25 mm")


def test_a_label_with_a_contradiction_that_its_image_has_not_is_named(tmp_path):
    """1 mm along x in one place of its header, 0.5 mm in the two others: three steps end 1.5 mm apart."""
    save_case(tmp_path, "spleen_1")
    edit(tmp_path / "labelsTr/spleen_1.nii.gz", ROWS, "f", 1)
    assert problem(tmp_path).endswith(": spleen_1: label lies elsewhere than its image, by up to 1.5 mm")


def test_a_label_that_lies_mirrored_is_named(tmp_path):
    """The last of four voxels, 1.5 mm from the first, is where the first should be."""
    save_case(tmp_path, "spleen_1")
    edit(tmp_path / "labelsTr/spleen_1.nii.gz", ROWS, "4f", -0.5, 0, 0, 0)
    assert problem(tmp_path).endswith(": spleen_1: label lies elsewhere than its image, by up to 3 mm")


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_an_image_with_voxels_that_are_no_numbers_is_named(tmp_path, value):
    voxels = np.arange(24).reshape(4, 3, 2).astype(np.float32)
    voxels[1, 1, 1] = value
    save_case(tmp_path, "spleen_1", voxels)
    assert problem(tmp_path).endswith(": spleen_1: image has voxels that are not finite numbers")


def test_an_image_of_one_value_is_named(tmp_path):
    save_case(tmp_path, "spleen_1", np.full((4, 3, 2), -1000, np.int16))
    assert problem(tmp_path).endswith(": spleen_1: image has nothing to see: all its voxels are -1000")


def test_every_flipped_bit_of_the_content_is_found(tmp_path):
    """Some bits of gzip's own, and of its tables, change nothing: then the content is the same."""
    save_case(tmp_path, "spleen_1")
    path = tmp_path / "imagesTr/spleen_1.nii.gz"
    content, sound = path.read_bytes(), parse_file(path).to_bytes()
    passed = []
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with suppress(UnreadableError):
            passed.append(parse_file(path).to_bytes())
    assert all(one == sound for one in passed)
    assert len(passed) < len(content)  # of eight times as many bits


@pytest.mark.parametrize(
    "behind",
    [b"garbage", bytes(8), gzip.compress(b"more"), gzip.compress(bytes(50 * 2**20))],
    ids=["text", "zeros", "a piece", "a bomb"],
)
def test_what_stands_behind_a_volume_is_refused(tmp_path, behind):
    """Of a bomb no more is unpacked than the volume has room for, and one chunk."""
    save_case(tmp_path, "spleen_1")
    with (tmp_path / "imagesTr/spleen_1.nii.gz").open("ab") as file:
        file.write(behind)
    assert ": spleen_1: image not readable as NIfTI (" in problem(tmp_path)


@pytest.mark.parametrize("name", ["spleen_2.nii", "spleen_2.NII.GZ", "spleen_2.Nii.gz"])
def test_what_only_looks_like_a_volume_is_not_left_out_silently(tmp_path, name):
    save_case(tmp_path, "spleen_1")
    (tmp_path / "imagesTr" / name).write_bytes(b"")
    assert f"{name}: volumes are those that end in .nii.gz; compress and rename it" in problem(tmp_path)


def test_a_name_that_cannot_be_printed_is_refused(tmp_path):
    save_case(tmp_path, "spleen_1")
    Path(os.fsdecode(bytes(tmp_path / "imagesTr") + b"/caf\xe9.nii.gz")).write_bytes(b"")
    assert r"caf\udce9.nii.gz: its name cannot be printed; rename it" in problem(tmp_path)


def test_links_and_other_files_are_taken_as_they_are(tmp_path):
    save_case(tmp_path / "else where", "spleen_1")
    for kind in ("imagesTr", "labelsTr"):
        (tmp_path / "set" / kind).mkdir(parents=True)
        (tmp_path / "set" / kind / "spleen_1.nii.gz").symlink_to(tmp_path / "else where" / kind / "spleen_1.nii.gz")
        (tmp_path / "set" / kind / "README.txt").write_text("about these")
    assert [case.name for case in inspect_dataset(tmp_path / "set")] == ["spleen_1"]


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_what_is_no_file_is_named_and_not_waited_for(tmp_path, make):
    save_label(tmp_path, "spleen_1")
    (tmp_path / "imagesTr").mkdir()
    make(tmp_path / "imagesTr/spleen_1.nii.gz")
    assert problem(tmp_path).endswith(": spleen_1: image not readable as NIfTI (is no file)")


def test_scaled_labels_count_as_they_are_read(tmp_path):
    save_case(tmp_path, "spleen_1")
    halved = nibabel.Nifti1Image(block_label() * 2, AFFINE)
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
