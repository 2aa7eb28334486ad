"""The formats of traces, and the profilers that they are of. A new one is a module and a line here."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from speedproof.profilers.foreign_files import find_foreign
from speedproof.profilers.nsightful_format import NSIGHTFUL_TRACE
from speedproof.profilers.nsys_formats import NSYS, NSYS_EXPORT, NSYS_REPORT, NSYS_TRACER
from speedproof.profilers.rocprof_format import ROCPROF_TRACE
from speedproof.profilers.torch_format import TORCH_TRACE, TORCH_TRACER
from speedproof.profilers.trace_format import Profiler, RunTracer, TraceFormat
from speedproof.profilers.xla_format import XLA_TRACE
from speedproof.profilers.xplane_format import XPLANE_TRACE
from speedproof.util.errors import RecordError

if TYPE_CHECKING:
    from speedproof.results.names import RunTracerName
    from speedproof.results.run_record import Backend

# In the order in which help names them. Of one profiler's files that differ in their suffix alone, a later one is made of an
# earlier one, and stands for it. Content is recognized in this order, too: torch.profiler's is what no other form of JSON is.
FORMATS: list[TraceFormat] = [
    NSYS_REPORT,
    NSYS_EXPORT,
    ROCPROF_TRACE,
    XPLANE_TRACE,
    NSIGHTFUL_TRACE,
    XLA_TRACE,
    TORCH_TRACE,
]
# What can trace runs; `auto` takes the first that works.
RUN_TRACERS: dict["RunTracerName", RunTracer] = {"nsys": NSYS_TRACER, "kineto": TORCH_TRACER}


def describe_inputs() -> str:
    """Return what can be converted, for help and errors."""
    *others, last = (one.described for one in FORMATS)
    return f"{', '.join(others)}, or {last}"


def describe_run_tracers() -> str:
    """Return what can trace a run, and of which programs, for help."""
    return "; ".join(f"{one.described}: {one.suits}" for one in RUN_TRACERS.values())


def find_run_tracer(name: "Backend") -> RunTracer | None:
    """Return what traced a run, by the name that its record has; None: nothing did."""
    return None if name == "none" else RUN_TRACERS[name]


def find_format(path: Path) -> TraceFormat | None:
    """Return the format of a path, by its content, else by its name; None if it is not a profiler's."""
    return _recognize(path) or find_named(path)


def _recognize(path: Path) -> TraceFormat | None:
    return next((one for one in FORMATS if one.recognize(path)), None)


def find_named(path: Path) -> TraceFormat | None:
    best = max(FORMATS, key=lambda one: len(one.find_suffix(path)))
    return best if best.find_suffix(path) and not path.is_dir() else None


def require_format(path: Path) -> TraceFormat:
    """Return the format of a path; raise a :class:`RecordError` if it does not exist or is not a profiler's."""
    recognized, named = _recognize(path), find_named(path)
    if not (path.is_file() or path.is_dir()):  # reading a pipe would wait for ever
        given = f"the file that {named.writer} wrote" if named else describe_inputs()
        raise RecordError(path, f": {'no regular file' if path.exists() else 'no such file'}; give {given}")
    if recognized is None and (foreign := find_foreign(path)):
        raise RecordError(path, f": {foreign.what}; {foreign.remedy}")
    if (found := recognized or named) is None:
        raise RecordError(path, f": not a trace; give {describe_inputs()}")
    return found


def find_profiler(name: str) -> Profiler:
    """Return the profiler of a name that a record has; one that is not known here is called by that."""
    return next((one for one in list_profilers() if one.name == name), Profiler(name, name))


def list_profilers() -> Iterator[Profiler]:
    yield from dict.fromkeys(one.profiler for one in FORMATS)


def describe_foreign(profiler: str) -> str | None:
    """Return what a page notes of traces that Nsight Systems did not record; None: nothing."""
    found = find_profiler(profiler)
    return f"Profiled by {found.title}, not by {NSYS.title}: {found.caveat}." if found.caveat else None
