"""Who waits for whom among the ranks of a run, and how much of their communication is hidden behind other work.

Each rank's trace has its own clock, so only lengths are compared. Ranks leave a collective, and begin an epoch, together:
what a rank does between two collectives is its own compute, and the ranks that computed less than the slowest one waited
for it. On a GPU a collective is a communication kernel; the slowest rank's is short, the others' spin until it comes. A trace
without any shows no communication (gloo's runs on the processor, where no range marks it). In such a trace the backward
phase, in which gradients are averaged, counts as the step's collective; its own computing is not separated from waiting.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from speedproof.results.files import write_sealed
from speedproof.results.summary import WARM_UP_NEEDS_EPOCHS, Found
from speedproof.results.trace_results import RANKS_FILE, Basis, RanksSummary, RankTimes, Wait, WaitedFor
from speedproof.trace.attribution import attribute_activity
from speedproof.trace.events import Trace, read_events, with_names
from speedproof.trace.intervals import Intervals, holder
from speedproof.trace.iterations import Choice
from speedproof.trace.kernel_groups import is_communication, measure_communication
from speedproof.trace.loop import Loop, find_loop
from speedproof.util.errors import RecordError
from speedproof.util.progress_bar import SOON_S, report_progress
from speedproof.util.units import NS_PER_S

NO_COMMUNICATION = "no communication among GPUs in these traces: which rank waits for which is unknown"
NO_GPU_COMMUNICATION = (
    "no GPU communication in this trace: how much of it is hidden is unknown, and the backward phase, which contains it, "
    "counts as each step's collective"
)

_ALIKE = 0.5  # of two ranks' kinds of kernels: ranks of one run have as many in common
_MOST_NAMED = 5
_OUTSIDE_STEPS = 0  # in place of a step's number


@dataclass(frozen=True)
class _Rank:
    """What of one rank's trace is compared with the others': its events are let go of before the next one's are read."""

    profiler: str
    found: Found
    kernels: frozenset[str]  # their names, communication's apart
    epochs: Intervals
    reaches: bool  # they last from start to start, not as long as their ranges
    collectives: dict[Basis, pd.DataFrame]
    communicates: bool
    communication_s: float  # an epoch
    exposed_s: float  # of it, an epoch


@dataclass(frozen=True)
class _Matched:
    """What the ranks' collectives show of each epoch."""

    waits: list[Wait]
    pairs_ns: dict[int, NDArray[np.int64]]  # by epoch, for each rank (row) how long it waited for each (column)
    unmatched: list[int]  # epochs


def _read_ranks(trace: Path, alone: bool, as_marked: bool) -> list[_Rank]:
    """Read a rank's trace; one that is alone holds all ranks, a process with a GPU each, in the order of their GPUs."""
    events = read_events(trace)
    if not alone:
        return [_read_rank(events, Choice(as_marked=as_marked))]
    first = events.activity.groupby("process")["device"].min().sort_values(kind="stable")
    if len(first) < 2:
        raise RecordError(trace, f": {len(first) or 'no'} process with a GPU, not several ranks; give each rank's trace")
    return [_read_rank(events, Choice(process=int(process), as_marked=as_marked)) for process in first.index]


def _read_rank(events: Trace, choice: Choice) -> _Rank:
    loop = find_loop(events, choice)
    if loop.lacking is not None:
        raise RecordError(events.folder, f": {loop.lacking}")
    activity = attribute_activity(events, loop)
    kernels = activity[activity["kernel"] & (activity["process"] == loop.process)]
    communication = with_names(kernels, is_communication)
    others = kernels.drop(communication.index)
    whole_s, exposed_s = measure_communication(kernels, _counted(loop.spans))
    return _Rank(
        profiler=events.info.profiler,
        found=loop.iterations.found,
        kernels=frozenset(others["name"].cat.remove_unused_categories().cat.categories.astype(str)),
        epochs=loop.spans,
        reaches=loop.iterations.ranges is not None,
        collectives={basis: _find_collectives(loop, communication, basis) for basis in get_args(Basis)},
        communicates=not communication.empty,
        communication_s=whole_s,
        exposed_s=exposed_s,
    )


def _counted(epochs: Intervals) -> Intervals:
    """Return the epochs that count: of several, all but the first, which warms up."""
    first = 1 if len(epochs) >= WARM_UP_NEEDS_EPOCHS else 0
    return Intervals(epochs.start[first:], epochs.end[first:])


