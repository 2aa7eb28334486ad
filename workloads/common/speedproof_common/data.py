"""What workloads' data have in common: keys that say where they come from, stand-ins made once, `dataset.json` written last."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError, model_validator

from speedproof.api import (
    Case,
    ConfigError,
    DataError,
    Dataset,
    Folder,
    Model,
    check_free_space,
    describe_problem,
    fetch_unpacked,
    find_entry,
    make_once,
    name_folder,
    write_json,
)

_ROOM = 3  # of a download: the archive, and its files, of which small ones take whole blocks of the disk


class StandIn(Model):
    """What a stand-in is asked for."""

    def estimate_bytes(self) -> int:
        """Return about how much room it takes."""
        raise NotImplementedError


class Source(Model):
    """Where data come from; a workload's `data` of the configuration has these keys, and `stand_in`, besides its own."""

    registry: ClassVar[Path]

    source: Literal["download", "local", "stand_in"] = Field("download", description="The registry's, a folder, or synthetic")
    folder: Folder = Field("data", description="Where what is fetched or made is kept, relative to the working folder")
    registry_entry: str = Field(description="The registry's entry: what is downloaded, or what a local folder holds")
    local_folder: Folder | None = Field(None, description="A folder of yours (`local`)")
    stand_in: StandIn

    @model_validator(mode="after")
    def _local_needs_a_folder(self) -> "Source":
        if self.source == "local" and not self.local_folder:
            raise ValueError(f"source `local` needs `local_folder`: {self.describe_layout()}")
        return self

    def describe_layout(self) -> str:
        """Return what a local folder is."""
        raise NotImplementedError

    def describe_needs(self) -> dict[str, Any]:
        """Return what a configuration needs for these data: folders, a download, room.

        Raises :class:`DataError`: the registry has no such entry.
        """
        download_mib = find_entry(self.registry, self.registry_entry).expected_mib if self.source == "download" else 0
        made_mib = self.stand_in.estimate_bytes() / 2**20 if self.source == "stand_in" else 0.0
        return {
            "dataset": self.source,
            "folders": {"data.folder": self.folder, "data.local_folder": self.local_folder or ""},
            "download_mib": download_mib,
            "data_mib": _ROOM * download_mib + made_mib,
        }


DataKind = TypeVar("DataKind", bound=BaseModel)


@dataclass(frozen=True)
class Found:
    """Data that are there: in which folder, and what they are called."""

    folder: Path
    name: str
    version: str = "unknown"
    licence: str = "unknown"


def check_source(kind: type[DataKind], values: Any, origin: str) -> DataKind:
    """Return a configuration's `data`, or raise a :class:`ConfigError` that names `origin` and the key."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"{origin}: data.{describe_problem(error, kind)}") from None


def complete_source(kind: type[Source], values: dict[str, Any], origin: str) -> dict[str, Any]:
    """Return a configuration with what its `data` need: folders, a download, room.

    Raises:
        ConfigError: `data` cannot be understood; the text names `origin` and the key.
        DataError: the registry has no such entry.
    """
    data = check_source(kind, values.get("data", {}), origin)
    completed = {**values["completed"], **data.describe_needs()}
    return {**values, "data": data.model_dump(mode="json"), "completed": completed}


def download(data: Source) -> Found:
    """Fetch what the registry's entry names, unless it is there."""
    entry = find_entry(data.registry, data.registry_entry)
    return Found(fetch_unpacked(entry, Path(data.folder)), entry.title, entry.version, entry.licence)


def find_local(data: Source) -> Found:
    """Return a folder of the user's own, by its name."""
    folder = Path(data.local_folder or "")
    return Found(folder, folder.resolve().name)


def make_stand_in_once(
    place: Path, asked: Mapping[str, str | int], room_bytes: int, made_by: ModuleType, fill: Callable[[Path], None]
) -> Path:
    """Return a stand-in's folder; make it again if it was `asked` otherwise, or if the module's source has changed."""

    def fill_with_room(empty: Path) -> None:
        check_free_space(empty, room_bytes, "the stand-in")
        fill(empty)

    recipe = hashlib.sha256(Path(str(made_by.__file__)).read_bytes()).hexdigest()[:16]
    return make_once(place, {**asked, "recipe": recipe}, fill_with_room)


def write_dataset(
    data: Source, out: Path, find: Callable[[], Found], read: Callable[[Path], str | list[Case]], *problems: type[Exception]
) -> Dataset:
    """Find, fetch or make data, `read` them to a digest of their content or their cases, and write `out` (`dataset.json`) last.

    Whatever goes wrong, `problems` of the workload's own among it, is a :class:`DataError`.
    """
    try:
        found = find()
        content = read(found.folder)
        dataset = Dataset(
            source=data.source,
            name=found.name,
            version=found.version,
            licence=found.licence,
            synthetic=data.source == "stand_in",
            folder=name_folder(found.folder, out),
            cases=content if isinstance(content, list) else [],
            content_sha256=content if isinstance(content, str) else None,
        )
        write_json(out, dataset)
    except problems as error:
        raise DataError(str(error)) from None
    except OSError as error:
        raise DataError(f"{error.filename or data.folder}: {error.strerror}; check the disk, or set `data.folder`") from None
    return dataset
