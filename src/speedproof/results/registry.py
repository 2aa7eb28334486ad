"""A registry of what can be downloaded: a YAML file of names and entries, as workloads have one."""

from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from speedproof.util.errors import DataError
from speedproof.util.yaml_input import read_yaml


class Entry(BaseModel):
    """One published archive: its address, checksum and licence."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str = Field(pattern=r"^\w[\w.-]*$")  # it names a folder
    title: str
    version: str
    url: str = Field(pattern=r"^https?://[^/]+/.*\.(tar(\.\w+)?|zip)$")
    md5: str | None = Field(None, pattern=r"^[0-9a-f]{32}$")
    sha256: str | None = Field(None, pattern=r"^[0-9a-f]{64}$")
    size_bytes: int | None = Field(gt=0, le=2**50, description="Of the archive; null: not published")
    expected_mib: int = Field(gt=0, le=2**30, description="About how large the archive is, to say what a download will cost")
    licence: str
    page: str = Field(description="Where the publisher describes it")

    @model_validator(mode="after")
    def _one_checksum_decides(self) -> "Entry":
        if (self.md5 is None) == (self.sha256 is None):
            raise ValueError("give the archive's `md5` or its `sha256`")
        return self

    @property
    def checksum(self) -> tuple[str, str]:
        """Return by which algorithm the archive is known to be whole, as hashlib calls it, and the digest."""
        return ("md5", self.md5) if self.md5 is not None else ("sha256", str(self.sha256))

    @property
    def archive(self) -> str:
        return PurePosixPath(urlsplit(self.url).path).name


def read_registry(path: Path) -> dict[str, Entry]:
    """Return the registry's entries by name; raise a :class:`DataError` that names the file and the key of a mistake."""
    entries = read_yaml(path)
    if not isinstance(entries, dict) or not all(isinstance(fields, dict) for fields in entries.values()):
        raise DataError(f"{path}: must be a mapping of names to entries")
    return {name: _read_entry(path, name, fields) for name, fields in entries.items()}


def _read_entry(path: Path, name: str, fields: dict[str, Any]) -> Entry:
    try:
        return Entry.model_validate({**fields, "name": name})
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in (name, *problem["loc"]))
        raise DataError(f"{path}: {where}: {problem['msg']} (given: {problem['input']!r:.60})") from None


def find_entry(path: Path, name: str) -> Entry:
    """Return the entry `name` of a registry, or raise a :class:`DataError` that lists those there are."""
    entries = read_registry(path)
    if name not in entries:
        known = ", ".join(sorted(entries))
        raise DataError(f"data.registry_entry: no dataset `{name}` in the registry; choose one of {known}")
    return entries[name]
