"""What goes wrong for a user: one line that says what, where and what to do, and an exit code that means something.

Besides those below: 0 done; 1 a problem that the doctor found, or nobody reads the output any more; 2 a command line that
cannot be understood; 130 interrupted (Ctrl-C).
"""

import errno
import os
import shutil
import sys
from collections.abc import Iterable
from copy import copy
from pathlib import Path
from typing import Self

from speedproof.util.text import printable, shorten
from speedproof.util.units import MIB


class SpeedproofError(Exception):
    """A user's problem. Its text is one line: what is wrong, where, and what to do about it."""

    exit_code = 1

    def __init__(self, *parts: object) -> None:
        """Take the line, or its parts, and make it short enough and printable, whatever stands in the names that it quotes.

        A path that is a part of its own can be renamed later: :meth:`moved`.
        """
        super().__init__(shorten(printable("".join(map(str, parts)))))
        self.parts = parts

    def moved(self, old: Path, new: Path) -> Self:
        """Return the same error about a file that the user knows as `new`, and that was read or written as `old`."""
        renamed = copy(self)
        SpeedproofError.__init__(renamed, *(_rename(part, old, new) for part in self.parts))
        return renamed


def _rename(part: object, old: Path, new: Path) -> object:
    return new / part.relative_to(old) if isinstance(part, Path) and part.is_relative_to(old) else part


def advise_install(extra: str) -> str:
    """Return how to install the packages of an extra of `pyproject.toml`: no package index has speedproof."""
    return f"in the repository of speedproof: {sys.executable} -m pip install '.[{extra}]'"


class ConfigError(SpeedproofError):
    """The configuration does not say what to do: an unknown key, a wrong type, an unknown name."""

    exit_code = 2


class DataError(SpeedproofError):
    """A dataset that cannot be fetched, read or trusted."""

    exit_code = 3


class ProfilingError(SpeedproofError):
    """A profiler that is missing, failed, or recorded nothing."""

    exit_code = 4


class LostTraceError(ProfilingError):
    """A profiler that works, but lost what this run did: no reason why it should again."""


class BusyError(SpeedproofError):
    """Another experiment works in the same folder, or measures on the same device."""

    exit_code = 7


class TrainingError(SpeedproofError):
    """A training process that did not end well: not a number, out of memory, a stop signal, a dead worker."""

    exit_code = 5


class RecordError(SpeedproofError):
    """A run record, experiment or trace that is missing, half written, or of a schema this version cannot read."""

    exit_code = 6


class TamperedError(RecordError):
    """A program changed what its outcome rests on: sources, or the files of runs that ended."""

    def __init__(self, text: object = "", changed: Iterable[Path] = ()) -> None:
        super().__init__(text)
        self.changed = list(changed)


class StorageError(SpeedproofError):
    """What the system does not let be read or written: a full disk, no permission, a folder in a file's place."""

    exit_code = 8


_FULL = {errno.ENOSPC, errno.EDQUOT}


def explain_os_error(error: OSError, path: Path | None = None) -> StorageError:
    """Return what the system refused as an error for people; `path` is what was written, where `error` does not name it."""
    place = path or (Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else None)
    named = "" if place is None else f"{place}: "
    why = (error.strerror or str(error)).lower()
    match error.errno:
        case code if code in _FULL:
            room = _describe_room(place)
            return StorageError(f"{named}the disk is full, no space is left{room}; make room there, or choose another folder")
        case errno.EROFS:
            return StorageError(f"{named}cannot be written: the disk is read-only; choose another folder")
        case errno.EACCES | errno.EPERM:
            return StorageError(f"{named}no permission; choose another place, or have its owner allow it")
        case errno.EISDIR:
            return StorageError(f"{named}is a folder where a file belongs; choose another name, or remove it")
        case errno.ENOTDIR | errno.EEXIST:
            return StorageError(f"{named}a file stands where a folder belongs; choose another name, or remove it")
        case errno.ENAMETOOLONG:
            return StorageError(f"{named}the name is too long; choose a shorter one")
        case _:
            return StorageError(f"{named}the system refused it ({why}); see to that, then start again")


def _describe_room(place: Path | None) -> str:
    """Return the folder that `place` would be in, and how much is free there."""
    folder = next((parent for parent in place.absolute().parents if parent.is_dir()), None) if place else None
    if folder is None:
        return ""
    try:
        return f" ({shutil.disk_usage(folder).free / MIB:.0f} MiB free in {folder})"
    except OSError:
        return ""
