"""Intervals by the hundred thousand, drawn as a few hundred bins."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def busy_shares(starts: Array, ends: Array, edges: Array) -> Array:
    """Return the share of each bin that at least one interval covers, 0 to 1.

    `starts` and `ends` (n) need no order and may overlap; `edges` (bins + 1) must rise.
    """
    if len(starts) == 0:
        return np.zeros(len(edges) - 1)
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    # Where an interval begins after everything before it has ended, a new stretch of the union begins.
    first = np.flatnonzero(np.r_[True, starts[1:] > ends[:-1]])
    last = np.r_[first[1:] - 1, len(ends) - 1]
    starts, ends = starts[first], ends[last]
    # Covered time up to each edge: whole stretches that began before it, less what the last of them has beyond it.
    covered = np.r_[0, np.cumsum(ends - starts)]
    begun = np.searchsorted(starts, edges, side="right")
    beyond = np.where(begun > 0, np.maximum(ends[begun - 1] - edges, 0), 0)
    return np.diff(covered[begun] - beyond) / np.diff(edges)


def run_lengths(labels: Array) -> list[tuple[int, int, int]]:
    """Return `(label, first, length)` of each run of equal labels."""
    firsts = np.flatnonzero(np.r_[True, labels[1:] != labels[:-1]])
    lengths = np.diff(np.r_[firsts, len(labels)])
    return [(int(labels[first]), int(first), int(length)) for first, length in zip(firsts, lengths, strict=True)]
