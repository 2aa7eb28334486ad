"""Folders of volumes that are either whole or not there: a marker, written last, says what is in them."""

import errno
import fcntl
import json
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from speedproof.results.files import write_json
from speedproof.util.errors import DataError
from speedproof.util.units import MIB

MARKER_FILE = ".speedproof.json"

Marker = dict[str, str | int]


def make_once(folder: Path, marker: Marker, fill: Callable[[Path], None]) -> Path:
    """Return `folder`, filled by `fill` unless it was made from exactly what `marker` says before.

    Of several processes one fills it, the others wait. What `fill` gets is an empty folder, which takes the name when it is
    whole. An older `folder` is replaced if it has a marker. One without is not ours: a :class:`DataError`.
    """
    if not _holds(folder, marker):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            if not _holds(folder, marker):
                with _making(folder, marker) as unfinished:
                    fill(unfinished)
    return folder


def check_free_space(folder: Path, needed_bytes: int, purpose: str) -> None:
    """Raise a :class:`DataError` where the disk that `folder` lies on has too little room."""
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < needed_bytes:
        raise DataError(
            f"{folder}: {purpose} needs {needed_bytes / MIB:,.0f} MiB, the disk has {free_bytes / MIB:,.0f} MiB free; "
            "make room, or set `data.folder` to another disk"
        )


def open_own(path: Path, flags: int = 0) -> int:
    """Open a file to write, and return its descriptor; create it if needed, keep its content.

    Raises a :class:`DataError` for a link, a pipe or a file of two names: whoever may write to the folder could have laid it
    there, so that someone else's file is changed.
    """
    try:
        # Not to wait: a pipe without a reader would be waited for.
        number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | flags, 0o666)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):
            raise
        raise DataError(f"{path}: is not a regular file; remove it, or set `data.folder` to a folder of your own") from None
    status = os.fstat(number)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(number)
        raise DataError(f"{path}: is not a regular file with one name; remove it, or set `data.folder` to a folder of your own")
    return number


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    lock_file = folder.with_name(f".{folder.name}.lock")
    with os.fdopen(open_own(lock_file), "rb") as lock:  # closed, also where a process is killed, it is free
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{folder}: another process is making it; waiting for that", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _making(folder: Path, marker: Marker) -> Iterator[Path]:
    if folder.exists() and _read_marker(folder) is None:
        raise DataError(f"{folder}: exists, but speedproof did not make it; move it away, or use it: `data.source: local`")
    unfinished, outdated = (folder.with_name(f".{folder.name}.{state}") for state in ("unfinished", "outdated"))
    _remove(unfinished, outdated)  # of a run that was killed
    if unfinished.is_symlink():
        raise DataError(f"{unfinished}: is a link; remove it, or set `data.folder` to a folder of your own")
    unfinished.mkdir()
    try:
        yield unfinished
        write_json(unfinished / MARKER_FILE, marker)
        if folder.exists():
            folder.rename(outdated)  # whole: half removed, without its marker, it would not be ours
        unfinished.rename(folder)
    finally:
        _remove(unfinished, outdated)


def _remove(*folders: Path) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _holds(folder: Path, marker: Marker) -> bool:
    return _read_marker(folder) == marker


def _read_marker(folder: Path) -> object:
    try:
        return json.loads((folder / MARKER_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
