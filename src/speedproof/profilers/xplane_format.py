"""What the profilers of JAX, TensorFlow and PyTorch/XLA write: XPlane files."""

from pathlib import Path
from typing import TYPE_CHECKING

from speedproof.profilers.foreign_files import is_xplane
from speedproof.profilers.trace_format import Conversion, Profiler, TraceFormat, read_unpacked

if TYPE_CHECKING:
    from speedproof.results.trace_tables import TraceInfo

XPLANE = Profiler("xplane", "XLA's profiler", caveat="it records no system calls")


def _convert(path: Path, folder: Path, _conversion: Conversion) -> "TraceInfo":
    from speedproof.profilers.xplane import convert_xplane

    return convert_xplane(path, folder)


XPLANE_TRACE = TraceFormat(
    profiler=XPLANE,
    described="XLA's .xplane.pb",
    writer="`jax.profiler.trace`",
    suffixes=(".xplane.pb",),
    recognize=lambda path: is_xplane(read_unpacked(path)),
    convert=_convert,
)
