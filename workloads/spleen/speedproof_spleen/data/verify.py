"""Whether every case of a dataset can be trained with: each file is opened and read before anything starts."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import nibabel
import numpy as np

from speedproof.api import Case, DataError, available_cores, sha256_of
from speedproof_spleen.data.nifti import SPACINGS_MM, Affine, UnreadableError, affine_of, parse_file

IMAGES, LABELS, SUFFIX = "imagesTr", "labelsTr", ".nii.gz"
NAMED = 5  # bad cases that a message lists
SAME_PLACE = 0.1  # of the smallest spacing: headers round affines, by less than that


class _BadCaseError(Exception):
    """What is wrong with one case."""


def inspect_dataset(folder: Path, workers: int | None = None) -> list[Case]:
    """Return the cases of a dataset in the Decathlon layout, sorted by name, each image and label read to its end.

    `workers` threads read, decompress and compare checksums in parallel. Default: one per core.

    Raises:
        DataError: names the bad cases. A label or an image is missing, unreadable, not three-dimensional or without a place.
            An image has one value only, or voxels that are not numbers. A label is empty, has values other than 0 and 1, or
            differs from its image in shape or place.
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
    """Return the names of the volumes in a folder. Hidden files are none; what only looks like one is refused."""
    names = {path.name for path in folder.iterdir() if not path.name.startswith(".")} if folder.is_dir() else set()
    for name in sorted(names):
        if name.lower().endswith((".nii", SUFFIX)) and not name.endswith(SUFFIX):
            raise DataError(f"{folder / name}: volumes are those that end in {SUFFIX}; compress and rename it, or move it away")
        if name.endswith(SUFFIX) and not name.isprintable():
            raise DataError(f"{folder / name}: its name cannot be printed; rename it, image and label alike")
    return {name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX)}


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
    image, label = _read_volume(folder / image_name, "image"), _read_volume(folder / label_name, "label")
    if image.shape != label.shape:
        raise _BadCaseError(f"image of {_size(image)} voxels, label of {_size(label)}")
    _check_same_place(image, label)
    _check_brightness(image)
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


def _read_volume(path: Path, kind: str) -> nibabel.Nifti1Image:
    try:
        volume = parse_file(path)
    except UnreadableError as error:
        raise _BadCaseError(f"{kind} not readable as NIfTI ({error!s:.100})") from None
    if len(volume.shape) != 3:
        raise _BadCaseError(f"{kind} has {len(volume.shape)} dimensions, 3 are needed")
    # A header has two places for an affine; here they differ, and the first is not the one in use.
    if not (_is_sound(volume.affine) and _is_sound(affine_of(volume))):
        raise _BadCaseError(f"{kind} has an affine that does not say where its voxels lie")
    return volume


def _is_sound(affine: Affine) -> bool:
    """Return whether an affine is finite, its voxels have a size, and its axes point in three directions."""
    if not np.isfinite(affine).all() or np.abs(affine).max() > 1e6:
        return False
    sizes = nibabel.affines.voxel_sizes(affine)
    low, high = SPACINGS_MM
    return bool((sizes >= low).all() and (sizes <= high).all() and abs(np.linalg.det(affine[:3, :3] / sizes)) > 1e-3)


def _check_same_place(image: nibabel.Nifti1Image, label: nibabel.Nifti1Image) -> None:
    """Check that no corner of a label lies elsewhere than its image's: each is resampled by its own affine."""
    corners = np.array([[*corner, 1.0] for corner in product(*((0.0, length - 1.0) for length in image.shape))]).T
    pairs = [(image.affine, label.affine), (affine_of(image), affine_of(label))]  # also where a header contradicts itself
    apart_mm = max(np.linalg.norm(((one - other) @ corners)[:3], axis=0).max() for one, other in pairs)
    if apart_mm > SAME_PLACE * nibabel.affines.voxel_sizes(affine_of(image)).min():
        raise _BadCaseError(f"label lies elsewhere than its image, by up to {apart_mm:.3g} mm")


def _check_brightness(image: nibabel.Nifti1Image) -> None:
    voxels = np.asanyarray(image.dataobj)
    low, high = float(voxels.min()), float(voxels.max())  # not a number if any voxel is none
    if not np.isfinite([low, high]).all():
        raise _BadCaseError("image has voxels that are not finite numbers")
    if low == high:
        raise _BadCaseError(f"image has nothing to see: all its voxels are {low:g}")


def _count_foreground(label: nibabel.Nifti1Image) -> int:
    voxels = np.asanyarray(label.dataobj)
    foreground = int(np.count_nonzero(voxels))
    if foreground == 0:
        raise _BadCaseError("label is empty")
    if np.count_nonzero(voxels == 1) != foreground:
        raise _BadCaseError("label has values other than 0 and 1")
    return foreground


def _size(image: nibabel.Nifti1Image) -> str:
    return "×".join(str(voxels) for voxels in image.shape)
