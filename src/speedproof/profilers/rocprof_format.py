"""What rocprofv3 (ROCm) writes as JSON."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from speedproof.profilers.trace_format import Conversion, Profiler, TraceFormat, read_unpacked

if TYPE_CHECKING:
    from speedproof.results.trace_tables import TraceInfo

_LIST = re.compile(rb'"rocprofiler-sdk-tool"\s*:')
ROCPROF = Profiler("rocprof", "rocprofv3", caveat="it records no system calls, and no kind of host memory")


def _convert(path: Path, folder: Path, _conversion: Conversion) -> "TraceInfo":
    from speedproof.profilers.rocprof import convert_rocprof

    return convert_rocprof(path, folder)


ROCPROF_TRACE = TraceFormat(
    profiler=ROCPROF,
    described="rocprofv3's JSON",
    writer="`rocprofv3 --output-format json`",
    suffixes=("_results.json",),
    recognize=lambda path: _LIST.search(read_unpacked(path)) is not None,
    convert=_convert,
)
