"""What JAX and TensorFlow write for XLA's trace viewer: events in Chrome's format, in which threads are the GPU's streams."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from speedproof.profilers.torch_format import is_chrome
from speedproof.profilers.trace_format import Conversion, Profiler, TraceFormat, read_unpacked

if TYPE_CHECKING:
    from speedproof.results.trace_tables import TraceInfo

XLA = Profiler("xla", "XLA's profiler", caveat="its ranges are what JAX or TensorFlow mark by themselves")
_PLACES = re.compile(rb'"name"\s*:\s*"[^"]*/(device|host):\w+')


def _convert(path: Path, folder: Path, _conversion: Conversion) -> "TraceInfo":
    from speedproof.profilers.xla_viewer import convert_xla

    return convert_xla(path, folder)


def _is_xla(path: Path) -> bool:
    head = read_unpacked(path)
    return is_chrome(head) and _PLACES.search(head) is not None


XLA_TRACE = TraceFormat(
    profiler=XLA,
    described="JAX's or TensorFlow's .trace.json.gz",
    writer="`jax.profiler.trace`",
    suffixes=(),  # that of torch.profiler's: its content tells
    recognize=_is_xla,
    convert=_convert,
)
