"""Whatever file of a profiler somebody has, into a trace: what it is, its name tells."""

import tempfile
from pathlib import Path

from speedproof.errors import ProfilingError, RecordError
from speedproof.profiling.kineto import convert_chrome
from speedproof.profiling.nsys import export_report, read_capabilities
from speedproof.profiling.nsys_export import convert_export
from speedproof.records.trace import TraceInfo

_REPORTS = (".nsys-rep", ".qdrep")
_CHROME = (".json", ".json.gz")


def convert_input(path: Path, folder: Path, nsys: str = "nsys") -> TraceInfo:
    """Convert a file to a trace in `folder`.

    Args:
        path: a report of Nsight Systems (`.nsys-rep`, `.qdrep`), which the program `nsys` exports; what torch.profiler exported
            (`.json`, `.json.gz`); anything else: an SQLite file of `nsys export`
        folder: the trace's
        nsys: the program

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
    with tempfile.TemporaryDirectory() as scratch:
        sqlite = Path(scratch) / "report.sqlite"
        try:
            export_report(read_capabilities(nsys), path, sqlite)
        except ProfilingError as error:
            raise ProfilingError(f"{error}; or give an SQLite file of `nsys export`") from None
        try:
            return convert_export(sqlite, folder)
        except RecordError as error:
            raise RecordError(str(error).replace(str(sqlite), str(path))) from None
