"""Published programs: files of a repository at one commit, fetched or taken from a folder, and trusted by their digests."""

import hashlib
from pathlib import Path, PurePosixPath
from typing import Annotated

import requests
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from speedproof.results.complete_folders import Marker, make_once
from speedproof.results.download import TIMEOUT_S
from speedproof.results.files import digest_of
from speedproof.util.errors import DataError
from speedproof.util.yaml_input import read_yaml

MOST_BYTES = 2**22  # of a program's text
_RAW = "https://raw.githubusercontent.com"
_WAY_OUT = "get the repository by other means and name its folder"


def _check_path(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\0" in path or path != str(PurePosixPath(path)):
        raise ValueError(f"{path!r:.60} is not a path inside a repository")
    return path


class Published(BaseModel):
    """Files of a public repository at one commit."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    repository: str = Field(pattern=r"^https://github\.com/[\w.-]+/[\w.-]+$")
    commit: str = Field(pattern=r"^[0-9a-f]{40}$")
    licence: str
    files: dict[Annotated[str, AfterValidator(_check_path)], Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]] = Field(
        min_length=1, description="SHA-256 of each file by its path in the repository"
    )


def find_published(path: Path, name: str) -> Published:
    """Return an entry of a file such as `examples/published.yaml`; raise :class:`DataError` if it is missing or wrong."""
    entries = read_yaml(path)
    if not isinstance(entries, dict) or name not in entries:
        raise DataError(f"{path}: no programs `{name}`; correct the name, or add them")
    try:
        return Published.model_validate(entries[name])
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in (name, *problem["loc"]))
        raise DataError(f"{path}: {where}: {problem['msg']}; correct it") from None


def take_published(published: Published, folder: Path) -> Path:
    """Return the user's folder of published files; raise :class:`DataError` if one of them differs."""
    for name, digest in published.files.items():
        try:
            found = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        except OSError as error:
            raise DataError(f"{folder / name}: {error.strerror}; get {published.repository} at {published.commit}") from None
        _check(folder / name, found, digest)
    return folder


def fetch_published(published: Published, folder: Path, raw: str = _RAW) -> Path:
    """Return the folder below `folder` that holds the published files, fetched unless they are there; `raw` serves them.

    Raises :class:`DataError`: one cannot be fetched, or is another than was published.
    """
    _, owner, name = published.repository.rsplit("/", 2)
    marker: Marker = {"commit": published.commit, "files": digest_of(published.files)}

    def fill(empty: Path) -> None:
        for path, digest in published.files.items():
            content = _download(f"{raw}/{owner}/{name}/{published.commit}/{path}")
            _check(Path(path), hashlib.sha256(content).hexdigest(), digest)
            (empty / path).parent.mkdir(parents=True, exist_ok=True)
            (empty / path).write_bytes(content)

    # What was fetched once may have been edited since.
    return take_published(published, make_once(folder / f"{name}-{published.commit[:12]}", marker, fill))


def _download(url: str) -> bytes:
    try:
        with requests.get(url, timeout=TIMEOUT_S, stream=True) as response:
            if not response.ok:
                raise DataError(f"{url}: the server answered {response.status_code} ({response.reason}); {_WAY_OUT}")
            content = b""
            for piece in response.iter_content(2**16):
                content += piece
                if len(content) > MOST_BYTES:
                    raise DataError(f"{url}: more than {MOST_BYTES:,} bytes, which no program's text has; {_WAY_OUT}")
            return content
    except requests.RequestException:
        raise DataError(f"{url}: not reachable; {_WAY_OUT}") from None


def _check(path: Path, found: str, right: str) -> None:
    if found != right:
        raise DataError(f"{path}: is not the published file (SHA-256 {found:.12}…, not {right:.12}…); get that commit's")
