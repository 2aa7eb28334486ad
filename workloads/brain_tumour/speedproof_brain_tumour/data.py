"""`python -m speedproof_brain_tumour.data --config FILE --out DATASET_JSON`: volumes that are there, whole and sound."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, Literal

import nibabel
import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from speedproof.common.environment import available_cores
from speedproof.common.errors import ConfigError, DataError, SpeedproofError
from speedproof.config.plain import read_yaml
from speedproof.fetch.download import fetch_unpacked
from speedproof.fetch.folders import check_free_space, make_once
from speedproof.fetch.registry import find_entry
from speedproof.records.dataset import Case, Dataset
from speedproof.records.files import digest_of, sha256_of, write_json
from speedproof_brain_tumour import cases, phantom

REGISTRY = Path(__file__).with_name("registry.yaml")
CHANNELS, LABELS = 4, {0, 1, 2, 3}


class Data(BaseModel):
    """`data` of a configuration."""

    model_config = ConfigDict(extra="forbid")

    source: Literal["msd", "local", "phantom"] = "msd"
    folder: str = "data"
    registry_entry: str = "Task01_BrainTumour"
    local_folder: str | None = None
    size: Literal["tiny", "small", "few", "medium", "full"] = "full"
    seed: Annotated[int, Field(ge=0)] = 0


def check_data(values: Mapping[str, Any]) -> Data:
    """Return `data` of a configuration, or raise a :class:`ConfigError` that names the key."""
    try:
        return Data.model_validate(values)
    except ValidationError as error:
        problem = error.errors()[0]
        raise ConfigError(f"data.{'.'.join(map(str, problem['loc']))}: {problem['msg']}") from None


def prepare(data: Data, out: Path) -> Dataset:
    """Fetch, find or make the volumes, read each to its end, and write `out`.

    Raises :class:`DataError`: there are none, or a case cannot be trained with.
    """
    folder = Path(data.folder)
    named = {"name": folder.name, "version": "unknown", "licence": "unknown"}
    if data.source == "msd":
        entry = find_entry(REGISTRY, data.registry_entry)
        place = fetch_unpacked(entry, folder)
        named = {"name": entry.title, "version": entry.version, "licence": entry.licence}
    elif data.source == "phantom":
        place = _make_phantom_once(data, folder)
        named = {"name": "Brain tumour phantom", "version": f"{data.size}, seed {data.seed}", "licence": "Apache-2.0"}
    elif data.local_folder is None:
        raise ConfigError("data.local_folder: is missing; name a folder in the Decathlon layout")
    else:
        place = Path(data.local_folder)
    dataset = Dataset(
        source=data.source, synthetic=data.source == "phantom", folder=str(place.absolute()), cases=_inspect(place), **named
    )
    write_json(out, dataset)
    return dataset


def _make_phantom_once(data: Data, folder: Path) -> Path:
    volumes, shape = phantom.SIZES[data.size]

    def fill(empty: Path) -> None:
        check_free_space(empty, volumes * int(np.prod(shape)) * 3, f"the phantom `{data.size}`")  # compressed; about 2 a voxel
        phantom.make_phantom(empty, data.size, data.seed, available_cores())

    recipe = digest_of(Path(phantom.__file__).read_text(encoding="utf-8"))
    return make_once(
        folder / f"phantom-{data.size}-{data.seed}", {"size": data.size, "seed": data.seed, "recipe": recipe}, fill
    )


def _inspect(folder: Path) -> list[Case]:
    try:
        listed = cases.list_cases(folder)
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError(
            f"{folder}: no dataset.json that lists `training` cases; give a folder in the Decathlon layout"
        ) from None
    with ThreadPoolExecutor(available_cores()) as pool:
        return list(pool.map(lambda case: _inspect_case(folder, case), listed))


def _inspect_case(folder: Path, case: cases.Case) -> Case:
    """Read a case to its end; raise a :class:`DataError` that names it where it cannot be trained with."""
    image_file, label_file = Path(case["image"]), Path(case["label"])
    try:
        image, label = (nibabel.Nifti1Image.from_filename(file) for file in (image_file, label_file))
        voxels, marked = np.asanyarray(image.dataobj), np.asanyarray(label.dataobj)
    except Exception as error:  # nibabel raises whatever a damaged file leads to
        raise DataError(f"{image_file.name}: cannot be read ({str(error).splitlines()[0]:.100}); get it again") from None
    if voxels.shape != (*marked.shape, CHANNELS) or marked.ndim != 3:
        raise DataError(f"{image_file}: {voxels.shape} voxels, its label {marked.shape}; an image has {CHANNELS} channels more")
    if not np.isfinite(voxels).all() or not set(np.unique(marked)) <= LABELS:
        raise DataError(f"{image_file}: voxels that are no numbers, or labels other than 0 to 3; repair or remove it")
    return Case(
        name=image_file.name.removesuffix(".nii.gz"),
        image=str(image_file.relative_to(folder)),
        label=str(label_file.relative_to(folder)),
        image_sha256=sha256_of(image_file),
        label_sha256=sha256_of(label_file),
        shape=marked.shape,
        spacing_mm=tuple(float(one) for one in label.header.get_zooms()),
        foreground_voxels=int(np.count_nonzero(marked)),
    )


def main(arguments: Sequence[str]) -> int:
    """Prepare what a configuration's `data` asks for."""
    parser = argparse.ArgumentParser(description="Fetch, find or make the volumes, and write dataset.json.")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--log", type=Path)
    asked = parser.parse_args(arguments)
    try:
        prepare(check_data((read_yaml(asked.config) or {}).get("data", {})), asked.out)
    except SpeedproofError as error:
        print(f"speedproof: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
