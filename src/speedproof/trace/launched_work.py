"""The GPU's work in the order in which one process launched it."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from speedproof.trace.events import Trace, bounds_of
from speedproof.trace.intervals import Array

_LONG_AGO, _NEVER = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True)
class LaunchedWork:
    """Kernels and copies whose launch is known, in order of their launch."""

    launch_ns: Array
    done_ns: Array  # when all that was launched until then has ended
    summed_ns: Array  # lengths of all that was launched before; one more than there are launches

    def finish(self, moment: Array) -> Array:
        """Return when the host has reached each moment, and the GPU has done all that was launched before."""
        launched = np.searchsorted(self.launch_ns, moment)
        return np.where(launched > 0, np.maximum(moment, np.append(self.done_ns, 0)[launched - 1]), moment)

    def sum_between(self, start: int, end: int) -> int:
        """Return how long the GPU works on what was launched between two moments."""
        first, last = np.searchsorted(self.launch_ns, [start, end])
        return int(self.summed_ns[last] - self.summed_ns[first])


@dataclass(frozen=True)
class LaunchedKernels:
    """Kernels in order of their launch. Of unknown launches only bounds are known: a stream runs its kernels in order."""

    earliest: LaunchedWork  # each unknown launch is as early as it can be
    latest: LaunchedWork
    unknown: int  # kernels whose launch is not in the trace
    count: int


def order_by_launch(trace: Trace, process: int) -> LaunchedWork:
    rows = trace.activity[(trace.activity["process"] == process) & (trace.activity["launch"] >= 0)]
    return _in_order(trace.api["start_ns"].to_numpy()[rows["launch"].to_numpy()], rows)


def order_kernels(trace: Trace, process: int) -> LaunchedKernels:
    """Order a process' kernels by their launch; if it runs none, its copies."""
    rows = trace.activity[trace.activity["process"] == process]
    if rows["kernel"].any():
        rows = rows[rows["kernel"]]
    launch = rows["launch"].to_numpy()
    known = launch >= 0
    launch_ns = np.append(trace.api["start_ns"].to_numpy(), 0)[launch]
    if known.all():
        work = _in_order(launch_ns, rows)
        return LaunchedKernels(work, work, 0, len(rows))
    before, after = _bound_launches(rows, launch_ns, known)
    return LaunchedKernels(_in_order(before, rows), _in_order(after, rows), int((~known).sum()), len(rows))


def _in_order(launch_ns: Array, rows: pd.DataFrame) -> LaunchedWork:
    start_ns, end_ns = bounds_of(rows)
    order = np.argsort(launch_ns, kind="stable")
    summed_ns = np.append(0, np.cumsum((end_ns - start_ns)[order]))
    return LaunchedWork(launch_ns[order], np.maximum.accumulate(end_ns[order]), summed_ns)


def _bound_launches(rows: pd.DataFrame, launch_ns: Array, known: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Return the earliest and the latest launch of each kernel, given those that are known; `rows` are sorted by start."""
    stream = rows.groupby(["device", "stream"], sort=False).ngroup().to_numpy()
    order = np.argsort(stream, kind="stable")
    place = np.arange(len(order))
    there, new = known[order], np.append(True, np.diff(stream[order]) != 0)
    begins = np.maximum.accumulate(np.where(new, place, 0))
    ends = np.append(np.flatnonzero(new)[1:], len(order))[np.cumsum(new) - 1]
    last = np.maximum.accumulate(np.where(there, place, -1))
    following = np.minimum.accumulate(np.where(there, place, len(order))[::-1])[::-1]
    in_order = np.append(launch_ns[order], 0)
    before, after = (np.empty_like(launch_ns) for _ in range(2))
    before[order] = np.where(last >= begins, in_order[last], _LONG_AGO)
    after[order] = np.where(following < ends, in_order[following], _NEVER)
    after = np.where(known, launch_ns, np.minimum(after, rows["start_ns"].to_numpy()))
    return np.minimum(before, after), after
