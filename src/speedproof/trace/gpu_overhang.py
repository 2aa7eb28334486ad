"""What the GPU still has to do when a program says that an epoch is done: work launched before, and not waited for."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from speedproof.results.trace_tables import read_trace_info
from speedproof.trace.events import read_launched
from speedproof.trace.intervals import Array, total, union
from speedproof.util.units import NS_PER_S

# From a line's print to its arrival here: 0.1 ms in the median, also on two cores at a load of 5 (180 lines); on a GPU machine
# 0.34 ms at most (56 lines). What is launched meanwhile is the next epoch's. Lines that arrive later are few, and a median is
# taken over epochs. Of a program that launches an epoch's work faster than this, nothing is said.
_ARRIVES_WITHIN_NS = 300_000


def measure_overhang(folder: Path, moments_unix_ns: Sequence[int]) -> list[float]:
    """Return for each moment in a trace how many seconds of GPU work followed that had been launched before.

    It is 0 if the GPU had nothing to do shortly before: the program waited for it. Moments that the trace does not cover are
    left out, all of them if its clock is not known to be the system's.
    """
    zero_ns = read_trace_info(folder).unix_zero_ns if moments_unix_ns else None
    if zero_ns is None:
        return []
    work = read_launched(folder)
    if work.empty:
        return []
    launch, start, end = (work[name].to_numpy() for name in ("launch_ns", "start_ns", "end_ns"))
    moments = [moment - zero_ns for moment in moments_unix_ns]
    outstanding = union(np.minimum(launch, start), end)
    return [
        _follow(launch, start, end, moment) / NS_PER_S if _is_busy(outstanding.start, outstanding.end, moment) else 0.0
        for moment in moments
        if launch.min() <= moment <= end.max()
    ]


def _is_busy(start: Array, end: Array, moment: int) -> bool:
    """Return whether work was outstanding all the time from the print of a line, at the earliest, to its arrival."""
    held = int(np.searchsorted(start, moment - _ARRIVES_WITHIN_NS, side="right")) - 1
    return held >= 0 and bool(end[held] > moment)


def _follow(launch: Array, start: Array, end: Array, moment: int) -> int:
    """Return for how long the GPU works after a moment on what was launched before, in nanoseconds."""
    late = (launch <= moment - _ARRIVES_WITHIN_NS) & (end > moment)
    return total(union(np.maximum(start[late], moment), end[late]))
