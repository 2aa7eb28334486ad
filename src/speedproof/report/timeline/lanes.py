"""What a timeline consists of: rows of lanes, and in a lane events one after the other."""

import heapq
from dataclasses import dataclass
from typing import Literal

import numpy as np

from speedproof.results.summary import IterationUnit
from speedproof.trace.intervals import Array

# What a row is about, which decides how it is drawn.
LaneKind = Literal["iterations", "idle", "stream", "ranges", "operators", "calls", "system", "overhead"]

NAMELESS = 0  # the number of the empty name


@dataclass(frozen=True)
class Lane:
    """Events of which none begins before the one before has ended: n of them, times in nanoseconds of the trace."""

    start: Array
    end: Array
    name: Array  # numbers of names
    note: Array  # numbers of names: of a kernel the phase that caused it, of an idle stretch the cause's detail

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True)
class LaneRow:
    """What belongs together: a GPU's stream, a thread's ranges. An event of a deeper lane lies on one of the lane above."""

    label: str
    kind: LaneKind
    lanes: list[Lane]

    @property
    def events(self) -> int:
        """Return how many events there are."""
        return sum(map(len, self.lanes))


@dataclass(frozen=True)
class Timeline:
    """One trace's. Each name has a group: of kernels what they compute, of calls whether they wait."""

    title: str
    start_ns: int  # of what it is about, the first iteration
    end_ns: int
    names: list[str]  # the first is empty
    groups: list[str]  # of each name
    rows: list[LaneRow]
    remarks: list[str]  # what does not stand in it
    unit: IterationUnit = "iteration"  # what iterations are called

    @property
    def events(self) -> int:
        """Return how many events there are."""
        return sum(row.events for row in self.rows)


def stack_events(start: Array, end: Array, name: Array, note: Array | None = None) -> list[Lane]:
    """Return the events in as few lanes as they need, each in the uppermost that is free when it begins.

    Ranges that nest thus lie below the ones that hold them. The arrays (n) need no order.
    """
    note = np.full(len(start), NAMELESS) if note is None else note
    order = np.lexsort((-end, start))
    start, end, name, note = (np.asarray(column, np.int64)[order] for column in (start, end, name, note))
    lane = _find_lanes(start, np.maximum(end, start + 1))  # what lasts no time has a place of its own, too
    chosen = (lane == number for number in range(int(lane.max(initial=-1)) + 1))
    return [Lane(start[these], end[these], name[these], note[these]) for these in chosen]


def _find_lanes(start: Array, end: Array) -> Array:
    """Return the lane of each event, in order of start and, of one start, the longest first."""
    # Where events nest, the lane is the number of those that are open: all that began, without those that ended.
    depth = np.arange(len(start)) - np.searchsorted(np.sort(end), start, side="right")
    by_lane = np.argsort(depth, kind="stable")
    follows = depth[by_lane][1:] == depth[by_lane][:-1]
    if not (follows & (start[by_lane][1:] < end[by_lane][:-1])).any():
        return depth
    lane, free, open_ = np.empty(len(start), np.int64), list[int](), list[tuple[int, int]]()
    for number, (begin, stop) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        while open_ and open_[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(open_)[1])
        lane[number] = heapq.heappop(free) if free else len(open_)
        heapq.heappush(open_, (stop, int(lane[number])))
    return lane
