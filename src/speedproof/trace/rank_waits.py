"""Who waits for whom among the ranks of a run, and how much of their communication is hidden behind other work.

Each rank's trace has its own clock, so only lengths are compared. Ranks leave a collective, and begin an epoch, together:
what a rank does between two collectives is its own compute, and the ranks that computed less than the slowest one waited
for it. On a GPU a collective is a communication kernel; the slowest rank's is short, the others' spin until it comes. A trace
without any shows no communication (gloo's runs on the processor, where no range marks it). In such a trace the backward
phase, in which gradients are averaged, counts as the step's collective; its own computing is not separated from waiting.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
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
from speedproof.trace.process_groups import APART, NOT_GIVEN, Matched, match_collectives
from speedproof.trace.related_ranks import RankTrace, check_related, hash_events, number_ranks
from speedproof.util.errors import RecordError
from speedproof.util.progress_bar import SOON_S, report_progress
from speedproof.util.units import NS_PER_S

NO_COMMUNICATION = "no communication among GPUs in these traces: which rank waits for which is unknown"
NO_GPU_COMMUNICATION = (
    "no GPU communication in this trace: how much of it is hidden is unknown, and the backward phase, which contains it, "
    "counts as each step's collective"
)

_MOST_NAMED = 5
_OUTSIDE_STEPS = 0  # in place of a step's number
_NAMES = ["operation", "group", "members"]
_OPERATION = re.compile(r"(AllReduce|AllGather|ReduceScatter|Broadcast|Reduce|SendRecv)(?![a-z])")


def _read_ranks(trace: Path, alone: bool, as_marked: bool) -> list[RankTrace]:
    """Read a rank's trace; one that is alone holds all ranks, a process with a GPU each, in the order of their GPUs."""
    events = read_events(trace)
    if not alone:
        return [_read_rank(events, Choice(as_marked=as_marked))]
    first = events.activity.groupby("process")["device"].min().sort_values(kind="stable")
    if len(first) < 2:
        raise RecordError(trace, f": {len(first) or 'no'} process with a GPU, not several ranks; give each rank's trace")
    return [_read_rank(events, Choice(process=int(process), as_marked=as_marked)) for process in first.index]


