"""Folders of volumes that are either whole or not there: a marker, written last, says what is in them."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from speedproof.errors import DataError
from speedproof.records.files import write_json

MARKER_FILE = ".speedproof.json"

Marker = dict[str, str | int]


def holds(folder: Path, marker: Marker) -> bool:
    """Return whether `folder` is finished and was made from exactly what `marker` says."""
    return _read_marker(folder) == marker


@contextmanager
def making(folder: Path, marker: Marker) -> Iterator[Path]:
    """Yield an empty folder to fill; when the block ends well it becomes `folder`, with its marker, else it is removed.

    An older `folder` is replaced if it has a marker. One without is not ours: a :class:`DataError`.
    """
    if folder.exists() and _read_marker(folder) is None:
        raise DataError(f"{folder}: exists, but speedproof did not make it; move it away, or use it: `data.source: local`")
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # of a run that was killed
    unfinished.mkdir(parents=True)
    try:
        yield unfinished
        write_json(unfinished / MARKER_FILE, marker)
        shutil.rmtree(folder, ignore_errors=True)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def check_free_space(folder: Path, needed_bytes: int, purpose: str) -> None:
    """Raise a :class:`DataError` where the disk that `folder` lies on has too little room."""
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < needed_bytes:
        raise DataError(
            f"{folder}: {purpose} needs {needed_bytes / 2**20:,.0f} MiB, the disk has {free_bytes / 2**20:,.0f} MiB free; "
            "make room, or set `data.folder` to another disk"
        )


def _read_marker(folder: Path) -> object:
    try:
        return json.loads((folder / MARKER_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
