"""Which profiler traces a run: nsys where it is seen to work, else kineto."""

import logging
import os
import tempfile
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from speedproof.config.profiling import Profiling
from speedproof.profilers.nsys import TRIES, Capabilities, export_report, read_capabilities, run_profiled
from speedproof.profilers.nsys_export import convert_export
from speedproof.profilers.required_ranges import require_ranges
from speedproof.results.names import RecorderName
from speedproof.util.environment import python_command, python_environment
from speedproof.util.errors import ProfilingError, RecordError

_PROBE_RANGE = "speedproof probe"
_PROBE = f"import nvtx; nvtx.push_range({_PROBE_RANGE!r}); nvtx.pop_range()"

log = logging.getLogger("speedproof")


class Selection(NamedTuple):
    """The profiler that traces, its version, why it was taken, and what nsys can do where it is that."""

    backend: RecorderName
    version: str
    reason: str
    nsys: Capabilities | None


def select_backend(profiling: Profiling, torch_of_programs: bool = False) -> Selection:
    """Return the profiler to use; kineto is that of the torch here, or, where variants are commands, of each program's own.

    Raises :class:`ProfilingError` where nsys is demanded and does not work, or there is none at all.
    """
    if profiling.backend == "kineto":
        return _select_kineto("profiling.backend says so", torch_of_programs)
    try:
        nsys = prove_nsys(profiling.nsys)
    except ProfilingError as error:
        if profiling.backend == "nsys":
            raise
        return _select_kineto(str(error), torch_of_programs)
    return Selection("nsys", nsys.version, "it recorded and exported a range of a small program", nsys)


@cache
def prove_nsys(program: str) -> Capabilities:
    """Profile a small Python program, look for its range in the export, and return what the working nsys can do.

    Takes some seconds, once a process. Raises :class:`ProfilingError` with what went wrong where no try succeeds.
    """
    nsys = read_capabilities(program)
    for tries_left in reversed(range(TRIES)):
        try:
            _trace_probe(nsys)
            break
        except ProfilingError as error:
            if not tries_left:
                raise
            log.info("%s; trying again", error)
    return nsys


def _trace_probe(nsys: Capabilities) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        report, sqlite = folder / "probe.nsys-rep", folder / "probe.sqlite"
        try:
            environ = {**os.environ, **python_environment(os.environ)}
            run_profiled(nsys, report, ["nvtx"], python_command("-c", _PROBE), folder / "log.txt", environ)
            export_report(nsys, report, sqlite)
            convert_export(sqlite, folder / "trace")
            require_ranges(folder / "trace", [_PROBE_RANGE])
        except (RecordError, ProfilingError) as error:
            raise ProfilingError(f"{nsys.program}: tracing a small program failed: {error.moved(folder, Path())}") from None


def _select_kineto(reason: str, torch_of_programs: bool) -> Selection:
    if torch_of_programs:
        return Selection("kineto", "of each program's torch", reason, None)
    try:
        return Selection("kineto", metadata.version("torch"), reason, None)
    except metadata.PackageNotFoundError:
        raise ProfilingError(
            f"no profiler: {reason}; and there is no torch, whose own could be used; install one of them"
        ) from None
