"""What torch.profiler (kineto) exports: events in Chrome's format."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from speedproof.profilers.trace_format import Conversion, Profiler, RunTracer, TraceFormat, read_unpacked
from speedproof.util.errors import ProfilingError

if TYPE_CHECKING:
    from speedproof.config.profiling import Profiling
    from speedproof.profilers.selection import Selection
    from speedproof.results.trace_tables import TraceInfo

KINETO = Profiler(
    "kineto", "kineto (torch.profiler)", caveat="phases and kernels are comparable, the profiler's own cost is not"
)
_BARE_LIST = re.compile(rb"\[\s*\{")


def _convert(path: Path, folder: Path, _conversion: Conversion) -> "TraceInfo":
    from speedproof.profilers.kineto import convert_chrome

    return convert_chrome(path, folder)


def is_chrome(head: bytes) -> bool:
    """Return whether a file that begins so holds events in Chrome's format: in an object, or as a list."""
    head = head.lstrip()
    return (head.startswith(b"{") and b'"traceEvents"' in head) or (_BARE_LIST.match(head) is not None and b'"ph"' in head)


def _find(_profiling: "Profiling", reason: str, of_programs: bool) -> "Selection":
    from importlib import metadata  # loads dozens of modules that `--help` does not need

    from speedproof.profilers.selection import Selection

    if of_programs:
        return Selection("kineto", "of each program's torch", reason, None)
    try:
        return Selection("kineto", metadata.version("torch"), reason, None)
    except metadata.PackageNotFoundError:
        raise ProfilingError(
            f"no profiler: {reason}; and torch, whose profiler could be used, is not installed; install one of them"
        ) from None


TORCH_TRACER = RunTracer(KINETO.title, suits="a Python program with torch", within=True, takes_settings=False, find=_find)
TORCH_TRACE = TraceFormat(
    profiler=KINETO,
    described="torch.profiler's .json(.gz)",
    writer="torch.profiler's `export_chrome_trace`",
    suffixes=(".json", ".json.gz"),
    recognize=lambda path: is_chrome(read_unpacked(path)),
    convert=_convert,
)
