"""Names in a record that become paths: what may be one, and the one place that finds the file below a results folder.

A record may come from anybody, so no name in it leads out of its folder: not by what it is, and not by a link that lies there.
"""

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, StringConstraints

from speedproof.util.errors import RecordError

_LONGEST = 255  # bytes, as file systems have it


def _check_name(name: str) -> str:
    if name in ("", ".", "..") or "/" in name or not name.isprintable() or len(name.encode()) > _LONGEST:
        raise ValueError(f"{name!r:.60} is not a name of a file or folder")
    return name


def check_relative_path(path: str) -> str:
    """Return names joined by slashes; raise :class:`ValueError` if one of them is invalid or leads elsewhere."""
    for part in path.split("/"):
        _check_name(part)
    return path


FileName = Annotated[str, AfterValidator(_check_name)]  # of one file or folder
ProfilerName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_.-]{0,63}$")]  # of what recorded a trace
RunTracerName = Literal["nsys", "kineto"]  # a profiler that can trace a run here
RelativePath = Annotated[str, AfterValidator(check_relative_path)]  # names, joined by slashes


def inside(folder: Path, path: str | Path) -> Path:
    """Return `folder / path`, whether or not it is there.

    Raises :class:`RecordError` where that leads out of `folder`, also by a link.
    """
    whole = folder / path
    try:
        root, place = os.path.realpath(folder), os.path.realpath(whole)
    except (OSError, ValueError) as error:
        raise RecordError(f"{whole}: cannot be followed ({error}); remove it, or get the record again") from None
    if place != root and not place.startswith(f"{root.rstrip('/')}/"):
        raise RecordError(f"{whole}: leads out of {folder}; nothing outside of it is read or written; remove it")
    return whole
