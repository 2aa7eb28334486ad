"""The first step of the workflow: check that all volumes are whole and sound, and write `dataset.json`."""

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import nibabel
import numpy as np
from nibabel.orientations import io_orientation
from numpy.typing import NDArray
from pydantic import Field

from speedproof.api import Case, DataError, Dataset, available_cores, sha256_of
from speedproof_brain_tumour import cases, phantom
from speedproof_brain_tumour.phantom import Phantom
from speedproof_common.data import Found, Source, complete_source, download, find_local, make_stand_in_once, write_dataset

REGISTRY = Path(__file__).with_name("registry.yaml")
CHANNELS, LABELS = 4, {0, 1, 2, 3}
_PLACED_MM = 1e-3  # by which affines of an image and its label, and a header's two spacings, may differ
_LARGEST = float(np.finfo(np.float16).max)  # what resident variants can keep


class Data(Source):
    """Where the volumes come from: `data` of the configuration."""

    registry: ClassVar[Path] = REGISTRY

    registry_entry: str = Field("Task01_BrainTumour", description="The registry's entry to download")
    stand_in: Phantom = Phantom()

    def describe_layout(self) -> str:
        """Return what a local folder is."""
        return "a folder in the Decathlon layout"


complete = partial(complete_source, Data)


def prepare_dataset(data: Data, out: Path, *, workers: int | None = None) -> Dataset:
    """Fetch, find or make the volumes, read each to its end, and write `out` (`dataset.json`) last.

    Raises :class:`DataError`: there are none, or a case cannot be trained with.
    """
    workers = workers or available_cores()
    return write_dataset(data, out, lambda: _find(data, workers), lambda folder: _inspect(folder, workers))


def _find(data: Data, workers: int) -> Found:
    if data.source == "download":
        return download(data)
    if data.source == "local":
        return find_local(data)
    asked = data.stand_in
    made = make_stand_in_once(
        Path(data.folder, f"phantom-{asked.size}-{asked.seed}"),
        asked.model_dump(),
        asked.estimate_bytes(),
        phantom,
        lambda empty: phantom.make_phantom(empty, asked.size, asked.seed, workers),
    )
    return Found(made, "Brain tumour phantom", f"{asked.size}, seed {asked.seed}", "Apache-2.0")


def _inspect(folder: Path, workers: int) -> list[Case]:
    try:
        listed = cases.list_cases(folder)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise DataError(
            f"{folder}: no dataset.json that lists `training` cases, each `image` and `label`; "
            "give a folder in the Decathlon layout"
        ) from None
    _check_list(folder, listed)
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda case: _inspect_case(folder, case), listed))


def _check_list(folder: Path, listed: list[cases.Case]) -> None:
    """Refuse a list of which nothing would validate, that names a file twice, or one outside of the folder."""
    if not all(cases.split_cases(listed)):
        raise DataError(f"{folder}: {len(listed)} cases, of which a fifth validates; give five or more")
    files = Counter(case[key] for case in listed for key in ("image", "label"))
    for file, times in files.items():
        if times > 1:
            raise DataError(f"{folder / 'dataset.json'}: lists {Path(file).name} {times} times; correct it")
        if not Path(os.path.normpath(file)).is_relative_to(os.path.normpath(folder)):
            raise DataError(f"{folder / 'dataset.json'}: {file} lies outside of the folder; put it there")


def _inspect_case(folder: Path, case: cases.Case) -> Case:
    """Read a case to its end; raise a :class:`DataError` that names it where it cannot be trained with."""
    image_file, label_file = Path(case["image"]), Path(case["label"])
    (voxels, placed), (marked, label_placed) = _read(image_file), _read(label_file)
    if voxels.shape != (*marked.shape, CHANNELS) or marked.ndim != 3:
        raise DataError(f"{image_file}: {voxels.shape} voxels, its label {marked.shape}; an image has {CHANNELS} channels more")
    if not np.isfinite(voxels).all() or not set(np.unique(marked)) <= LABELS:
        raise DataError(f"{image_file}: voxels that are not numbers, or labels other than 0 to 3; repair or remove it")
    if not np.allclose(placed, label_placed, rtol=0, atol=_PLACED_MM):
        raise DataError(f"{label_file}: lies elsewhere than its image, by its affine; resample it to its image, or remove both")
    if (largest := max(abs(float(voxels.max())), abs(float(voxels.min())))) > _LARGEST:
        raise DataError(
            f"{image_file}: voxels up to {largest:g}, above half precision's {_LARGEST:g}; scale them, or remove it"
        )
    if min(sides := cases.read_sides(case)) < cases.HALVED:
        raise DataError(
            f"{image_file}: {sides} voxels of 1 mm, too thin for the network, which needs {cases.HALVED}; remove it"
        )
    return Case(
        name=image_file.name.removesuffix(".nii.gz"),
        image=str(image_file.relative_to(folder)),
        label=str(label_file.relative_to(folder)),
        image_sha256=sha256_of(image_file),
        label_sha256=sha256_of(label_file),
        shape=marked.shape,
        spacing_mm=tuple(float(one) for one in nibabel.affines.voxel_sizes(label_placed)),
        foreground_voxels=int(np.count_nonzero(marked)),
    )


def _read(file: Path) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return a file's voxels, real numbers, and its affine."""
    part = Path(file.parent.name, file.name)  # an image and its label have one name
    try:
        image = nibabel.Nifti1Image.from_filename(file)
        voxels = np.asanyarray(image.dataobj)
    except Exception as error:  # nibabel raises whatever a damaged file leads to
        raise DataError(f"{part}: cannot be read ({str(error).splitlines()[0]:.100}); get it again") from None
    if voxels.dtype.kind not in "iuf":
        raise DataError(f"{part}: voxels of type {voxels.dtype}; write integers or floats")
    told_mm, apart_mm = image.header.get_zooms()[:3], nibabel.affines.voxel_sizes(image.affine)
    if not np.allclose(told_mm, apart_mm, rtol=0, atol=_PLACED_MM) or np.isnan(io_orientation(image.affine)).any():
        raise DataError(f"{part}: its header's spacing and its affine disagree, or are not sizes; write both again")
    return voxels, image.affine
