"""Collectives of several ranks, matched within each process group: who waited there for whom, and for how long.

The ranks of a group leave a collective together. What one of them does until the group's next one begins is its own time, and
those that need less of it than the slowest wait for it there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from speedproof.results.trace_results import Wait
from speedproof.util.numbers import format_count
from speedproof.util.units import NS_PER_S

APART = (
    "the ranks do not end their communication together, as one process group does: the traces are of several groups that they "
    "do not name, or of several runs; which rank waits for which is unknown"
)
NOT_GIVEN = "waiting for ranks whose traces were not given is not counted"
_BETWEEN_TWO = ("send", "recv")  # collectives of two ranks, of which the sender may leave first
_FROM_ONE = ("broadcast", "reduce")  # one rank may leave these before the others come
_OF_WAITING, _OF_TIME = 0.5, 0.02  # by so much, in all, may ranks leave their collectives at different times


@dataclass(frozen=True)
class _Group:
    """A process group, and the places of those traces that are of its ranks."""

    name: str
    members: str
    traces: list[int]

    @property
    def label(self) -> str | None:
        return f"{self.name} ({self.members})" if self.members else None


class _Times:
    """Whether ranks leave their collectives together: sums over all of them, in nanoseconds."""

    def __init__(self) -> None:
        self.late_ns = self.waited_ns = self.lasted_ns = 0

    def add(self, operation: pd.Series, end_ns: NDArray[np.int64], waited_ns: NDArray[np.int64]) -> None:
        """Take the collectives of a group in an epoch: a row of ends, and of waiting, for each rank."""
        ends = end_ns[:, ~operation.isin(_FROM_ONE).to_numpy()]
        if ends.shape[1] < 2:
            return
        self.late_ns += int(np.ptp(np.diff(ends, axis=1), axis=0).sum())
        self.waited_ns += int(waited_ns.max(axis=0).sum())
        self.lasted_ns += int(ends[0, -1] - ends[0, 0])

    @property
    def are_apart(self) -> bool:
        return self.late_ns > max(_OF_WAITING * self.waited_ns, _OF_TIME * self.lasted_ns)


@dataclass(frozen=True)
class Matched:
    """What the ranks' collectives show of each epoch."""

    waits: list[Wait] = field(default_factory=list)
    pairs_ns: dict[int, NDArray[np.int64]] = field(default_factory=dict)  # by epoch: how long each (row) waited for each
    unmatched: list[int] = field(default_factory=list)  # epochs in which the ranks of a group show different collectives
    joined: frozenset[int] = frozenset()  # places of the traces in a group that counts
    notes: list[str] = field(default_factory=list)
    apart: bool = False  # the ranks do not leave their collectives together


def match_collectives(collectives: Sequence[pd.DataFrame], ranks: Sequence[int], epochs: int) -> Matched:
    """Return who waited for whom in each epoch.

    Args:
        collectives: those of each trace, in order: epoch, part, step, operation, group, members, start_ns, end_ns, and
            epoch_start_ns
        ranks: the number of each trace's rank
        epochs: how many there are

    """
    groups, notes = _find_groups(collectives, ranks)
    chosen = [[_choose(collectives[place], group) for place in group.traces] for group in groups]
    waits, pairs_ns, unmatched, times = list[Wait](), dict[int, NDArray[np.int64]](), list[int](), _Times()
    for epoch in range(1, epochs + 1):
        tables = [[table[table["epoch"] == epoch] for table in of_group] for of_group in chosen]
        if not all(_keys(table) == _keys(of_group[0]) for of_group in tables for table in of_group[1:]):
            unmatched.append(epoch)
            continue
        pairs_ns[epoch] = np.zeros((len(ranks), len(ranks)), np.int64)
        for group, of_group in zip(groups, tables, strict=True):
            if of_group[0].empty:
                continue
            compute, ends = (np.stack([table[name] for table in of_group]) for name in ("compute_ns", "end_ns"))
            waited = compute.max(axis=0) - compute  # (ranks, collectives)
            slowest = np.array(group.traces)[compute.argmax(axis=0)]
            for place, lengths in zip(group.traces, waited, strict=True):
                np.add.at(pairs_ns[epoch][place], slowest, lengths)
            waits.extend(_list_waits(of_group[0], compute, [ranks[place] for place in group.traces], group.label))
            times.add(of_group[0]["operation"], ends, waited)
    joined = frozenset(place for group in groups for place in group.traces)
    return Matched(waits, pairs_ns, unmatched, joined, notes, times.are_apart)


