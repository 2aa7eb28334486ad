"""Which profiler traces a run: nsys if a test of it succeeds, else kineto."""

import logging
import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

from speedproof.config.profiling import Profiling
from speedproof.profilers.formats import RUN_TRACERS
from speedproof.profilers.nsys import TRIES, Capabilities, export_report, read_capabilities, run_profiled
from speedproof.profilers.nsys_export import convert_export
from speedproof.profilers.required_ranges import require_ranges
from speedproof.results.names import RunTracerName
from speedproof.util.environment import python_command, python_environment
from speedproof.util.errors import ProfilingError, RecordError
from speedproof.util.temporary_folder import removable_folder

_PROBE_RANGE = "speedproof probe"
_PROBE = f"import nvtx; nvtx.push_range({_PROBE_RANGE!r}); nvtx.pop_range()"

log = logging.getLogger("speedproof")


class Selection(NamedTuple):
    """The profiler that traces, its version, why it was chosen, and (for nsys) what it can do."""

    backend: RunTracerName
    version: str
    reason: str
    nsys: Capabilities | None


def select_backend(profiling: Profiling, torch_of_programs: bool = False) -> Selection:
    """Return the profiler to use; kineto is that of the torch here, or, where variants are commands, of each program's own.

    Raises :class:`ProfilingError` if the one that is demanded does not work, or none does.
    """
    if profiling.backend != "auto":
        return RUN_TRACERS[profiling.backend].find(profiling, "set by profiling.backend", torch_of_programs)
    *others, last = RUN_TRACERS.values()
    reason = ""
    for tracer in others:
        try:
            return tracer.find(profiling, reason, torch_of_programs)
        except ProfilingError as error:
            reason = str(error)
    return last.find(profiling, reason, torch_of_programs)


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
    with removable_folder() as folder:
        report, sqlite = folder / "probe.nsys-rep", folder / "probe.sqlite"
        try:
            environ = {**os.environ, **python_environment(os.environ)}
            run_profiled(nsys, report, ["nvtx"], python_command("-c", _PROBE), folder / "log.txt", environ)
            export_report(nsys, report, sqlite)
            convert_export(sqlite, folder / "trace")
            require_ranges(folder / "trace", [_PROBE_RANGE])
        except (RecordError, ProfilingError) as error:
            raise ProfilingError(f"{nsys.program}: tracing a small program failed: {error.moved(folder, Path())}") from None