def summarize_ranks(
    traces: Sequence[Path], open_trace: Callable[[Path], AbstractContextManager[Path]] = nullcontext
) -> RanksSummary:
    """Say who waits for whom.

    Args:
        traces: the folder of each rank's trace, in order; or of one trace with a process for each rank
        open_trace: what makes such a folder of what `traces` names, for as long as it is read; one after the other

    Raises:
        RecordError: a trace is missing or holds nothing, or they are not of the ranks of one run

    """

    def read(as_marked: bool) -> list[_Rank]:
        ranks: list[_Rank] = []
        with report_progress("ranks", len(traces), "traces read", after_s=SOON_S) as advance:
            for trace in traces:
                with open_trace(trace) as folder:
                    ranks += _read_ranks(folder, len(traces) == 1, as_marked)
                advance(1)
        return ranks

    ranks = read(as_marked=False)
    if len({rank.reaches for rank in ranks}) > 1:  # what fills one rank's ranges nearly may fill another's quite
        ranks = read(as_marked=True)
    return compare_ranks([str(traces[0])] * len(ranks) if len(traces) == 1 else list(map(str, traces)), ranks)


def _check_related(traces: Sequence[str], ranks: Sequence[_Rank]) -> None:
    """Raise a :class:`RecordError` unless the traces may be of one run's ranks."""
    first = ranks[0]
    for number, (trace, rank) in enumerate(zip(traces, ranks, strict=True)):
        common, kinds = len(first.kernels & rank.kernels), len(first.kernels | rank.kernels)
        if rank.found.name != first.found.name:
            fault = f"its iterations are `{rank.found.name}`, rank 0's `{first.found.name}`"
        elif common < _ALIKE * kinds:
            fault = f"it has {common} of {kinds} kinds of kernels in common with rank 0"
        elif rank.communicates != first.communicates:
            fault = "only one of it and rank 0 shows communication"
        elif len(rank.epochs) != len(first.epochs):
            fault = f"it holds {len(rank.epochs)} {rank.found.unit}s, rank 0 {len(first.epochs)}"
        else:
            continue
        raise RecordError(trace, f": rank {number} is of another run: {fault}; give the traces of one run")


def compare_ranks(traces: Sequence[str], ranks: Sequence[_Rank]) -> RanksSummary:
    """Summarize ranks whose traces were read already, as :func:`summarize_ranks` does."""
    _check_related(traces, ranks)
    communicates = ranks[0].communicates
    basis: Basis = "communication kernels" if communicates else "backward phase"
    found = ranks[0].found
    matched = _Matched([], {}, [])
    # On GPUs, what communicates shows: without it nobody waits for anybody.
    knows = communicates or not any(rank.kernels for rank in ranks)
    notes = [NO_COMMUNICATION] if not knows else [] if communicates else [NO_GPU_COMMUNICATION]
    if knows:
        matched = _match_collectives([rank.collectives[basis] for rank in ranks], len(ranks[0].epochs))
    if matched.unmatched:
        notes.append(_describe_unmatched(matched.unmatched, found, len(ranks[0].epochs)))
    waits = matched.waits if knows and len(matched.unmatched) < len(ranks[0].epochs) else None
    left_out = len(ranks[0].epochs) - len(_counted(ranks[0].epochs))
    return RanksSummary(
        profiler=ranks[0].profiler,
        basis=basis,
        ranks=[_time_rank(number, rank, waits, matched.unmatched) for number, rank in enumerate(ranks)],
        waits=waits or [],
        waited_for=_sum_pairs({epoch: pairs for epoch, pairs in matched.pairs_ns.items() if epoch > left_out}),
        unit=found.unit,
        unmatched=matched.unmatched,
        notes=notes,
    )


def _describe_unmatched(unmatched: Sequence[int], found: Found, epochs: int) -> str:
    named = [*map(str, unmatched[:_MOST_NAMED]), *(["…"] if len(unmatched) > _MOST_NAMED else [])]
    return (
        f"waiting is not counted in {len(unmatched)} of {epochs} {found.plural}, in which the ranks show different collectives "
        f"({', '.join(named)})"
    )


def _sum_pairs(pairs_ns: Mapping[int, NDArray[np.int64]]) -> list[WaitedFor]:
    """Return how long each rank waits for each other one in an epoch, the longest first.

    Args:
        pairs_ns: by epoch, for each rank (row) how long it waited for each (column)

    """
    if not pairs_ns:
        return []
    mean_s = np.mean([*pairs_ns.values()], axis=0) / NS_PER_S
    pairs = [
        WaitedFor(rank=rank, slowest=slowest, waited_s=float(mean_s[rank, slowest]))
        for rank, slowest in np.argwhere(mean_s > 0).tolist()
    ]
    return sorted(pairs, key=lambda pair: -pair.waited_s)


def _match_collectives(collectives: Sequence[pd.DataFrame], epochs: int) -> _Matched:
    """Return who waited in each epoch, and the epochs in which the ranks show different collectives."""
    by_epoch = [dict(list(table.groupby("epoch"))) for table in collectives]
    nothing = collectives[0].iloc[:0]
    found = _Matched([], {}, [])
    for epoch in range(1, epochs + 1):
        tables = [tables.get(epoch, nothing) for tables in by_epoch]
        if not all(_keys(table) == _keys(tables[0]) for table in tables[1:]):
            found.unmatched.append(epoch)
            continue
        found.waits.extend(_list_waits(tables, epoch))
        compute = np.stack([table["compute_ns"].to_numpy(np.int64) for table in tables])  # (ranks, collectives)
        pairs = np.zeros((len(tables), len(tables)), np.int64)
        if compute.size:
            np.add.at(pairs.T, compute.argmax(axis=0), (compute.max(axis=0) - compute).T)
        found.pairs_ns[epoch] = pairs
    return found


