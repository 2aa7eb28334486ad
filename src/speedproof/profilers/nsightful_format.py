"""What nsightful (and nsys2json before it) makes of an SQLite export of Nsight Systems: events in Chrome's format."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from speedproof.profilers.torch_format import is_chrome
from speedproof.profilers.trace_format import Conversion, Profiler, TraceFormat, read_unpacked

if TYPE_CHECKING:
    from speedproof.results.trace_tables import TraceInfo

NSIGHTFUL = Profiler(
    "nsightful", "nsightful (of Nsight Systems)", caveat="it keeps no copies, and not which call launched a kernel"
)
_PLACES = re.compile(rb'"pid"\s*:\s*"(Device|Host) \d+"')


def _convert(path: Path, folder: Path, _conversion: Conversion) -> "TraceInfo":
    from speedproof.profilers.nsightful_events import convert_nsightful

    return convert_nsightful(path, folder)


def _is_nsightful(path: Path) -> bool:
    head = read_unpacked(path)
    return is_chrome(head) and _PLACES.search(head) is not None


NSIGHTFUL_TRACE = TraceFormat(
    profiler=NSIGHTFUL,
    described="nsightful's JSON",
    writer="`nsightful`",
    suffixes=(),  # that of torch.profiler's: its content tells
    recognize=_is_nsightful,
    convert=_convert,
)
