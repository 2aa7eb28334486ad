"""Interval algebra on integer nanoseconds: half-open intervals in NumPy arrays, no Python loop over events.

Every function costs O(n log n) in the number of intervals given.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.int64]

_MOST_LOOKS = 100  # for the parent of an interval that ends after its own parent, or with many others at one moment


@dataclass(frozen=True)
class Intervals:
    """Disjoint, non-empty intervals [start, end) in ascending order; both arrays are int64 of one length."""

    start: Array
    end: Array

    def __len__(self) -> int:
        return len(self.start)

    @property
    def length(self) -> Array:
        return self.end - self.start


@dataclass(frozen=True)
class Overlaps:
    """The non-empty intersections of two lists of intervals: bounds, and which interval of either list meets there."""

    start: Array
    end: Array
    left: Array
    right: Array

    @property
    def length(self) -> Array:
        return self.end - self.start


def union(start: Array, end: Array) -> Intervals:
    """Return the union of any intervals; those that overlap or touch become one, empty ones vanish."""
    start, end = _drop_empty(np.asarray(start, np.int64), np.asarray(end, np.int64))
    if (start[1:] > end[:-1]).all():
        return Intervals(start, end)
    if not (start[1:] >= start[:-1]).all():  # events mostly come in order
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    reached = np.maximum.accumulate(end)
    opens = np.ones(len(start) + 1, bool)  # masks of millions: an eighth of the memory that rows take
    np.greater(start[1:], reached[:-1], out=opens[1:-1])
    return Intervals(start[opens[:-1]], reached[opens[1:]])


def join_close(start: Array, end: Array, most: int) -> Intervals:
    """Return the union of any intervals and of the time between two of them, if the next begins in less than this."""
    joined = union(start, end + most)
    return Intervals(joined.start, joined.end - most)


def overlap(start: Array, end: Array, others: Intervals) -> Overlaps:
    """Return where each of any intervals (`left`) meets each of a disjoint list (`right`), in order of `left`."""
    if not len(start) or not len(others):
        nothing = np.empty(0, np.int64)
        return Overlaps(nothing, nothing, nothing, nothing)
    first = np.searchsorted(others.end, start, side="right")
    count = np.searchsorted(others.start, end, side="left")
    count -= first  # in place, here and below: each of these may take a hundred megabytes
    count[end <= start] = 0
    np.maximum(count, 0, out=count)
    left = np.repeat(np.arange(len(start)), count)
    first += count
    first -= np.cumsum(count)
    right = np.repeat(first, count)
    del first, count
    right += np.arange(len(right))
    begin, until = start[left], end[left]
    np.maximum(begin, others.start[right], out=begin)
    np.minimum(until, others.end[right], out=until)
    return Overlaps(begin, until, left, right)


def intersection(some: Intervals, others: Intervals) -> Intervals:
    few, many = (some, others) if len(some) < len(others) else (others, some)
    both = overlap(few.start, few.end, many)
    return Intervals(both.start, both.end)


def difference(some: Intervals, others: Intervals) -> Intervals:
    if not len(some) or not len(others):
        return some
    everything = np.iinfo(np.int64)
    gaps = _drop_empty(np.append(everything.min, others.end), np.append(others.start, everything.max))
    return intersection(some, Intervals(*gaps))


def total(some: Intervals) -> int:
    return int(some.length.sum())


def coverage(some: Intervals, start: Array, end: Array) -> Array:
    """Return how much of each window [start, end) a list covers; the windows may overlap and come in any order."""
    if not len(some):
        return np.zeros(len(start), np.int64)
    covered = np.append(np.int64(0), np.cumsum(some.length))

    def before(moment: Array) -> Array:
        """Return how much is covered before each moment: all intervals begun by then, less what the last has left."""
        begun = np.searchsorted(some.start, moment, side="right")
        left_of_last = some.end[begun - 1] - moment
        return covered[begun] - np.where(begun > 0, np.maximum(left_of_last, 0), 0)

    return before(end) - before(start)


def holder(some: Intervals, moment: Array) -> Array:
    """Return the index of the interval that holds each moment, -1 where none does."""
    last = np.searchsorted(some.start, moment, side="right")
    last -= 1
    last[moment >= np.append(some.end, 0)[last]] = -1
    return last


def first_come(start: Array, end: Array) -> tuple[Intervals, Array]:
    """Give each moment that any intervals cover to one of them: whichever started first keeps it (of two, the longer).

    Returns the disjoint pieces and, for each, the index of the interval that owns it.
    """
    order = None if (start[1:] > start[:-1]).all() else np.lexsort((-end, start))  # events mostly come in order
    if order is not None:
        start, end = start[order], end[order]
    free = start.copy()
    np.maximum(start[1:], np.maximum.accumulate(end)[:-1], out=free[1:])
    kept = free < end
    return Intervals(free[kept], end[kept]), np.flatnonzero(kept) if order is None else order[kept]


def innermost(start: Array, end: Array) -> tuple[Intervals, Array]:
    """Give each moment that nested intervals cover to the innermost of them.

    Returns the disjoint pieces and, for each, the index of the interval that owns it.
    """
    filled = np.flatnonzero(start < end)
    order = filled[np.lexsort((-end[filled], start[filled]))]
    start, end = start[order], end[order]
    parent = find_parents(start, end)
    bounds, ended = np.unique(np.append(end, start), return_index=True)
    # At a bound the last to begin owns what follows or, if it has ended, whichever held the outermost that ends there.
    owner = np.searchsorted(start, bounds, side="right") - 1
    outer = np.append(parent, np.full(len(start), len(start)))[ended]
    still_open = np.append(end, np.iinfo(np.int64).max)
    owner = _find_open(np.where(still_open[owner] > bounds, owner, outer), parent, still_open, bounds)
    begins = np.append(True, owner[1:] != owner[:-1]) if len(owner) else np.zeros(0, bool)
    start_of, owner = bounds[begins], owner[begins]
    kept = owner < len(order)
    pieces, owner = Intervals(start_of[kept], np.append(start_of[1:], start_of[-1:])[kept]), owner[kept]
    # Of intervals that cross one may be missed: what only such cover is given to the first to begin.
    first, first_owner = first_come(start, end)
    missed = difference(first, pieces)
    rest = overlap(missed.start, missed.end, first)
    begin = np.append(pieces.start, rest.start)
    ascending = np.argsort(begin, kind="stable")
    whole = Intervals(begin[ascending], np.append(pieces.end, rest.end)[ascending])
    return whole, order[np.append(owner, first_owner[rest.right])[ascending]]


def find_parents(start: Array, end: Array) -> Array:
    """Return in which of nested intervals each one lies, directly; their number if in none.

    They must not be empty, and be sorted by start, the longer first.
    """
    rows, count = np.arange(len(start)), len(start)
    depth = rows - np.searchsorted(np.sort(end), start, side="right")
    by_depth = np.lexsort((rows, depth))
    key = depth[by_depth] * (count + 1) + by_depth
    parent = np.append(by_depth, count)[np.searchsorted(key, (depth - 1) * (count + 1) + rows) - 1]
    parent[depth == 0] = count
    return _find_open(parent, parent.copy(), np.append(end, np.iinfo(np.int64).max), start)


def _find_open(row: Array, parent: Array, end: Array, moment: Array) -> Array:
    """Go from each interval to its parent until one is still open at a moment; whatever is not nested is soon given up."""
    for _ in range(_MOST_LOOKS):
        closed = np.flatnonzero(end[row] <= moment)
        if not len(closed):
            return row
        row[closed] = parent[row[closed]]
    return np.where(end[row] <= moment, len(end) - 1, row)


def outermost(start: Array, end: Array) -> Array:
    """Return the indices, by ascending start, of the intervals that begin when all earlier ones have ended."""
    order = np.lexsort((-end, start))
    free = np.ones(len(order), bool)
    free[1:] = start[order][1:] >= np.maximum.accumulate(end[order])[:-1]
    return order[free]


def _drop_empty(start: Array, end: Array) -> tuple[Array, Array]:
    kept = start < end
    return (start, end) if kept.all() else (start[kept], end[kept])
