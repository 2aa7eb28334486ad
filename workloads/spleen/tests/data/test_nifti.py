"""Our reader gives what nibabel gives, whatever the file holds; a file that is none is named in one line."""

import gzip
import hashlib
import zlib
from pathlib import Path

import nibabel
import numpy as np
import pytest
import torch
from monai.transforms import Compose, EnsureChannelFirst, LoadImage

from speedproof.api import DataError
from speedproof_spleen.config import load_config
from speedproof_spleen.data.nifti import read_case, read_nifti
from speedproof_spleen.segmentation.chains import Upload
from speedproof_spleen.training.reading import begin_early

ROOT = Path(__file__).parents[4]
AFFINE = np.array([[-0.8, 0.1, 0.0, 12.0], [0.1, 0.8, 0.0, -3.0], [0.0, 0.0, 5.0, 40.0], [0.0, 0.0, 0.0, 1.0]])


def save(path, voxels, slope=None, inter=None):
    image = nibabel.Nifti1Image(voxels, AFFINE)
    image.header.set_slope_inter(slope, inter)
    nibabel.save(image, path)
    return path


def voxels_of(dtype):
    return np.arange(5 * 4 * 3).reshape(5, 4, 3).astype(dtype)


def assert_read_as_by_nibabel(path):
    expected, ours = nibabel.load(path), read_nifti(path)
    assert np.asanyarray(ours.dataobj).dtype == np.asanyarray(expected.dataobj).dtype
    assert np.array_equal(np.asanyarray(ours.dataobj), np.asanyarray(expected.dataobj))
    assert np.array_equal(ours.affine, expected.affine)
    loaded = Compose([LoadImage(), EnsureChannelFirst()])(path)
    brought = Upload(torch.device("cpu"))({"image": ours})["image"]
    assert torch.equal(brought.as_tensor(), loaded.as_tensor())
    assert brought.dtype == loaded.dtype == torch.float32
    assert torch.equal(brought.affine, loaded.affine)


@pytest.mark.parametrize("dtype", ["int16", "uint8", "float32", "float64", "int32", "uint16", ">i2"])
@pytest.mark.parametrize("suffix", [".nii.gz", ".nii"])
def test_any_type_is_read_as_nibabel_reads_it(tmp_path, dtype, suffix):
    assert_read_as_by_nibabel(save(tmp_path / f"volume{suffix}", voxels_of(dtype)))


def test_scaled_voxels_are_scaled(tmp_path):
    path = save(tmp_path / "scaled.nii.gz", voxels_of("int16"), slope=0.5, inter=-3.0)
    assert np.asanyarray(read_nifti(path).dataobj).max() != 59
    assert_read_as_by_nibabel(path)


def test_a_file_of_several_compressed_pieces_is_read_to_its_end(tmp_path):
    path = save(tmp_path / "whole.nii.gz", voxels_of("int16"))
    content = gzip.decompress(path.read_bytes())
    pieces = tmp_path / "pieces.nii.gz"  # as parallel compressors write them
    pieces.write_bytes(gzip.compress(content[:400]) + gzip.compress(content[400:]))
    assert_read_as_by_nibabel(pieces)


def test_a_header_that_contradicts_itself_is_corrected_as_monai_does(tmp_path):
    image = nibabel.Nifti1Image(voxels_of("int16"), AFFINE)
    image.header["pixdim"][1:4] = 2.0  # unlike the affine
    path = tmp_path / "contradicting.nii.gz"
    nibabel.save(image, path)
    assert_read_as_by_nibabel(path)


@pytest.mark.parametrize("damage", [lambda content: content[:-20], lambda content: b"no volume", lambda content: b""])
def test_a_damaged_file_is_named_in_one_line(tmp_path, damage):
    path = save(tmp_path / "damaged.nii.gz", voxels_of("int16"))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=r"damaged\.nii\.gz: not readable as NIfTI") as raised:
        read_nifti(path)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: content + gzip.compress(b"more"),
        lambda content: content + b"more",
        lambda content: content + content,
        lambda content: content + b"junk" + content[-8:],
        lambda content: content[:-8] + bytes(4) + content[-4:],  # the checksum
        lambda content: content[:-4] + bytes(4),  # the length
    ],
)
def test_a_file_that_ends_otherwise_than_its_voxels_is_named(tmp_path, spoil):
    path = save(tmp_path / "spoiled.nii.gz", voxels_of("int16"))
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(DataError, match=r"spoiled\.nii\.gz: not readable as NIfTI"):
        read_nifti(path)


def test_a_header_that_claims_more_than_the_file_can_hold_makes_no_buffer(tmp_path, monkeypatch):
    path = save(tmp_path / "claims.nii.gz", voxels_of("int16"))
    content = bytearray(gzip.decompress(path.read_bytes()))
    content[40:48] = np.array([3, 1024, 1024, 512], np.int16).tobytes()
    path.write_bytes(gzip.compress(bytes(content)))
    monkeypatch.setattr(zlib, "decompress", None)  # it would make one
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(DataError, match=r"claims\.nii\.gz: .*claims 1,073,742,176 bytes, more than the file can hold"):
        read_nifti(path, digest)


def test_an_unknown_file_makes_no_more_than_its_header_claims(tmp_path, monkeypatch):
    path = save(tmp_path / "bomb.nii.gz", voxels_of("int16"))
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()) + bytes(2**24)))
    monkeypatch.setattr(zlib, "decompress", None)  # it would make all of it
    with pytest.raises(DataError, match=r"bomb\.nii\.gz: .*something is behind its last voxel"):
        read_nifti(path)


def test_a_known_file_is_decompressed_by_one_call(tmp_path, monkeypatch):
    path = save(tmp_path / "known.nii.gz", voxels_of("int16"))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    unknown = np.asarray(read_nifti(path).dataobj)
    calls = []
    monkeypatch.setattr(zlib, "decompress", lambda *given, real=zlib.decompress: calls.append(1) or real(*given))
    assert (np.asarray(read_nifti(path, digest).dataobj) == unknown).all()
    assert calls == [1]


def test_a_file_that_was_changed_after_it_was_described_is_named(tmp_path):
    path = save(tmp_path / "changed.nii.gz", voxels_of("int16"))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert read_case({"image": str(path)}, {str(path): digest})["image"].shape == (5, 4, 3)
    save(path, voxels_of("int16") + 1)
    with pytest.raises(DataError, match=r"changed\.nii\.gz: .*\(it was changed after `dataset\.json` was written\); get"):
        read_case({"image": str(path)}, {str(path): digest})


def test_what_a_run_reads_ahead_must_be_what_was_described(tmp_path):
    turbo = load_config(ROOT / "config.yaml").variants["turbo"]
    paths = [str(save(tmp_path / f"{name}.nii.gz", voxels_of("int16"))) for name in ("one", "two")]
    cases = [{"image": path, "label": path} for path in paths]
    right = hashlib.sha256((tmp_path / "one.nii.gz").read_bytes()).hexdigest()
    with begin_early(turbo, cases, {paths[0]: right, paths[1]: right[::-1]}) as readings:
        assert readings.take(cases[0])["label"].shape == (5, 4, 3)
        with pytest.raises(DataError, match=r"two\.nii\.gz: .*was changed after"):
            readings.take(cases[1])


def test_a_file_shorter_than_its_header_says_is_named(tmp_path):
    path = save(tmp_path / "short.nii", voxels_of("int16"))
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(DataError, match=r"short\.nii: not readable"):
        read_nifti(path)
