"""Which phase caused which work of the GPU.

Within a process, the correlation id joins a kernel or copy to the call that launched it. Its phase is the one that contains
the launch on the launching thread. If that thread was in no phase (PyTorch launches its backward pass from a thread of its
own), it is the main thread's phase at that moment. Work without a launching call stays unattributed.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from speedproof.results.summary import Unattributed
from speedproof.results.trace_tables import read_trace_info
from speedproof.trace.events import Trace, bounds_of, read_launched
from speedproof.trace.intervals import Array, difference, first_come, holder, intersection, overlap, total, union
from speedproof.trace.loop import Loop
from speedproof.util.units import NS_PER_S

# Why no phase claims a kernel or copy. The phase cannot be derived from the time at which it ran, since launches run ahead.
_REASONS = [
    "launched by another process",
    "without a correlation id",
    "its launching call is not in the trace",
    "launched while the main thread was in no phase",
]


def attribute_activity(trace: Trace, loop: Loop) -> pd.DataFrame:
    """Return the GPU activity that concerns the loop, with the launch of each event and the phase that caused it.

    A device that the loop's process used counts with all that ran on it, other processes' work too.

    Returns:
        `trace.activity` of those devices with the columns `launch_end_ns` and `phase` (row of `loop.phases`), each -1 if
        unknown, and `own_thread`, whether the phase was found on the launching thread

    """
    devices = trace.activity["device"][trace.activity["process"] == loop.process].unique()
    mine = trace.activity["device"].isin(devices) & loop.recorded  # what is there of a recording in part tells nothing
    activity = trace.activity if mine.all() else trace.activity[mine].reset_index(drop=True)
    launch = activity["launch"].to_numpy()
    launched = launch >= 0
    launched_by_loop = launched & (activity["process"] == loop.process).to_numpy()
    moment = _take(trace.api["start_ns"], launch)
    thread = _take(trace.api["thread"], launch)
    phase = np.full(len(activity), -1, np.int32)  # millions of rows: half the memory
    for own in np.unique(loop.phases["thread"]):
        there = launched_by_loop & (thread == own)
        phase[there] = _phase_at(loop, own, moment[there])
    own_thread = phase >= 0
    lost = launched_by_loop & ~own_thread
    phase[lost] = _phase_at(loop, loop.thread, moment[lost])
    launch_end = np.where(launched, _take(trace.api["end_ns"], launch), -1)
    return activity.assign(launch_end_ns=launch_end, phase=phase, own_thread=own_thread)


def explain_unattributed(loop: Loop, activity: pd.DataFrame) -> list[Unattributed]:
    """Return the shares of the epochs' GPU busy time in which nothing runs that a phase claims, by reason.

    If several such events run at once, the time counts for the first one.
    """
    claimed = activity["phase"].to_numpy() >= 0
    start, end = bounds_of(activity)
    busy_ns = total(intersection(union(start, end), loop.spans))
    unclaimed = activity[~claimed]
    pieces, owner = first_come(start[~claimed], end[~claimed])
    free = overlap(pieces.start, pieces.end, difference(loop.spans, union(start[claimed], end[claimed])))
    missing = [unclaimed["process"] != loop.process, unclaimed["correlation"] < 0, unclaimed["launch"] < 0]
    reason = np.select(missing, range(len(missing)), len(missing))[owner[free.left]]
    sums_ns = np.bincount(reason, free.length, minlength=len(_REASONS))
    shares = sorted(zip((sums_ns / max(busy_ns, 1)).tolist(), _REASONS, strict=True), reverse=True)
    return [Unattributed(reason=name, fraction=share) for share, name in shares if share]


def _phase_at(loop: Loop, thread: int, moment: Array) -> Array:
    """Return the row of the phase in which a thread was at each moment, -1 where in none."""
    rows = np.flatnonzero((loop.phases["thread"] == thread).to_numpy())
    mine = loop.phases.iloc[rows]
    pieces, owner = first_come(*bounds_of(mine))
    at = holder(pieces, moment)
    return np.where(at >= 0, np.append(rows[owner], -1)[at], -1)


def _take(column: pd.Series, rows: Array) -> Array:
    """Return a column's values at the rows, -1 where the row is -1."""
    return np.append(column.to_numpy(), -1)[rows]


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