def _time_rank(number: int, rank: _Rank, waits: Sequence[Wait] | None, unmatched: Sequence[int]) -> RankTimes:
    """Return a rank's times in an epoch that counts; without `waits` nothing is known of its waiting."""
    counted = _counted(rank.epochs)
    left_out = len(rank.epochs) - len(counted)
    waited = [wait for wait in waits or () if wait.rank == number and wait.epoch > left_out]
    seen = len(counted) - sum(epoch > left_out for epoch in unmatched)
    return RankTimes(
        rank=number,
        epoch_s=fmean(counted.length.tolist()) / NS_PER_S,
        waited_s=None if waits is None or not seen else sum(wait.waited_s for wait in waited) / seen,
        communication_s=rank.communication_s if rank.communicates else None,
        exposed_s=rank.exposed_s if rank.communicates else None,
    )


def write_ranks_summary(summary: RanksSummary, folder: Path) -> None:
    write_sealed(folder / RANKS_FILE, summary)


def _find_collectives(loop: Loop, communication: pd.DataFrame, basis: Basis) -> pd.DataFrame:
    """Return a rank's collectives inside the epochs, in order: epoch, part, step, compute_ns (since the one before)."""
    phases = loop.phases
    backward = phases.index[(phases["name"] == "backward") & (phases["part"] == "training")]
    if basis == "backward phase":
        events, phase = phases.loc[backward], backward.to_numpy()
        asked_ns = events["start_ns"].to_numpy()
    else:
        events, phase = communication, communication["phase"].to_numpy()
        # By its launch, if known: the delay until the GPU starts it differs from rank to rank.
        asked_ns = events["launch_end_ns"].where(events["launch_end_ns"] >= 0, events["start_ns"]).to_numpy()
    start, end = events["start_ns"].to_numpy(), np.maximum.accumulate(events["end_ns"].to_numpy())
    epoch = holder(loop.spans, start)
    training_end = np.append(loop.host_epochs["training_end_ns"].to_numpy(), 0)[epoch]
    step_of = pd.Series(_number_steps(loop, backward), index=backward)
    table = pd.DataFrame(
        {
            "epoch": epoch + 1,
            "part": np.where(asked_ns < training_end, "training", "validation"),
            "step": step_of.reindex(phase, fill_value=_OUTSIDE_STEPS).to_numpy(),
        }
    )
    inside = epoch >= 0
    first = np.append(True, epoch[1:] != epoch[:-1])[: len(epoch)]
    before = np.where(first, np.append(loop.spans.start, 0)[epoch], np.append(0, end[:-1])[: len(end)])
    return table.assign(compute_ns=np.maximum(start - before, 0))[inside].reset_index(drop=True)


def _number_steps(loop: Loop, backward: pd.Index) -> list[int]:
    """Return the number of each backward phase within its epoch, from 1."""
    epoch = holder(loop.spans, loop.phases.loc[backward, "start_ns"].to_numpy())
    return (pd.Series(epoch).groupby(epoch).cumcount() + 1).tolist()


def _keys(table: pd.DataFrame) -> list[tuple[str, int]]:
    """Return what the collectives of an epoch belong to, in order: equal on every rank if the collectives are."""
    return list(zip(table["part"], table["step"], strict=True))


def _list_waits(tables: Sequence[pd.DataFrame], epoch: int) -> list[Wait]:
    """Return, for each part and step of an epoch, what each rank computed and waited."""
    if tables[0].empty:
        return []
    compute = np.stack([table["compute_ns"] for table in tables])  # (ranks, collectives)
    waited = compute.max(axis=0) - compute
    place, places = pd.MultiIndex.from_frame(tables[0][["part", "step"]]).factorize()
    order = np.argsort(place, kind="stable")  # collectives of one place lie together: their sums are one pass
    begin = np.searchsorted(place[order], np.arange(len(places)))
    computed_ns, waited_ns = (np.add.reduceat(values[:, order], begin, axis=1) for values in (compute, waited))
    return [
        Wait(
            epoch=epoch,
            part=part,
            step=int(step) or None,
            rank=rank,
            compute_s=computed_ns[rank, at] / NS_PER_S,
            waited_s=waited_ns[rank, at] / NS_PER_S,
            slowest=int(computed_ns[:, at].argmax()),
        )
        for at, (part, step) in enumerate(places)
        for rank in range(len(tables))
    ]
