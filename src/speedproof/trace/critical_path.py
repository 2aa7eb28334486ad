"""What each iteration's critical path consists of: host, loader, device, copy, communication.

The path is walked back from the end of the last iteration, or of the GPU's work that it launched. Work of the GPU began when
the work before it had ended, or when its launch returned, whichever was later: there the path goes on, on the device or on the
host. On the host it goes back to the last call that waited for the GPU, and from there to the work that this call awaited. So a
kernel that ran while the host had yet to launch what everything waits for is not on it. The walk's steps are as many as such
calls: rows of kernels that follow one another on the device are passed at once. Each step goes back in time, even if the clocks
of host and GPU differ so much that work begins before its launch.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from speedproof.results.summary import ClockSkew, CriticalPath, PathClass
from speedproof.trace.cuda_calls import loop_calls, waiting_calls
from speedproof.trace.events import Trace, are_named, bounds_of, cover_events, with_names
from speedproof.trace.intervals import Array, Intervals, coverage, difference, intersection, union
from speedproof.trace.kernel_groups import is_communication
from speedproof.trace.loop import Loop
from speedproof.trace.roles import loads_data
from speedproof.util.units import NS_PER_S

# A call that waits for the GPU returns so soon after the work has ended; one that returns later did something else.
_RETURNS_WITHIN_NS = 100_000
_BOUNDS = ["start_ns", "end_ns"]


@dataclass(frozen=True)
class _Work:
    """Kernels and copies in order of their start, and where each one's chain of work on the device begins."""

    start: Array
    end: Array
    by_end: NDArray[np.int32]  # the rows in order of their end
    head: NDArray[np.int32]  # the row of the first work of its chain
    launched: Array  # when its launch returned, or began if the work started before that; -1 without a launch

    def chain_launched(self, rows: NDArray[np.integer]) -> Array:
        """Return when the chains of these rows were launched."""
        return self.launched[self.head[rows]]


@dataclass(frozen=True)
class _Waits:
    """Calls that waited for the GPU, in order of their return, and the row of the work that each awaited."""

    returned: Array
    awaited: NDArray[np.integer]

    def find_last(self, moments: Array) -> Array:
        """Return the place of the last call to return by each moment, -1 if there is no such call."""
        return np.searchsorted(self.returned, moments, side="right") - 1


def find_critical_paths(trace: Trace, loop: Loop, activity: pd.DataFrame) -> list[CriticalPath]:
    """Return, for each epoch, how much of it each class of the critical path takes, and the largest; none without a GPU."""
    if activity.empty:
        return []
    spans = loop.spans
    device = _walk(trace, loop, activity)
    host = difference(spans, device)
    loading = with_names(loop.on_main_thread(loop.phases), loads_data)
    transforms = loop.on_main_thread(loop.transforms)
    loads = cover_events(pd.concat([loading[_BOUNDS], transforms[_BOUNDS]]))
    kernel, communicates = activity["kernel"].to_numpy(), are_named(activity, is_communication)
    computing = cover_events(activity, kernel & ~communicates)
    exposed = difference(intersection(device, cover_events(activity, kernel & communicates)), computing)
    copying = difference(intersection(device, cover_events(activity, ~kernel)), cover_events(activity, kernel))
    parts: dict[PathClass, Intervals] = {
        "host": difference(host, loads),
        "loader": intersection(host, loads),
        "device": difference(difference(intersection(device, spans), exposed), copying),
        "copy": copying,
        "communication": exposed,
    }
    lengths = {name: coverage(part, spans.start, spans.end) for name, part in parts.items()}
    return [
        CriticalPath(
            epoch=number + 1,
            largest=max(parts, key=lambda name: lengths[name][number]),
            **{f"{name}_s": float(lengths[name][number]) / NS_PER_S for name in parts},
        )
        for number in range(len(spans))
    ]


