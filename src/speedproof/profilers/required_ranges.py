"""Check that a trace holds the ranges that its program opens; without them it was lost."""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from speedproof.results.trace_tables import read_table
from speedproof.util.errors import ProfilingError


def require_ranges(folder: Path, names: Iterable[str]) -> None:
    """Raise a :class:`ProfilingError` unless the trace in `folder` holds a range of each name."""
    found = set(pc.unique(read_table(folder, "ranges", ["name"])["name"]).to_pylist())
    missing = [name for name in names if name not in found]
    if not found:
        raise ProfilingError(
            folder, ": the trace holds no ranges; nsys up to 2024.2 drops those of nvtx 0.2.12 and newer: install nvtx==0.2.11"
        )
    if missing:
        raise ProfilingError(folder, f": the trace holds no range `{missing[0]}`; was the run cut short? profile it again")


def require_closed(folder: Path, name: str | None) -> None:
    """Raise a :class:`ProfilingError` if the range to trace, `name@domain`, was opened and never closed.

    Recording then continued to the end of the program, or until it was killed.
    """
    if name is None:
        return
    ranges = read_table(folder, "ranges", ["name", "end_ns"])
    mine = ranges.filter(pc.equal(pc.cast(ranges["name"], pa.string()), name.split("@")[0]))
    if not len(mine) or mine["end_ns"].null_count == len(mine):
        raise ProfilingError(
            folder,
            f": the range `{name}`, which profiling.capture traces, never ended in the trace; does the program close it?",
        )
