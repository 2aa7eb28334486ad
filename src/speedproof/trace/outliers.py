"""The longest gaps of the GPU and the slowest iterations: when they are in the profiler's own window, and why they are long."""

from collections import Counter
from collections.abc import Collection, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from speedproof.results.summary import Epoch, Gap, Share, SlowEpoch, count_warm_up
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
    pieces = idle_gaps.sort_values("start_ns", ignore_index=True)
    start, end, epoch = (pieces[name].to_numpy() for name in ("start_ns", "end_ns", "epoch"))
    part = pieces["part"].array.codes
    first = np.ones(len(pieces), bool)
    first[1:] = (start[1:] != end[:-1]) | (epoch[1:] != epoch[:-1]) | (part[1:] != part[:-1])
    gap, opening = np.cumsum(first) - 1, np.flatnonzero(first)
    length = end - start
    total = np.bincount(gap, length)
    chosen = np.argsort(-total, kind="stable")[:_MOST_GAPS]
    opened, closing = opening[chosen], np.append(opening[1:], len(pieces))[chosen] - 1
    shares = pieces.assign(gap=gap, length=length)[np.isin(gap, chosen)]
    shares = shares.groupby(["gap", "cause", "detail"], observed=True)["length"].sum().reset_index()
    most = shares.sort_values("length", kind="stable").drop_duplicates("gap", keep="last").set_index("gap")
    kernels = activity.loc[activity["kernel"], ["name", "start_ns", "end_ns"]]
    before, after = _name_neighbours(kernels, start[opened], end[closing])
    return [
        Gap(
            epoch=int(epoch[place]),
            part=pieces["part"].array[place],
            start_s=(int(start[place]) + zero_ns) / NS_PER_S,
            duration_s=float(total[number]) / NS_PER_S,
            cause=most.at[number, "cause"],
            detail=most.at[number, "detail"],
            share=float(most.at[number, "length"] / total[number]),
            before=previous,
            after=following,
        )
        for number, place, previous, following in zip(chosen.tolist(), opened, before, after, strict=True)
    ]


def _name_neighbours(kernels: pd.DataFrame, start: Array, end: Array) -> tuple[list[str], list[str]]:
    """Return the kernels that ended last before each gap and started first after it; empty where none did."""
    names = [*map(str, kernels["name"].array.categories), ""]
    codes = np.append(kernels["name"].array.codes, len(names) - 1)
    by_end = np.append(np.argsort(kernels["end_ns"].to_numpy(), kind="stable"), len(kernels))
    last = by_end[np.searchsorted(np.sort(kernels["end_ns"].to_numpy()), start, side="right") - 1]  # -1: none, the last entry
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
