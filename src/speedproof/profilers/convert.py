"""Whatever a profiler left and somebody has, into a trace: what it is, its name tells."""

import hashlib
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from speedproof.profilers.kineto import convert_chrome
from speedproof.profilers.nsys import Capabilities, export_report, is_export, read_capabilities
from speedproof.profilers.nsys_export import convert_export
from speedproof.profilers.nsys_folder import is_export_folder
from speedproof.results.evidence_archive import is_folder
from speedproof.results.experiment import check_vouched
from speedproof.results.trace_tables import TraceInfo
from speedproof.util.errors import ProfilingError, RecordError

EXPORTS_FOLDER = "exports"  # beside an analysis: what nsys exported of its reports

_REPORTS = (".nsys-rep", ".qdrep")
_CHROME = (".json", ".json.gz")
_ALL = (*_REPORTS, *_CHROME, ".sqlite")
# The first words of a report: "NVIDIA Tegra Profiler Report 2023@4@4@54-…".
_RECORDED_BY = re.compile(rb"Profiler Report (\d+(?:@\d+)+)")


def is_input(path: Path) -> bool:
    """Return whether a path is, by its name, what :func:`convert_input` converts."""
    return is_export_folder(path) if path.is_dir() else path.name.endswith(_ALL)


def list_inputs(folder: Path) -> list[Path]:
    """Return a folder's profiles, a rank each, in the order of the numbers in their names.

    A report beside its own SQLite export counts once.
    """
    found = [path for path in folder.iterdir() if is_input(path)]
    exported = {path.with_suffix("") for path in found if path.suffix == ".sqlite"}
    kept = [path for path in found if path.suffix not in _REPORTS or path.with_suffix("") not in exported]
    return sorted(kept, key=lambda path: [(not word.isdigit(), int(word) if word.isdigit() else word) for word in _words(path)])


@contextmanager
def trace_folder(path: Path, exports: Path | None = None) -> Iterator[Path]:
    """Yield the folder of a trace; a profiler's file is converted into a temporary one, and errors name the file.

    What nsys exports of a report is kept in `exports`. A finished experiment's run must be what the experiment vouches for.
    """
    if is_folder(path) and not is_input(path):
        check_vouched(path)
        yield path
        return
    with tempfile.TemporaryDirectory() as scratch:
        convert_input(path, Path(scratch), exports=exports)
        try:
            yield Path(scratch)
        except RecordError as error:
            raise RecordError(str(error).replace(scratch, str(path))) from None


def convert_input(path: Path, folder: Path, nsys: str = "nsys", exports: Path | None = None) -> TraceInfo:
    """Convert a profile to a trace in `folder`.

    Args:
        path: a report of Nsight Systems (`.nsys-rep`, `.qdrep`), which the program `nsys` exports; what torch.profiler exported
            (`.json`, `.json.gz`); a folder of Parquet or Arrow files, or, anything else, an SQLite file, of `nsys export`
        folder: the trace's
        nsys: the program
        exports: where the export of a report is kept, by the report's digest, and found again; None: nowhere

    Raises:
        RecordError: the file is not what its name says, or damaged
        ProfilingError: nsys is not there or cannot read the report, or the events cannot be understood

    """
    if path.name.endswith(_CHROME):
        return convert_chrome(path, folder)
    if path.suffix not in _REPORTS:
        return convert_export(path, folder)
    if not path.is_file():
        raise RecordError(f"{path}: no such report; give the file that `nsys profile` wrote")
    with _exported(path, nsys, exports) as sqlite:
        try:
            return convert_export(sqlite, folder)
        except RecordError as error:
            raise RecordError(str(error).replace(str(sqlite), str(path))) from None


@contextmanager
def _exported(report: Path, nsys: str, exports: Path | None) -> Iterator[Path]:
    """Yield a report's SQLite export; one that is kept is not made again."""
    with tempfile.TemporaryDirectory() as scratch:
        sqlite = (exports or Path(scratch)) / f"{_digest(report)}.sqlite"
        if not (sqlite.is_file() and is_export(sqlite)):
            sqlite.parent.mkdir(parents=True, exist_ok=True)
            program = read_capabilities(nsys)
            try:
                export_report(program, report, sqlite)
            except ProfilingError as error:
                raise ProfilingError(
                    f"{error}{_needed_version(report, program)}; or give an SQLite file of `nsys export`"
                ) from None
        yield sqlite


def _needed_version(report: Path, nsys: Capabilities) -> str:
    """Return which nsys a report needs, as far as it tells which recorded it."""
    with report.open("rb") as file:
        found = _RECORDED_BY.search(file.read(200))
    if found is None:
        return ""
    recorded = found[1].decode().replace("@", ".")
    have, need = (tuple(int(number) for number in version.split(".")[:2]) for version in (nsys.version, recorded))
    word = (
        "too old"
        if have < need
        else "too new, or the report is damaged"
        if have > need
        else "the same: the report may be damaged"
    )
    return f"; it was recorded by nsys {recorded}, and this one is {word}: export it with nsys {need[0]}.{need[1]}"


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _words(path: Path) -> list[str]:
    return [word for word in re.split(r"(\d+)", path.name) if word]
