"""Downloads that go on where they stopped and are trusted only once their checksum is right.

What arrived lies in `<archive>.part`, beside `<archive>.part.version`, which says what it is a part of (the server's ETag or
date). The server is asked for the rest only on condition that it still offers that version.
"""

import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

import requests

from speedproof.results.complete_folders import Marker, check_free_space, make_once, open_own
from speedproof.results.files import write_text
from speedproof.results.registry import Entry
from speedproof.results.unpack import unpack
from speedproof.util.errors import DataError
from speedproof.util.progress_bar import report_progress

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
        """The version; empty where it is not known, so that nothing can be added."""
        return self.note.read_text(encoding="utf-8") if self.size_bytes and self.note.exists() else ""

    def remove(self) -> None:
        self.file.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)


class _InterruptedError(Exception):
    """The connection failed in a way that may pass."""


def fetch_unpacked(entry: Entry, folder: Path) -> Path:
    """Return the folder below `folder` that holds what is in `entry`'s archive: downloaded and unpacked unless it is there.

    Raises a :class:`DataError` as :func:`fetch_archive` and :func:`speedproof.results.unpack.unpack` do.
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
        raise DataError(f"{entry.url}: the server does not say how long the file is; try again later, {WAY_OUT}")
    if response.headers.get("Content-Encoding", "identity") != "identity":  # it would be unpacked, to any length
        raise DataError(f"{entry.url}: the server sends the file packed once more; try again later, {WAY_OUT}")
    total = have + _read_length(entry, response)
    if entry.size_bytes not in (None, total):
        part.remove()
        raise DataError(f"{entry.url}: the server offers {total:,} bytes, {entry.size_bytes:,} are right; try later, {WAY_OUT}")
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
        raise DataError(f"{entry.url}: the server says that the file has {said[:30]!r} bytes; try again later, {WAY_OUT}")
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
        raise DataError(
            f"{archive}: corrupted ({algorithm.upper()} {found}, {right} is right) and removed; run again, {WAY_OUT}"
        )


def _in_short(error: requests.RequestException) -> str:
    if isinstance(error, requests.ConnectTimeout | requests.ReadTimeout):
        return "no answer in time"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection broke"
    return "not reachable" if isinstance(error, requests.ConnectionError) else " ".join(str(error).split())