def _walk(trace: Trace, loop: Loop, activity: pd.DataFrame) -> Intervals:
    """Return where the path lies on the device; the rest of the epochs it is on the host."""
    work = _chain(trace, activity)
    waits = _find_waits(trace, loop, activity, work)
    began, last = int(loop.spans.start[0]), _find_last_work(loop, activity, work)
    reached = work.chain_launched(last) if len(last) else loop.spans.end[-1:]
    launched = work.chain_launched(waits.awaited)
    # Lists, and what follows each call at once: the walk has as many steps as there are calls that waited.
    moments, further = launched.tolist(), waits.find_last(launched).tolist()
    (at,), (place,) = reached.tolist(), waits.find_last(reached).tolist()
    places: list[int] = []
    while place >= 0 and at > began:  # ends, since each launch is earlier than the moment from which it was reached
        places.append(place)
        at, place = moments[place], further[place]
    passed = np.append(last, waits.awaited[np.array(places, np.int64)])
    return union(work.start[work.head[passed]], work.end[passed])


def _find_waits(trace: Trace, loop: Loop, activity: pd.DataFrame, work: _Work) -> _Waits:
    """Return the loop's calls that waited, each with the work that ended last before it returned.

    A call whose awaited chain was launched no earlier than the call returned leads nowhere, and is left out.
    """
    ends = work.end[work.by_end]
    calls = waiting_calls(loop_calls(trace.api, trace, loop, activity), activity)
    begun, returned = bounds_of(calls)
    last = np.searchsorted(ends, returned, side="right") - 1
    ended = np.append(ends, np.iinfo(np.int64).min)[last]
    waited = np.flatnonzero((ended > begun) & (returned - ended <= _RETURNS_WITHIN_NS))
    waited = waited[work.chain_launched(work.by_end[last[waited]]) < returned[waited]]
    order = waited[np.argsort(returned[waited], kind="stable")]
    return _Waits(returned[order], work.by_end[last[order]])


def _find_last_work(loop: Loop, activity: pd.DataFrame, work: _Work) -> Array:
    """Return the row of the work that the loop launched and that ends last, if it outlasts the loop; else none."""
    until = int(loop.spans.end[-1])
    mine = (activity["process"] == loop.process).to_numpy() & (work.launched >= 0) & (work.launched <= until)
    rows = np.flatnonzero(mine)
    last = rows[np.argmax(work.end[rows], keepdims=True)] if len(rows) else rows
    return last[(work.end[last] > until) & (work.chain_launched(last) < until)]


def measure_skew(trace: Trace, activity: pd.DataFrame) -> ClockSkew | None:
    """Return by how much work of the GPU begins before the call that launched it, None where none does."""
    early_ns = _find_early(trace, activity)
    count = int((early_ns > 0).sum())
    return ClockSkew(events=count, most_s=float(early_ns.max()) / NS_PER_S) if count else None


def _find_early(trace: Trace, activity: pd.DataFrame) -> Array:
    """Return by how much each kernel or copy begins before the call that launched it, by the trace's clocks."""
    called = np.append(trace.api["start_ns"].to_numpy(), -1)[activity["launch"].to_numpy()]
    return np.maximum(called - activity["start_ns"].to_numpy(), 0)


def _chain(trace: Trace, activity: pd.DataFrame) -> _Work:
    """Find what let each kernel or copy begin, the host or the work before it, and follow the latter back.

    Work that begins before its launch, by a skew of the clocks, is moved to its launch: no effect comes before its cause.
    """
    start, end = bounds_of(activity)
    early = _find_early(trace, activity)
    if early.any():
        start, end = start + early, end + early
    del early
    # A call that copies from pageable memory returns after its work, which other work in the stream may have held up.
    launch, returned = (activity[name].to_numpy() for name in ("launch", "launch_end_ns"))
    launched = np.where(returned <= start, returned, np.append(trace.api["start_ns"].to_numpy(), -1)[launch])
    by_end = np.argsort(end, kind="stable").astype(np.int32)  # of millions of rows, so that half the memory is enough
    before = np.searchsorted(end[by_end], start, side="right").astype(np.int32) - 1
    previous = np.append(by_end, np.int32(-1))[before]
    rows = np.arange(len(start), dtype=np.int32)
    follows = (
        (before >= 0)
        & (previous != rows)
        & (np.append(end, -1)[previous] >= launched)
        & (np.append(start, 0)[previous] < start)
    )
    head = np.where(follows, previous, rows)
    while True:  # doubles the length of what is passed with each turn
        further = head[head]
        if (further == head).all():
            return _Work(start, end, by_end, head, launched)
        head = further
