"""Whatever a profiler left and somebody has, into a trace."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from speedproof.profilers.formats import FORMATS, find_format, find_named, require_format
from speedproof.profilers.trace_format import Conversion, TraceFormat
from speedproof.results.evidence_archive import is_folder
from speedproof.results.experiment import check_vouched
from speedproof.results.trace_tables import TRACE_FILE, TraceInfo
from speedproof.util.errors import RecordError
from speedproof.util.temporary_folder import removable_folder

EXPORTS_FOLDER = "exports"  # beside an analysis: what nsys exported of its reports


def is_input(path: Path) -> bool:
    """Return whether a path is what :func:`convert_input` converts: a folder by its content, a file by its name."""
    return (find_format(path) if path.is_dir() else find_named(path)) is not None


def list_inputs(folder: Path) -> list[Path]:
    """Return a folder's profiles, a rank each, in the order of the numbers in their names.

    A report beside its own export counts once.
    """
    found = {path: kind for path in folder.iterdir() if is_input(path) and (kind := find_format(path))}
    latest: dict[tuple[str, str], int] = {}
    for path, kind in found.items():
        key = _name_profile(path, kind)
        latest[key] = max(latest.get(key, 0), FORMATS.index(kind))
    kept = [path for path, kind in found.items() if FORMATS.index(kind) == latest[_name_profile(path, kind)]]
    return sorted(kept, key=lambda path: [(not word.isdigit(), int(word) if word.isdigit() else word) for word in _words(path)])


def _name_profile(path: Path, kind: TraceFormat) -> tuple[str, str]:
    """Return what a profile and what was made of it have in common: their profiler, and their name without a suffix."""
    return kind.profiler.name, path.name.removesuffix(kind.find_suffix(path))


@contextmanager
def trace_folder(path: Path, exports: Path | None = None) -> Iterator[Path]:
    """Yield the folder of a trace; a profiler's file is converted into a temporary one, and errors name the file.

    What nsys exports of a report is kept in `exports`. A finished experiment's run must match the experiment's checksums.
    """
    if is_folder(path) and not is_input(path):
        if path.is_dir() and not (path / TRACE_FILE).is_file() and (inputs := list_inputs(path)):
            raise RecordError(path, f": a folder, not a trace; give a file in it, such as {inputs[0].name}")
        check_vouched(path)
        yield path
        return
    with removable_folder() as scratch:
        convert_input(path, scratch, exports=exports)
        try:
            yield scratch
        except RecordError as error:
            raise error.moved(scratch, path) from None


def convert_input(path: Path, folder: Path, nsys: str = "nsys", exports: Path | None = None) -> TraceInfo:
    """Convert a profile of any format of :data:`FORMATS` to a trace in `folder`.

    Args:
        path: the profile
        folder: the trace's
        nsys: the program that exports a report of Nsight Systems
        exports: where the export of a report is kept, by the report's digest, and found again; None: nowhere

    Raises:
        RecordError: there is no such file, it is of no format, or it is damaged
        ProfilingError: nsys is not there or cannot read the report, or the events cannot be understood

    """
    return require_format(path).convert(path, folder, Conversion(nsys, exports))


def _words(path: Path) -> list[str]:
    return [word for word in re.split(r"(\d+)", path.name) if word]
