"""The longest gaps of the GPU and the slowest iterations: when they are in the profiler's own window, and why they are long."""

from collections import Counter
from collections.abc import Collection, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from speedproof.results.summary import Epoch, Gap, Share, SlowEpoch, count_warm_up
from speedproof.trace.events import bounds_of
from speedproof.trace.intervals import Array
from speedproof.util.units import NS_PER_S

_MOST_GAPS = 20
_MOST_EPOCHS = 10
_FEW = 3  # of fewer iterations of a kind none is the typical one


def list_gaps(idle_gaps: pd.DataFrame, activity: pd.DataFrame, zero_ns: int) -> list[Gap]:
    """Return the longest stretches of the epochs in which no kernel runs, copies or none, the longest first.

    `zero_ns` is where the trace's zero lies on the profiler's clock.
    """
    if idle_gaps.empty:
        return []
    longest = _take_longest(idle_gaps)
    starts, ends = bounds_of(idle_gaps)
    start, end = starts[[rows[0] for rows in longest]], ends[[rows[-1] for rows in longest]]
    kernels = activity.loc[activity["kernel"], ["name", "start_ns", "end_ns"]]
    before, after = _name_neighbours(kernels, start, end)
    lengths, epoch, part = ends - starts, idle_gaps["epoch"].to_numpy(), idle_gaps["part"].array
    cause, detail = idle_gaps["cause"].array, idle_gaps["detail"].array
    gaps = []
    for rows, begin, previous, following in zip(longest, start.tolist(), before, after, strict=True):
        of_cause, of_detail, most_ns = _find_largest(cause.codes[rows], detail.codes[rows], lengths[rows])
        total_ns = int(lengths[rows].sum())
        gaps.append(
            Gap(
                epoch=int(epoch[rows[0]]),
                part=part[rows[0]],
                start_s=(begin + zero_ns) / NS_PER_S,
                duration_s=total_ns / NS_PER_S,
                cause=cause.categories[of_cause],
                detail=detail.categories[of_detail],
                share=most_ns / total_ns,
                before=previous,
                after=following,
            )
        )
    return gaps


def _take_longest(idle_gaps: pd.DataFrame) -> list[Array]:
    """Return the rows of the pieces of each of the longest gaps, in order."""
    order = np.argsort(idle_gaps["start_ns"].to_numpy(), kind="stable")
    start, end, epoch = (idle_gaps[name].to_numpy()[order] for name in ("start_ns", "end_ns", "epoch"))
    part = idle_gaps["part"].array.codes[order]
    first = np.ones(len(order), bool)
    first[1:] = (start[1:] != end[:-1]) | (epoch[1:] != epoch[:-1]) | (part[1:] != part[:-1])
    opening = np.flatnonzero(first)
    closing = np.append(opening[1:], len(order)) - 1
    chosen = np.argsort(start[opening] - end[closing], kind="stable")[:_MOST_GAPS]
    bounds = zip(opening[chosen].tolist(), closing[chosen].tolist(), strict=True)
    return [order[opened : closed + 1] for opened, closed in bounds]


def _find_largest(causes: Array, details: Array, lengths: Array) -> tuple[int, int, int]:
    """Return the cause and detail, by number, that fill most of a gap, and how much; the last of equals."""
    sums: Counter[tuple[int, int]] = Counter()
    for cause, detail, length in zip(causes.tolist(), details.tolist(), lengths.tolist(), strict=True):
        sums[cause, detail] += length
    most_ns, (cause, detail) = max((ns, kind) for kind, ns in sums.items())
    return cause, detail, most_ns


def _name_neighbours(kernels: pd.DataFrame, start: Array, end: Array) -> tuple[list[str], list[str]]:
    """Return the kernels that ended last before each gap and started first after it; empty where none did."""
    names = [*map(str, kernels["name"].array.categories), ""]
    codes = np.append(kernels["name"].array.codes, len(names) - 1)
    ends = kernels["end_ns"].to_numpy()
    by_end = np.append(np.argsort(ends, kind="stable"), len(kernels))
    last = by_end[np.searchsorted(ends, start, side="right", sorter=by_end[:-1]) - 1]  # -1: none, the last entry
    following = np.searchsorted(kernels["start_ns"].to_numpy(), end)
    return [names[code] for code in codes[last]], [names[code] for code in codes[following]]


def list_slowest(epochs: list[Epoch], account: list[Share], zero_ns: int) -> list[SlowEpoch]:
    """Return the epochs that take longest beside the typical one of their kind, and the term that grew most.

    Epochs that validate, and those that do not, are of two kinds; one that warms up counts among none.
    """
    counted = epochs[count_warm_up(len(epochs)) :]
    distinct = dict.fromkeys((share.kind, share.part, share.name) for share in account)
    terms = {term: number for number, term in enumerate(distinct)}
    lengths: Counter[tuple[int, int]] = Counter()  # by epoch and term
    for share in account:
        lengths[share.epoch, terms[share.kind, share.part, share.name]] += share.total_ns
    slowest: list[SlowEpoch] = []
    for validates in (False, True):
        kind = [epoch for epoch in counted if epoch.validates is validates]
        if len(kind) < _FEW or not terms:
            continue
        typical_s = float(np.median([epoch.duration_s for epoch in kind]))
        typical_ns = _find_typical(lengths, {epoch.index for epoch in kind}, len(terms))
        for epoch in sorted(kind, key=lambda epoch: -epoch.duration_s)[:_MOST_EPOCHS]:
            grown = np.array([lengths.get((epoch.index, term), 0) for term in range(len(terms))]) - typical_ns
            term_kind, part, name = list(terms)[grown.argmax()]
            slowest.append(
                SlowEpoch(
                    epoch=epoch.index,
                    start_s=(epoch.start_ns + zero_ns) / NS_PER_S,
                    duration_s=epoch.duration_s,
                    longer_s=epoch.duration_s - typical_s,
                    kind=term_kind,
                    part=part,
                    name=name,
                    term_longer_s=float(grown.max()) / NS_PER_S,
                )
            )
    longer = [epoch for epoch in slowest if epoch.longer_s > 0]
    return sorted(longer, key=lambda epoch: -epoch.longer_s)[:_MOST_EPOCHS]


def _find_typical(lengths: Mapping[tuple[int, int], int], epochs: Collection[int], terms: int) -> NDArray[np.float64]:
    """Return each term's median over these epochs, 0 where an epoch has none of it; epochs times terms may be far too many."""
    values: list[list[int]] = [[] for _ in range(terms)]
    for (epoch, term), total_ns in lengths.items():
        if epoch in epochs:
            values[term].append(total_ns)
    most = len(epochs)
    medians = [np.median([*some, *[0] * (most - len(some))]) if 2 * len(some) >= most else 0.0 for some in values]
    return np.array(medians, np.float64)
