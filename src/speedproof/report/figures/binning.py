"""Intervals by the hundred thousand, drawn as a few hundred bins."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from speedproof.trace.intervals import coverage, union

AnyArray = NDArray[Any]


def busy_shares(starts: AnyArray, ends: AnyArray, edges: AnyArray) -> AnyArray:
    """Return the share of each bin that at least one interval covers, 0 to 1.

    `starts` and `ends` (n) need no order and may overlap; `edges` (bins + 1) must rise.
    """
    return coverage(union(starts, ends), edges[:-1], edges[1:]) / np.diff(edges)


def run_lengths(labels: AnyArray) -> list[tuple[int, int, int]]:
    """Return `(label, first, length)` of each run of equal labels."""
    firsts = np.flatnonzero(np.r_[True, labels[1:] != labels[:-1]])
    lengths = np.diff(np.r_[firsts, len(labels)])
    return [(int(labels[first]), int(first), int(length)) for first, length in zip(firsts, lengths, strict=True)]