def _read_rank(events: Trace, choice: Choice) -> RankTrace:
    loop = find_loop(events, choice)
    if loop.lacking is not None:
        raise RecordError(events.folder, f": {loop.lacking}")
    activity = attribute_activity(events, loop)
    kernels = activity[activity["kernel"] & (activity["process"] == loop.process)]
    communication = with_names(kernels, is_communication)
    others = kernels.drop(communication.index)
    communication = _name_collectives(communication, events.collectives)
    whole_s, exposed_s = measure_communication(kernels, _counted(loop.spans))
    return RankTrace(
        profiler=events.info.profiler,
        found=loop.iterations.found,
        kernels=frozenset(others["name"].cat.remove_unused_categories().cat.categories.astype(str)),
        epochs=loop.spans,
        reaches=loop.iterations.ranges is not None,
        collectives={basis: _find_collectives(loop, communication, basis) for basis in get_args(Basis)},
        communicates=not communication.empty,
        communication_s=whole_s,
        exposed_s=exposed_s,
        number=None if choice.process is not None else events.info.rank,
        of=events.info.ranks,
        steps=tuple(loop.host_epochs["number"].tolist()),
        times=hash_events(kernels),
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

    def read(as_marked: bool) -> list[RankTrace]:
        ranks: list[RankTrace] = []
        with report_progress("ranks", len(traces), "traces read", after_s=SOON_S) as advance:
            for trace in traces:
                with open_trace(trace) as folder:
                    ranks += _read_ranks(folder, len(traces) == 1, as_marked)
                advance(1)
        return ranks

    given = [trace.resolve() for trace in traces]
    for place, trace in enumerate(given):
        if trace in given[:place]:
            raise RecordError(
                traces[place], f": given twice, as rank {given.index(trace)} and rank {place}; give each rank once"
            )
    ranks = read(as_marked=False)
    if len({rank.reaches for rank in ranks}) > 1:  # what fills one rank's ranges nearly may fill another's quite
        ranks = read(as_marked=True)
    return compare_ranks([str(traces[0])] * len(ranks) if len(traces) == 1 else list(map(str, traces)), ranks)


def compare_ranks(traces: Sequence[str], ranks: Sequence[RankTrace]) -> RanksSummary:
    """Summarize ranks whose traces were read already, as :func:`summarize_ranks` does."""
    check_related(traces, ranks)
    numbers = number_ranks(traces, ranks)
    order = sorted(range(len(ranks)), key=lambda place: numbers[place])
    ranks, numbers = [ranks[place] for place in order], sorted(numbers)
    communicates, epochs = ranks[0].communicates, ranks[0].epochs
    basis: Basis = "communication kernels" if communicates else "backward phase"
    matched = Matched()
    # On GPUs, what communicates shows: without it nobody waits for anybody.
    knows = communicates or not any(rank.kernels for rank in ranks)
    notes = [NO_COMMUNICATION] if not knows else [] if communicates else [NO_GPU_COMMUNICATION]
    if knows:
        matched = match_collectives([rank.collectives[basis] for rank in ranks], numbers, len(epochs))
        notes += _describe_matching(matched, ranks, basis)
    knows &= len(matched.unmatched) < len(epochs) and not (communicates and matched.apart)
    left_out = len(epochs) - len(_counted(epochs))
    waits = [matched.waits if knows and place in matched.joined else None for place in range(len(ranks))]
    pairs = {epoch: pairs for epoch, pairs in matched.pairs_ns.items() if knows and epoch > left_out}
    return RanksSummary(
        profiler=ranks[0].profiler,
        basis=basis,
        ranks=[_time_rank(*one, matched.unmatched) for one in zip(numbers, ranks, waits, strict=True)],
        waits=matched.waits if knows else [],
        waited_for=_sum_pairs(pairs, numbers),
        unit=ranks[0].found.unit,
        unmatched=matched.unmatched,
        notes=notes,
    )


def _describe_matching(matched: Matched, ranks: Sequence[RankTrace], basis: Basis) -> list[str]:
    """Return what is not counted of the ranks' waiting, and why."""
    notes, epochs = list(matched.notes), len(ranks[0].epochs)
    if (ranks[0].of or 0) > len(ranks) and NOT_GIVEN not in notes:
        notes.append(NOT_GIVEN)
    if matched.unmatched:
        notes.append(_describe_unmatched(matched.unmatched, ranks[0].found, epochs))
    if matched.apart and basis == "communication kernels" and len(matched.unmatched) < epochs:
        notes.append(APART)
    return notes


def _describe_unmatched(unmatched: Sequence[int], found: Found, epochs: int) -> str:
    named = [*map(str, unmatched[:_MOST_NAMED]), *(["…"] if len(unmatched) > _MOST_NAMED else [])]
    return (
        f"waiting is not counted in {len(unmatched)} of {epochs} {found.plural}, in which the ranks show different collectives "
        f"({', '.join(named)})"
    )


def _sum_pairs(pairs_ns: Mapping[int, NDArray[np.int64]], ranks: Sequence[int]) -> list[WaitedFor]:
    """Return how long each rank waits for each other one in an epoch, the longest first.

    Args:
        pairs_ns: by epoch, for each rank (row) how long it waited for each (column)
        ranks: their numbers

    """
    if not pairs_ns:
        return []
    mean_s = np.mean([*pairs_ns.values()], axis=0) / NS_PER_S
    pairs = [
        WaitedFor(rank=ranks[row], slowest=ranks[column], waited_s=float(mean_s[row, column]))
        for row, column in np.argwhere(mean_s > 0).tolist()
    ]
    return sorted(pairs, key=lambda pair: -pair.waited_s)


def _time_rank(number: int, rank: RankTrace, waits: Sequence[Wait] | None, unmatched: Sequence[int]) -> RankTimes:
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
    """Return a rank's collectives in order, as :func:`match_collectives` takes them; those outside have the epoch 0."""
    phases = loop.phases
    backward = phases.index[(phases["name"] == "backward") & (phases["part"] == "training")]
    if basis == "backward phase":
        events, phase = phases.loc[backward].assign(**dict.fromkeys(_NAMES, "")), backward.to_numpy()
        asked_ns = events["start_ns"].to_numpy()
    else:
        events, phase = communication, communication["phase"].to_numpy()
        # By its launch, if known: the delay until the GPU starts it differs from rank to rank.
        asked_ns = events["launch_end_ns"].where(events["launch_end_ns"] >= 0, events["start_ns"]).to_numpy()
    epoch = holder(loop.spans, events["start_ns"].to_numpy())
    training_end = np.append(loop.host_epochs["training_end_ns"].to_numpy(), 0)[epoch]
    step_of = pd.Series(_number_steps(loop, backward), index=backward)
    return events[["start_ns", "end_ns", *_NAMES]].assign(
        epoch=epoch + 1,
        part=np.where(asked_ns < training_end, "training", "validation"),
        step=step_of.reindex(phase, fill_value=_OUTSIDE_STEPS).to_numpy(),
        epoch_start_ns=np.append(loop.spans.start, 0)[epoch],
    )


def _name_collectives(communication: pd.DataFrame, named: pd.DataFrame) -> pd.DataFrame:
    """Add each communication kernel's operation, group and members; those that the trace does not show are empty."""
    place = ["start_ns", "device", "stream"]
    known = named.drop_duplicates(place).rename(columns={"name": "operation"}).astype(dict.fromkeys(_NAMES, object))
    joined = communication[place].merge(known, how="left", on=place)[_NAMES].fillna("")
    by_name = communication["name"].astype(object).map(_find_operation)
    joined["operation"] = joined["operation"].where(joined["operation"] != "", by_name.to_numpy())
    return communication.assign(**{name: joined[name].to_numpy() for name in _NAMES})


def _find_operation(kernel: str) -> str:
    """Return what NCCL's kernel of this name does, empty if the name does not show it."""
    found = _OPERATION.search(kernel)
    return found[1].lower() if found else ""


def _number_steps(loop: Loop, backward: pd.Index) -> list[int]:
    """Return the number of each backward phase within its epoch, from 1."""
    epoch = holder(loop.spans, loop.phases.loc[backward, "start_ns"].to_numpy())
    return (pd.Series(epoch).groupby(epoch).cumcount() + 1).tolist()
