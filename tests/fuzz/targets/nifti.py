"""An image and its label: the check of a dataset, and the reader that training uses; voxels are those that nibabel reads."""

import gzip
import io
import json
import struct
import tempfile
from itertools import product
from pathlib import Path
from random import Random

import nibabel
import numpy as np

from speedproof_spleen.data.nifti import read_nifti
from speedproof_spleen.data.verify import inspect_dataset
from tests.fuzz.calling import Outcome, attempt
from tests.fuzz.driver import read_files, write_files
from tests.fuzz.mutation import Files, mutate_bytes
from workloads.spleen.tests.data.volumes import save_case

IMAGE, LABEL = "imagesTr/a.nii.gz", "labelsTr/a.nii.gz"
# Fields of a NIfTI-1 header: offset and form.
FIELDS = {"sizeof_hdr": (0, "i"), "datatype": (70, "h"), "bitpix": (72, "h"), "vox_offset": (108, "f"), "slope": (112, "f"),
          "inter": (116, "f"), "xyzt": (123, "B"), "qform": (252, "h"), "sform": (254, "h"), "magic": (344, "4s")} | {
          f"dim{k}": (40 + 2 * k, "h") for k in range(8)} | {f"pixdim{k}": (76 + 4 * k, "f") for k in range(8)} | {
          f"affine{k}": (256 + 4 * k, "f") for k in range(18)}  # fmt: skip
HOSTILE = {
    "f": [0.0, -1.0, 1.0, float("nan"), float("inf"), float("-inf"), 1e-30, 1e30, 352.0, 353.0, 2.0, -352.0],
    "h": [0, 1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 768, 1024, 1280, 1536, 2048, 2304, -1, 7, 32767, -32768],
    "i": [0, 348, 540, -1, 1543569408], "B": [0, 1, 2, 3, 255], "4s": [b"n+1\0", b"ni1\0", b"n+2\0", b"\0\0\0\0"],
}  # fmt: skip


def seeds() -> list[Files]:
    with tempfile.TemporaryDirectory() as folder:
        save_case(Path(folder), "a")
        return [read_files(Path(folder))]


def mutate(random: Random, files: Files) -> Files:
    name = random.choice([IMAGE, LABEL])
    if random.random() < 0.35:
        return {**files, name: mutate_bytes(random, files[name], random.choice([1, 1, 2, 8]))}
    content = bytearray(gzip.decompress(files[name]))
    for _ in range(random.choice([1, 1, 2, 4])):
        offset, form = FIELDS[random.choice(list(FIELDS))]
        struct.pack_into(f"<{form}", content, offset, random.choice(HOSTILE[form]))
    if random.random() < 0.1:
        content = bytearray(mutate_bytes(random, bytes(content)))
    if random.random() < 0.05:
        content += bytes(random.choice([1, 1000, 300 << 20] if random.random() < 0.02 else [1, 1000]))
    packed = gzip.compress(bytes(content), 1, mtime=0)
    if random.random() < 0.05:
        packed = random.choice([packed + packed, packed + b"\0" * 8, packed[:-4] + b"\xff" * 4, bytes(content)])
    return {**files, name: packed}


def run(files: Files, folder: Path, sound: Files) -> Outcome:
    write_files(folder, files)
    cases = attempt(lambda: inspect_dataset(folder, 1), "a: ")
    if isinstance(cases, Outcome):
        found = cases
    elif problem := _check_case(files, json.loads(cases[0].model_dump_json())):
        return Outcome("silent", problem)
    else:
        found = Outcome("same" if _unpacked(files) == _unpacked(sound) else "right")
    for name in files:
        read = attempt(lambda name=name: read_nifti(folder / name), name)  # type: ignore[misc]
        if isinstance(read, Outcome):
            if read.kind != "refused":
                return read
        elif problem := _check_voxels(files[name], np.asarray(read.dataobj), f"{name}: "):
            return Outcome("silent", problem)
    return found


def _unpack(content: bytes) -> bytes:
    """Return what a file holds, by Python's own gzip, which reads to the checksum."""
    with gzip.open(io.BytesIO(content)) as file:
        return file.read(64 << 20)


def _unpacked(files: Files) -> list[bytes]:
    return [_unpack(files[name]) for name in (IMAGE, LABEL)]


def _check_case(files: Files, case: dict) -> str:
    """Say what is wrong with a case that was called sound."""
    try:
        image, label = (nibabel.Nifti1Image.from_bytes(_unpack(files[name])) for name in (IMAGE, LABEL))
        voxels, marks = np.asanyarray(image.dataobj), np.asanyarray(label.dataobj)
    except Exception as error:  # whatever nibabel or gzip says
        return f"sound, though it cannot be unpacked and read: {error}"
    if not np.isfinite(voxels.astype(float)).all():
        return "sound with voxels that are no numbers"
    placed, marked = (_place(one) for one in (image, label))
    if not (np.isfinite(placed).all() and abs(np.linalg.det(placed[:3, :3])) > 1e-12):
        return f"sound with the affine {placed.tolist()}"
    corners = np.array([[*corner, 1.0] for corner in product(*((0, length - 1) for length in voxels.shape))]).T
    apart_mm = np.linalg.norm(((placed - marked) @ corners)[:3], axis=0).max()
    if apart_mm > 0.11 * min(case["spacing_mm"]):  # headers round affines; a tenth of a voxel is let pass
        return "sound, though the label lies elsewhere than its image"
    if case["foreground_voxels"] != int((marks == 1).sum()) or tuple(case["shape"]) != voxels.shape:
        return f"sound as {case['shape']} with {case['foreground_voxels']} voxels of foreground"
    if not all(np.isfinite(step) and step > 0 for step in case["spacing_mm"]):
        return f"sound with a spacing of {case['spacing_mm']}"
    return ""


def _place(image: nibabel.Nifti1Image) -> np.ndarray:
    """Return the affine that MONAI takes: the header's other one, where the first contradicts its spacing."""
    spacing = np.sqrt((image.affine[:3, :3] ** 2).sum(axis=0))
    return image.affine if np.allclose(spacing, image.header.get_zooms()[:3]) else image.get_qform()


def _check_voxels(content: bytes, voxels: np.ndarray, name: str) -> str:
    try:
        expected = np.asanyarray(nibabel.Nifti1Image.from_bytes(_unpack(content)).dataobj)
    except Exception as error:
        return f"{name}read, though Python's gzip and nibabel say: {error!r}"
    return (
        "" if np.array_equal(expected, voxels, equal_nan=expected.dtype.kind in "fc") else f"{name}other voxels than nibabel's"
    )