def _find_groups(collectives: Sequence[pd.DataFrame], ranks: Sequence[int]) -> tuple[list[_Group], list[str]]:
    """Return the groups that have two or more traces, and what is not counted; without names all traces are one group."""
    rows = pd.concat([table[table["epoch"] > 0] for table in collectives], ignore_index=True)
    if not (rows["group"] + rows["members"]).any():
        return [_Group("", "", [*range(len(ranks))])], []
    unknown, of_two = rows["members"] == "", rows["operation"].isin(_BETWEEN_TWO)
    notes = []
    if count := int(unknown.sum()):
        kernels = format_count(count, "communication kernel")
        notes.append(f"not counted: {kernels} for which the traces do not show the ranks that take part")
    if count := int((of_two & ~unknown).sum()):
        notes.append(f"not counted: {format_count(count, 'kernel')} that send or receive between two ranks")
    groups, alone, partly = [], 0, 0
    for name, members in rows.loc[~unknown & ~of_two, ["group", "members"]].drop_duplicates().itertuples(index=False):
        numbers = set(map(int, members.split()))
        places = [place for place, rank in enumerate(ranks) if rank in numbers]
        if len(places) > 1:
            groups.append(_Group(name, members, places))
            partly += len(places) < len(numbers)
        else:
            alone += len(numbers) > 1
    if alone:
        notes.append(f"not counted: {format_count(alone, 'process group')} of which only one rank's trace was given")
    if partly:
        notes.append(NOT_GIVEN)
    if len(groups) > 1:
        notes.append(
            f"ranks are compared within each of {len(groups)} process groups; waiting in several of them at once counts in each"
        )
    return groups, notes


def _choose(table: pd.DataFrame, group: _Group) -> pd.DataFrame:
    """Return a rank's collectives of a group, with `compute_ns`: since the one before it, or since the epoch began."""
    mine = (table["group"] == group.name) & (table["members"] == group.members)
    table = table[mine & (~table["operation"].isin(_BETWEEN_TWO) | (group.members == ""))]
    start, end = table["start_ns"].to_numpy(), np.maximum.accumulate(table["end_ns"].to_numpy())
    epoch = table["epoch"].to_numpy()
    first = np.append(True, epoch[1:] != epoch[:-1])[: len(epoch)]
    before = np.where(first, table["epoch_start_ns"], np.append(0, end[:-1])[: len(end)])
    return table.assign(compute_ns=np.maximum(start - before, 0))


def _keys(table: pd.DataFrame) -> list[tuple[str, int, str]]:
    """Return what the collectives of an epoch belong to, in order: equal on every rank if the collectives are."""
    return list(zip(table["part"], table["step"], table["operation"], strict=True))


def _list_waits(table: pd.DataFrame, compute: NDArray[np.int64], ranks: Sequence[int], group: str | None) -> list[Wait]:
    """Return, for each part and step of an epoch, what each rank computed and waited.

    Args:
        table: the collectives of one of the ranks
        compute: how long each rank (row) computed before each collective
        ranks: their numbers
        group: their group, if it is known

    """
    waited = compute.max(axis=0) - compute
    place, places = pd.MultiIndex.from_frame(table[["part", "step"]]).factorize()
    order = np.argsort(place, kind="stable")  # collectives of one place lie together: their sums are one pass
    begin = np.searchsorted(place[order], np.arange(len(places)))
    computed_ns, waited_ns = (np.add.reduceat(values[:, order], begin, axis=1) for values in (compute, waited))
    return [
        Wait(
            epoch=int(table["epoch"].iloc[0]),
            part=part,
            step=int(step) or None,
            rank=rank,
            compute_s=computed_ns[row, at] / NS_PER_S,
            waited_s=waited_ns[row, at] / NS_PER_S,
            slowest=ranks[int(computed_ns[:, at].argmax())],
            group=group,
        )
        for at, (part, step) in enumerate(places)
        for row, rank in enumerate(ranks)
    ]
