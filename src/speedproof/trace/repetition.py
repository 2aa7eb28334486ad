"""Iterations of a loop without ranges: repeated equal sequences of launches between two launches of one kernel.

Ranges and their names can stand for launches and kernels here.

Each kernel, and each pair of consecutive kernels, cuts the sequence of launches into pieces.
The cut whose equal pieces hold most launches marks the loop. Among cuts with about as many launches, one with adjacent pieces
is preferred: otherwise a part of an iteration would count as all of it. Among these, the cut with most pieces is taken:
otherwise several iterations would count as one.
Pieces are equal if they launch the same kernels, each as often, in any order.
A piece with a single kernel is not a loop, unless hardly any other is launched in between.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from speedproof.trace.intervals import Array, Intervals

FEWEST = 3  # equal pieces make a loop
_OF_SPAN = 0.5  # of the launches from the first equal piece to the last must lie in one of them
_OF_ALL = 0.25  # of all launches
_ABOUT = 0.9  # of the most launches: as good a mark
_OF_ADJACENT = 0.5  # of the largest share of pieces that are followed by an equal one
_MOSTLY = 0.9  # of the launches from the first to the last of the only kernel of a loop must be its own
_UNLIKE = 4  # times as long as the shorter quarter may iterations of the longer quarter be
_MOST_MARKS = 5000
_SEED = 0


@dataclass(frozen=True)
class Repetition:
    """Pieces that repeat, in order; they may lie apart."""

    pieces: Intervals
    launches: int  # in each piece
    others: int  # pieces between the first and the last of them that differ, or are of no length
    share: float  # of the launches from the first to the last of them
    first: Array  # the row of each piece's first launch
    last: int  # the row at which one more begins, whose end no launch shows; -1 if none does

    def share_of(self, length: Array, kernel: Array) -> float:
        """Return which share of some lengths, one a launch, the pieces hold, between the first and the last of them, or of all.

        The smaller of both; of all, what comes but once or twice is start-up, and does not count. The first and the last piece
        may be cut, and so do not count as missing.
        """
        summed = np.append(0, np.cumsum(length))
        held = int((summed[self.first + self.launches] - summed[self.first]).sum())
        between = int(summed[self.first[-1] + self.launches] - summed[self.first[0]])
        recurring = int(length[np.bincount(kernel)[kernel] >= FEWEST].sum())
        return min(held / max(between, 1), held * (1 + 2 / len(self.first)) / max(recurring, 1), 1.0)


@dataclass(frozen=True)
class _Mark:
    """Where the row of launches is cut, and which of the pieces are equal."""

    at: Array
    equal: NDArray[np.bool_]
    launches: int

    @property
    def held(self) -> int:
        return int(self.equal.sum()) * self.launches

    @property
    def begins(self) -> Array:
        """The row of each equal piece's first launch."""
        return self.at[:-1][self.equal]

    @property
    def adjacent(self) -> float:
        """The share of the equal pieces but the last that are followed by another one."""
        return float((self.equal[:-1] & self.equal[1:]).sum() / max(self.equal.sum() - 1, 1))


def find_repetition(kernel: Array, moment: Array, waited: Array | None = None) -> Repetition | None:
    """Find the pieces that repeat; None if nothing repeats.

    Args:
        kernel: the number of each launch's kernel, in order of launch
        moment: when each was launched
        waited: for how long nothing went on before each launch; None: since the one before it

    """
    marks = [mark for mark in _list_marks(kernel) if int(mark.equal.sum()) >= FEWEST and mark.launches > 1]
    most = max((mark.held for mark in marks), default=0)
    if most < max(_OF_ALL * len(kernel), 1):
        return None
    good = [mark for mark in marks if mark.held >= _ABOUT * most]
    least = _OF_ADJACENT * max(mark.adjacent for mark in good)
    good = [mark for mark in good if mark.adjacent >= least]
    pieces = max(int(mark.equal.sum()) for mark in good)
    good = [mark for mark in good if int(mark.equal.sum()) >= _ABOUT * pieces]
    # An iteration begins where the loop had waited longest: for data, mostly. Of equals, with the first launch of all.
    waited = np.append(0, np.diff(moment)) if waited is None else waited
    best = max(good, key=lambda mark: (np.median(waited[mark.begins]), -int(mark.begins[0])))
    first, last = np.flatnonzero(best.equal)[[0, -1]]
    share = best.held / int(best.at[last + 1] - best.at[first])
    if share < _OF_SPAN:
        return None
    start, end = moment[best.at[:-1]][best.equal], moment[best.at[1:]][best.equal]
    lasting = start < end
    if not lasting.any():
        return None
    others = int(last - first + 1 - lasting.sum())
    rows, tail = best.begins, int(best.at[-1])
    one, cut = (np.sort(kernel[row : row + best.launches]) for row in (rows[0], tail))
    whole = np.array_equal(one, cut)
    return Repetition(
        Intervals(start[lasting], end[lasting]), best.launches, others, share, rows[lasting], tail if whole else -1
    )


def find_single_kernel(kernel: Array, moment: Array) -> Repetition | None:
    """Find the launches of the one kernel of which a loop consists; None if others are launched as well, or unevenly."""
    if len(kernel) <= FEWEST:
        return None
    rows = np.flatnonzero(kernel == np.bincount(kernel).argmax())
    share = len(rows) / int(rows[-1] + 1 - rows[0])
    start, end = moment[rows[:-1]], moment[rows[1:]]
    lasting = start < end
    if len(rows) <= FEWEST or share < _MOSTLY or not are_alike(end[lasting] - start[lasting]):
        return None
    pieces, others = Intervals(start[lasting], end[lasting]), int((~lasting).sum())
    return Repetition(pieces, 1, others, share, rows[:-1][lasting], int(rows[-1]))


def are_alike(length: Array) -> bool:
    """Return whether there are some, and the middle half of them are of about one length: layers are not, iterations are."""
    if not len(length):
        return False
    short, long = np.percentile(length, [25, 75])
    return bool(long <= _UNLIKE * short)


def _list_marks(kernel: Array) -> Iterator[_Mark]:
    """Yield what each kernel, and each pair of kernels, cuts the row into."""
    if not len(kernel):
        return
    # A piece's sum of random numbers, one a kernel, tells what it launches, in any order.
    numbers = np.random.default_rng(_SEED).integers(1, 1 << 62, int(kernel.max()) + 1, dtype=np.uint64)
    sums = np.append(np.uint64(0), np.cumsum(numbers[kernel], dtype=np.uint64))
    pairs = kernel[:-1].astype(np.int64) * (int(kernel.max()) + 1) + kernel[1:]
    for marks in (kernel, pairs):
        order = np.argsort(marks, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(marks[order])) + 1)
        for at in [group for group in groups if len(group) > FEWEST][:_MOST_MARKS]:
            length, content = np.diff(at), np.diff(sums[at])
            _, first, which, count = np.unique(content, return_index=True, return_inverse=True, return_counts=True)
            best = int(np.argmax(count * np.where(length[first] > 1, length[first], 0)))  # a single kernel is not a loop
            yield _Mark(at, which == best, int(length[first[best]]))
