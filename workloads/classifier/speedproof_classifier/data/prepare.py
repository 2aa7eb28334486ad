"""The first step of the workflow: images that are there, and the `dataset.json` that says so."""

import hashlib
import os
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from speedproof.common.errors import ConfigError, DataError
from speedproof.config.base import Folder, Model
from speedproof.config.problems import describe_problem
from speedproof.fetch.download import fetch_unpacked
from speedproof.fetch.folders import Marker, check_free_space, make_once
from speedproof.fetch.registry import find_entry
from speedproof.records.dataset import Dataset, name_folder
from speedproof.records.files import write_json
from speedproof_classifier.data import REGISTRY, stand_in
from speedproof_classifier.data.stand_in import StandIn, make_stand_in
from speedproof_classifier.folder import FolderError, list_images


class Data(Model):
    """Where the images come from: `data` of the configuration."""

    source: Literal["download", "local", "stand_in"] = Field("download", description="The registry's, a folder, or synthetic")
    folder: Folder = Field("data", description="Where downloads and stand-ins are kept, relative to the working folder")
    registry_entry: str = Field("tiny_imagenet_200", description="The registry's entry to download")
    local_folder: Folder | None = Field(None, description="A folder with train/ and val/ (`local`)")
    stand_in: StandIn = StandIn()

    @model_validator(mode="after")
    def _local_needs_a_folder(self) -> "Data":
        if self.source == "local" and not self.local_folder:
            raise ValueError("source `local` needs `local_folder`, a folder with train/ and val/")
        return self


def check_data(values: Any, origin: str) -> Data:
    """Return a configuration's `data`, or raise a :class:`ConfigError` that names `origin` and the key."""
    try:
        return Data.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"{origin}: data.{describe_problem(error, Data)}") from None


def complete(values: dict[str, Any], origin: str) -> dict[str, Any]:
    """Return a configuration with what its `data` need: folders, a download, room.

    Raises:
        ConfigError: `data` cannot be understood; the text names `origin` and the key.
        DataError: the registry has no such entry.
    """
    data = check_data(values.get("data", {}), origin)
    download_mib = find_entry(REGISTRY, data.registry_entry).expected_mib if data.source == "download" else 0
    made_mib = data.stand_in.estimate_bytes() / 2**20 if data.source == "stand_in" else 0.0
    needs = {
        "dataset": data.source,
        "folders": {"data.folder": data.folder, "data.local_folder": data.local_folder or ""},
        "download_mib": download_mib,
        "data_mib": 3 * download_mib + made_mib,  # small files take whole blocks of the disk
    }
    return {**values, "data": data.model_dump(mode="json"), "completed": {**values["completed"], **needs}}


def prepare_dataset(data: Data, out: Path, *, workers: int | None = None) -> Dataset:
    """Fetch or make the images that `data` asks for, read every file once, and write `out` (`dataset.json`) last.

    What is there already is neither fetched nor made again. Whatever goes wrong is a :class:`DataError`.
    """
    try:
        dataset = _prepare(data, out, workers)
        write_json(out, dataset)
    except FolderError as error:
        raise DataError(str(error)) from None
    except OSError as error:
        raise DataError(f"{error.filename or data.folder}: {error.strerror}; check the disk, or set `data.folder`") from None
    return dataset


def _prepare(data: Data, out: Path, workers: int | None) -> Dataset:
    if data.source == "download":
        entry = find_entry(REGISTRY, data.registry_entry)
        folder = fetch_unpacked(entry, Path(data.folder))
        name, version, licence = entry.title, entry.version, entry.licence
    elif data.source == "stand_in":
        folder = _make_once(data.stand_in, Path(data.folder), workers)
        images = f"{data.stand_in.images} JPEGs of {data.stand_in.pixels}×{data.stand_in.pixels}"
        name, version, licence = "Tiny ImageNet stand-in", f"{images}, seed {data.stand_in.seed}", "Apache-2.0"
    else:
        folder = Path(data.local_folder or "")
        name, version, licence = folder.resolve().name, "unknown", "unknown"
    return Dataset(
        source=data.source,
        name=name,
        version=version,
        licence=licence,
        synthetic=data.source == "stand_in",
        folder=name_folder(folder, out),
        content_sha256=digest_content(folder),
    )


def _make_once(asked: StandIn, folder: Path, workers: int | None) -> Path:
    def fill(empty: Path) -> None:
        check_free_space(empty, asked.estimate_bytes(), f"the stand-in of {asked.images:,} images")
        make_stand_in(empty, asked, workers)

    recipe = hashlib.sha256(Path(stand_in.__file__).read_bytes()).hexdigest()[:16]
    marker: Marker = {**asked.model_dump(), "recipe": recipe}
    digest = hashlib.sha256(asked.model_dump_json().encode()).hexdigest()[:8]
    return make_once(folder / f"tiny-imagenet-stand-in-{digest}", marker, fill)


def digest_content(folder: Path) -> str:
    """Return a digest of names and contents of all images, and of what says which class each is of.

    Raises:
        FolderError: `train` or `val` has no images, or one whose class is not known.
    """
    digest = hashlib.sha256()
    parts = [part for part in ("train", "val", "test") if part != "test" or (folder / part).is_dir()]
    classes = list_images(folder / "train").classes
    for part in parts:
        images = list_images(folder / part, classes if part == "val" else None)
        for path, label in zip(images.paths, images.labels, strict=True):
            digest.update(f"{os.path.relpath(path, folder)}\0{label}\0".encode())
            digest.update(hashlib.sha256(Path(path).read_bytes()).digest())
    return digest.hexdigest()
