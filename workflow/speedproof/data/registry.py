"""The registry of datasets that can be downloaded: `registry.yaml`, beside this file."""

from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field

from speedproof.errors import DataError

REGISTRY = Path(__file__).with_name("registry.yaml")


class Entry(BaseModel):
    """One published archive: where it is, how to know that it is whole, and on what terms it may be used."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    title: str
    version: str
    url: str = Field(pattern=r"^https?://[^/]+/.*\.tar(\.\w+)?$")
    md5: str = Field(pattern=r"^[0-9a-f]{32}$")
    size_bytes: int | None = Field(gt=0, description="Of the archive; null: not published")
    expected_mib: int = Field(gt=0, description="About how large the archive is, to say what a download will cost")
    licence: str
    page: str = Field(description="Where the publisher describes it")

    @property
    def archive(self) -> str:
        """Return the archive's file name."""
        return PurePosixPath(urlsplit(self.url).path).name


def read_registry(path: Path = REGISTRY) -> dict[str, Entry]:
    """Return the registry's entries by name."""
    entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {name: Entry(name=name, **fields) for name, fields in entries.items()}


def find_entry(name: str) -> Entry:
    """Return the entry `name`, or raise a :class:`DataError` that lists those there are."""
    entries = read_registry()
    if name not in entries:
        known = ", ".join(sorted(entries))
        raise DataError(f"data.registry_entry: no dataset `{name}` in the registry; choose one of {known}")
    return entries[name]
