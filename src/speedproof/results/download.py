"""Downloads that resume, and are used only after their checksum matches.

A partial download is `<archive>.part`; `<archive>.part.version` holds the version it belongs to (the server's ETag or date).
The rest is requested only on condition that the server still offers that version.
"""

import hashlib
import lzma
import os
import shutil
import stat
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

import requests

from speedproof.results.complete_folders import Marker, check_free_space, make_once, open_own
from speedproof.results.files import write_text
from speedproof.results.registry import Entry
from speedproof.util.errors import DataError
from speedproof.util.progress_bar import report_progress


@dataclass(frozen=True)
class _Member:
    """A member of an archive, whichever kind that is."""

    name: str
    size: int
    is_folder: bool
    is_plain: bool  # a file that is all there, and not a link or a device
    open: Callable[[], IO[bytes] | None]


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive's files into `folder`, without its own top folder and without the `._*` files that a Mac adds.

    It is a tar archive, or a ZIP archive where its name ends so. Raises a :class:`DataError` for an archive that cannot be
    read, and for a member that would leave `folder`, or that is neither a file nor a folder. Of a file that stands twice the
    later one counts. Owners, rights and times are not taken over.
    """
    unpacked = folder / ".unpacked"
    try:
        with _reading(archive) as members:
            files = _list_files(archive, members)
            check_free_space(folder, sum(member.size for member in files.values()), f"unpacking {archive.name}")
            for place, member in files.items():
                _write_file(member, unpacked / place)
    except (
        tarfile.TarError,
        zipfile.BadZipFile,
        RuntimeError,  # packed in a way that Python cannot read, or behind a password; or names nested too deep
        EOFError,
        OSError,
        zlib.error,
        lzma.LZMAError,
        ValueError,
        ArithmeticError,
        MemoryError,  # a header says how long it is, and may lie
    ) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk's; damaged gzip and bzip2 archives have no number
        # Without a line for each compression that was tried; running out of memory has no words of its own.
        problem = str(error).partition(":\n")[0] or "a header longer than memory"
        raise DataError(f"{archive}: not a readable {_kind(archive)} archive ({problem}); delete it and run again") from None
    tops = list(unpacked.iterdir())
    top = tops[0] if len(tops) == 1 and tops[0].is_dir() else unpacked
    for child in top.iterdir():
        child.rename(folder / child.name)
    shutil.rmtree(unpacked)


def _kind(archive: Path) -> str:
    return "ZIP" if archive.suffix.lower() == ".zip" else "tar"


@contextmanager
def _reading(archive: Path) -> Iterator[Iterator[_Member]]:
    if _kind(archive) == "ZIP":
        with zipfile.ZipFile(archive) as packed:
            yield (_of_zip(packed, member) for member in packed.infolist())
    else:
        with tarfile.open(archive) as tar:
            yield (_of_tar(tar, member) for member in tar)


def _of_tar(tar: tarfile.TarFile, member: tarfile.TarInfo) -> _Member:
    # A link may lead anywhere, a sparse file claims any size, and one of a size below 0 would be read for ever.
    is_plain = member.isreg() and not member.issparse() and member.size >= 0
    return _Member(member.name, member.size, member.isdir(), is_plain, lambda: tar.extractfile(member))


def _of_zip(packed: zipfile.ZipFile, member: zipfile.ZipInfo) -> _Member:
    kind = stat.S_IFMT(member.external_attr >> 16)  # 0 where the archive was made without kinds of files
    return _Member(member.filename, member.file_size, member.is_dir(), kind in (0, stat.S_IFREG), lambda: packed.open(member))


def _list_files(archive: Path, members: Iterator[_Member]) -> dict[PurePosixPath, _Member]:
    """Return the files of an archive by where they land; folders follow from these."""
    files: dict[PurePosixPath, _Member] = {}
    for member in members:
        place = PurePosixPath(member.name.lstrip("/"))
        is_plain = member.is_folder or (member.is_plain and bool(place.parts))
        if ".." in place.parts or "\0" in member.name or not is_plain:
            raise DataError(f"{archive}: {member.name} would land outside the folder or is not a regular file; do not use it")
        if not member.is_folder and not place.name.startswith("._"):
            files[place] = member
    if not files:
        raise tarfile.ReadError("nothing is in it")
    for place in files:
        if any(parent in files for parent in place.parents):
            raise tarfile.ReadError(f"{place} lies in a file")
    return files


def _write_file(member: _Member, path: Path) -> None:
    content = member.open()
    assert content is not None  # it is a file
    path.parent.mkdir(parents=True, exist_ok=True)
    with content, path.open("xb") as file:
        shutil.copyfileobj(content, file)
    if path.stat().st_size != member.size:
        raise tarfile.ReadError("unexpected end of data")


ATTEMPTS = 5  # in a row that bring nothing
CHUNK_BYTES = 1 << 18  # a broken connection loses no more than this
TIMEOUT_S = (10, 60)  # to connect, and between two chunks
WAY_OUT = "or get and unpack it by other means and set `data.source: local`"


@dataclass(frozen=True)
class _Part:
    """What arrived so far of an archive, and which version of it that is."""

    file: Path

    @property
    def note(self) -> Path:
        return self.file.with_name(f"{self.file.name}.version")

    @property
    def size_bytes(self) -> int:
        return self.file.stat().st_size if self.file.exists() else 0

    @property
    def version(self) -> str:
        """The version; empty if unknown, so that the download cannot resume."""
        return self.note.read_text(encoding="utf-8") if self.size_bytes and self.note.exists() else ""

    def remove(self) -> None:
        self.file.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)


class _InterruptedError(Exception):
    """The connection failed in a way that may pass."""


def fetch_unpacked(entry: Entry, folder: Path) -> Path:
    """Return the folder below `folder` that holds what is in `entry`'s archive: downloaded and unpacked unless it is there.

    Raises a :class:`DataError` as :func:`fetch_archive` and :func:`speedproof.results.download.unpack` do.
    """
    algorithm, digest = entry.checksum
    marker: Marker = {"name": entry.name, algorithm: digest}
    return make_once(folder / entry.name, marker, lambda empty: unpack(fetch_archive(entry, folder), empty))


def fetch_archive(entry: Entry, folder: Path, *, wait_s: float = 1.0) -> Path:
    """Return the path of `entry`'s archive in `folder`, downloaded if it is not there, its size and checksum checked.

    A connection that breaks is taken up where it broke, after `wait_s` seconds and each further time twice as many. Raises
    a :class:`DataError` where the server cannot be reached, offers another file, or the disk has too little room.
    """
    archive = folder / entry.archive
    if not archive.exists():
        folder.mkdir(parents=True, exist_ok=True)
        part = _Part(archive.with_name(f"{archive.name}.part"))
        _download(entry, part, wait_s)
        part.file.replace(archive)
        part.remove()
    _check_archive(entry, archive)
    return archive


def _download(entry: Entry, part: _Part, wait_s: float) -> None:
    failures = 0
    while True:
        before = part.size_bytes
        try:
            return _download_rest(entry, part)
        except _InterruptedError as error:
            failures = failures + 1 if part.size_bytes <= before else 1
            if failures >= ATTEMPTS:
                kept = f" (the {part.size_bytes:,} bytes that came are kept)" if part.size_bytes else ""
                raise DataError(f"{entry.url}: {error}; try again later{kept}, {WAY_OUT}") from None
            time.sleep(wait_s * 2 ** (failures - 1))


def _download_rest(entry: Entry, part: _Part) -> None:
    """Ask once for what is missing and append it."""
    headers = {"Accept-Encoding": "identity"}
    if part.version:
        headers |= {"Range": f"bytes={part.size_bytes}-", "If-Range": part.version}
    try:
        with requests.get(entry.url, headers=headers, stream=True, timeout=TIMEOUT_S) as response:
            if response.headers.get("Content-Range") == f"bytes */{part.size_bytes}":
                return  # nothing is missing
            if response.status_code == requests.codes.requested_range_not_satisfiable:
                part.remove()
                raise _InterruptedError("more is here than the server has")
            _check_status(entry, response)
            if not _continues(response, part):
                part.remove()
                if response.status_code == requests.codes.partial_content:
                    raise _InterruptedError("the server sent another part than the one that is missing")
            _receive(entry, part, response)
    except requests.RequestException as error:
        raise _InterruptedError(_in_short(error)) from None


def _check_status(entry: Entry, response: requests.Response) -> None:
    if response.ok:
        return
    problem = f"the server answered {response.status_code} ({response.reason})"
    if response.status_code >= 500 or response.status_code == requests.codes.too_many_requests:
        raise _InterruptedError(problem)
    raise DataError(f"{entry.url}: {problem}; check the address, {WAY_OUT}")


def _continues(response: requests.Response, part: _Part) -> bool:
    """Return whether the answer is the rest of what is here: a server may start over, or offer another file by now."""
    starts_here = response.headers.get("Content-Range", "").startswith(f"bytes {part.size_bytes}-")
    return response.status_code == requests.codes.partial_content and starts_here and _version(response) == part.version


def _receive(entry: Entry, part: _Part, response: requests.Response) -> None:
    have = part.size_bytes
    if "Content-Length" not in response.headers:
        raise DataError(f"{entry.url}: the server does not report the file's size; try again later, {WAY_OUT}")
    if response.headers.get("Content-Encoding", "identity") != "identity":  # it would be unpacked, to any length
        raise DataError(f"{entry.url}: the server compresses the file again; try again later, {WAY_OUT}")
    total = have + _read_length(entry, response)
    if entry.size_bytes not in (None, total):
        part.remove()
        raise DataError(f"{entry.url}: the server offers {total:,} bytes, not {entry.size_bytes:,}; try later, {WAY_OUT}")
    check_free_space(part.file.parent, total - have, entry.archive)
    write_text(part.note, _version(response))
    with (
        os.fdopen(open_own(part.file, os.O_APPEND), "ab") as file,
        report_progress(entry.archive, total, "bytes", have) as advance,
    ):
        for chunk in response.iter_content(CHUNK_BYTES):
            file.write(chunk)
            advance(len(chunk))


def _read_length(entry: Entry, response: requests.Response) -> int:
    said = response.headers["Content-Length"]
    if not (said.isascii() and said.isdigit() and len(said) < 16):
        raise DataError(f"{entry.url}: the server reports a size of {said[:30]!r} bytes; try again later, {WAY_OUT}")
    return int(said)


def _version(response: requests.Response) -> str:
    """Return what tells versions of a file apart. A weak ETag does not: it stays the same while bytes change."""
    tag = response.headers.get("ETag", "")
    return response.headers.get("Last-Modified", "") if tag.startswith("W/") or not tag else tag


def _check_archive(entry: Entry, archive: Path) -> None:
    algorithm, right = entry.checksum
    with archive.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()
    if found != right:
        archive.unlink()
        raise DataError(f"{archive}: corrupted ({algorithm.upper()} {found}, not {right}) and removed; run again, {WAY_OUT}")


def _in_short(error: requests.RequestException) -> str:
    if isinstance(error, requests.ConnectTimeout | requests.ReadTimeout):
        return "no answer in time"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection broke"
    return "not reachable" if isinstance(error, requests.ConnectionError) else " ".join(str(error).split())
