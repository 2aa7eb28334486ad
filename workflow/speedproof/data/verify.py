"""Whether every case of a dataset can be trained with: each file is opened and read before anything starts."""

import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
from nibabel.filebasedimages import ImageFileError
from nibabel.spatialimages import HeaderDataError, SpatialImage

from speedproof.environment import available_cores
from speedproof.errors import DataError
from speedproof.records.dataset import Case
from speedproof.records.files import sha256_of

IMAGES, LABELS, SUFFIX = "imagesTr", "labelsTr", ".nii.gz"
NAMED = 5  # bad cases that a message lists


class _BadCaseError(Exception):
    """What is wrong with one case."""


def inspect_dataset(folder: Path, workers: int | None = None) -> list[Case]:
    """Return the cases of a dataset in the Decathlon layout, sorted by name, each image and label read to its end.

    `workers` threads read (decompression and checksums run beside each other in them); None: one a core. Raises a
    :class:`DataError` that names the bad cases: a label or an image missing, unreadable or not three-dimensional, a label
    of another shape than its image, empty, or with values other than 0 and 1.
    """
    names = sorted(_names(folder / IMAGES) | _names(folder / LABELS))
    if not names:
        raise DataError(f"{folder}: no {IMAGES}/*{SUFFIX}; give a folder in the Decathlon layout, with {IMAGES}/ and {LABELS}/")
    with ThreadPoolExecutor(workers or available_cores()) as pool:
        results = list(pool.map(lambda name: _attempt(_inspect_case, folder, name), names))
    problems = [f"{name}: {result}" for name, result in zip(names, results, strict=True) if isinstance(result, _BadCaseError)]
    if problems:
        more = f"; and {len(problems) - NAMED} more" if len(problems) > NAMED else ""
        raise DataError(
            f"{folder}: repair or remove {len(problems)} of {len(names)} cases: {'; '.join(problems[:NAMED])}{more}"
        )
    return [result for result in results if isinstance(result, Case)]


def _names(folder: Path) -> set[str]:
    return {path.name.removesuffix(SUFFIX) for path in folder.glob(f"*{SUFFIX}") if not path.name.startswith(".")}


def _attempt(inspect: Callable[[Path, str], Case], folder: Path, name: str) -> Case | _BadCaseError:
    """Return what a case is or what is wrong with it, so that all bad cases are reported at once."""
    try:
        return inspect(folder, name)
    except _BadCaseError as problem:
        return problem


def _inspect_case(folder: Path, name: str) -> Case:
    image_name, label_name = f"{IMAGES}/{name}{SUFFIX}", f"{LABELS}/{name}{SUFFIX}"
    for kind, file in (("image", image_name), ("label", label_name)):
        if not (folder / file).exists():
            raise _BadCaseError(f"no {kind} ({file})")
    image, label = _read_nifti(folder / image_name, "image"), _read_nifti(folder / label_name, "label")
    if image.shape != label.shape:
        raise _BadCaseError(f"image of {_size(image)} voxels, label of {_size(label)}")
    x_mm, y_mm, z_mm = (float(step) for step in image.header.get_zooms())
    return Case(
        name=name,
        image=image_name,
        label=label_name,
        image_sha256=sha256_of(folder / image_name),
        label_sha256=sha256_of(folder / label_name),
        shape=image.shape,
        spacing_mm=(x_mm, y_mm, z_mm),
        foreground_voxels=_count_foreground(label),
    )


def _read_nifti(path: Path, kind: str) -> SpatialImage:
    """Return an image whose voxels were all read once, and are not kept."""
    try:
        nifti: Any = nibabel.load(path)
        np.asanyarray(nifti.dataobj)
    except (ImageFileError, HeaderDataError, OSError, EOFError, ValueError, zlib.error) as error:
        raise _BadCaseError(f"{kind} not readable as NIfTI ({' '.join(str(error).split()):.80})") from None
    if len(nifti.shape) != 3:
        raise _BadCaseError(f"{kind} has {len(nifti.shape)} dimensions, 3 are needed")
    return nifti


def _count_foreground(label: SpatialImage) -> int:
    voxels = np.asanyarray(label.dataobj)
    foreground = int(np.count_nonzero(voxels))
    if foreground == 0:
        raise _BadCaseError("label is empty")
    if np.count_nonzero(voxels == 1) != foreground:
        raise _BadCaseError("label has values other than 0 and 1")
    return foreground


def _size(image: SpatialImage) -> str:
    return "×".join(str(voxels) for voxels in image.shape)
