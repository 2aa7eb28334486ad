"""What Nsight Systems leaves: a report, which its program exports, and exports (an SQLite file, a folder of tables)."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from speedproof.profilers.trace_format import Conversion, Profiler, RunTracer, TraceFormat, read_head
from speedproof.util.errors import ProfilingError, RecordError

if TYPE_CHECKING:
    from speedproof.config.profiling import Profiling
    from speedproof.profilers.nsys import Capabilities
    from speedproof.profilers.selection import Selection
    from speedproof.results.trace_tables import TraceInfo

NSYS = Profiler("nsys", "Nsight Systems")
# The first words of a report: "NVIDIA Tegra Profiler Report 2023@4@4@54-…".
_ROW = re.compile(rb'\{(?!"traceEvents").*"table"\s*:\s*"\w+"')
_RECORDED_BY = re.compile(rb"Profiler Report (\d+(?:@\d+)+)")


def _convert_export(path: Path, folder: Path, _conversion: Conversion) -> "TraceInfo":
    from speedproof.profilers.nsys_export import convert_export

    return convert_export(path, folder)


def _convert_report(report: Path, folder: Path, conversion: Conversion) -> "TraceInfo":
    from speedproof.profilers.nsys_export import convert_export

    with _exported(report, conversion) as sqlite:
        try:
            return convert_export(sqlite, folder)
        except RecordError as error:
            raise error.moved(sqlite, report) from None


@contextmanager
def _exported(report: Path, conversion: Conversion) -> Iterator[Path]:
    """Yield a report's SQLite export; one that is kept is not made again."""
    import shutil

    from speedproof.profilers.nsys import export_report, is_export, read_capabilities
    from speedproof.util.temporary_folder import removable_folder

    with removable_folder() as scratch:
        sqlite = (conversion.exports or scratch) / f"{_digest(report)}.sqlite"
        if not (sqlite.is_file() and is_export(sqlite)):
            if shutil.which(conversion.nsys) is None:
                way = "install Nsight Systems, which reads it, or give an SQLite file of `nsys export`"
                raise ProfilingError(report, f": a report of Nsight Systems, and {conversion.nsys} is not found; {way}")
            program = read_capabilities(conversion.nsys)
            try:
                with _making(sqlite.parent):
                    export_report(program, report, sqlite)
            except ProfilingError as error:
                needed = _needed_version(report, program)
                raise ProfilingError(*error.parts, f"{needed}; or give an SQLite file of `nsys export`") from None
        yield sqlite


@contextmanager
def _making(folder: Path) -> Iterator[None]:
    """Make a folder; if the block fails, remove it and those above it that were made, unless something lies in them."""
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with suppress(OSError):
            for place in made:
                place.rmdir()
        raise


def _needed_version(report: Path, nsys: "Capabilities") -> str:
    """Return which nsys a report needs, as far as it tells which recorded it."""
    found = _RECORDED_BY.search(read_head(report))
    if found is None:
        return ""
    recorded = found[1].decode().replace("@", ".")
    have, need = (tuple(int(number) for number in version.split(".")[:2]) for version in (nsys.version, recorded))
    word = "the same: the report may be damaged"
    if have != need:
        word = "too old" if have < need else "too new, or the report is damaged"
    return f"; it was recorded by nsys {recorded}, and this one is {word}: export it with nsys {need[0]}.{need[1]}"


def _digest(file: Path) -> str:
    import hashlib

    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _is_export(path: Path) -> bool:
    """Return whether this is an SQLite file, or what `nsys export` writes with `jsonlines`, `parquetdir` or `arrowdir`."""
    strings = any((path / f"StringIds.{kind}").is_file() for kind in ("parquet", "arrow"))  # a table that every export has
    return strings or read_head(path).startswith(b"SQLite format 3\0") or is_json_lines(path)


def is_json_lines(path: Path) -> bool:
    """Return whether a file begins with a row of a table, as `nsys export --type=jsonlines` writes it."""
    return _ROW.match(read_head(path).split(b"\n")[0]) is not None


def _find(profiling: "Profiling", _reason: str, _of_programs: bool) -> "Selection":
    from speedproof.profilers.selection import Selection, prove_nsys

    nsys = prove_nsys(profiling.nsys)
    return Selection("nsys", nsys.version, "it recorded and exported a range of a small program", nsys)


NSYS_TRACER = RunTracer("nsys (Nsight Systems)", suits="any program", within=False, takes_settings=True, find=_find)
NSYS_EXPORT = TraceFormat(
    profiler=NSYS,
    described="its SQLite, Parquet, Arrow or JSON lines export",
    writer="`nsys export`",
    suffixes=(".sqlite",),
    recognize=_is_export,
    convert=_convert_export,
)
NSYS_REPORT = TraceFormat(
    profiler=NSYS,
    described="an nsys report (.nsys-rep)",
    writer="`nsys profile`",
    suffixes=(".nsys-rep", ".qdrep"),
    recognize=lambda path: _RECORDED_BY.search(read_head(path)) is not None,
    convert=_convert_report,
)
