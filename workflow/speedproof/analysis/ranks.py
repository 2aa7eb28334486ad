"""Who waits for whom among the ranks of a run, and how much of their communication is hidden behind other work.

Each rank's trace has its own clock, so only lengths are compared. Ranks leave a collective, and begin an epoch, together:
what a rank does between two collectives is its own compute, and the ranks that computed less than the slowest one waited
for it. On a GPU a collective is a communication kernel; the slowest rank's is short, the others' spin until it comes. A trace
without any shows no communication (gloo's runs on the processor, where no range marks it): there the backward phase, in
which gradients are averaged, stands for the step's collective, and what it computes itself is not told from waiting.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
import pandas as pd

from speedproof.analysis.attribution import attribute_activity
from speedproof.analysis.events import read_events
from speedproof.analysis.intervals import Intervals, clip, difference, holder, total, union
from speedproof.analysis.kernels import is_communication
from speedproof.analysis.loop import Loop, find_loop
from speedproof.analysis.names import with_names
from speedproof.errors import RecordError
from speedproof.records.files import write_json
from speedproof.records.ranks import RANKS_FILE, Basis, RanksSummary, RankTimes, Wait
from speedproof.records.summary import WARM_UP_NEEDS_EPOCHS

NO_GPU_COMMUNICATION = (
    "no GPU communication in this trace: how much of it is hidden cannot be told, and the backward phase, which holds it, "
    "stands for each step's collective"
)

_NS_PER_S = 1e9
_OUTSIDE_STEPS = 0  # in place of a step's number


class _Rank:
    """One rank's loop, its kernels and what of them communicates."""

    def __init__(self, trace: Path) -> None:
        events = read_events(trace)
        self.profiler = events.info.profiler
        self.loop = find_loop(events)
        activity = attribute_activity(events, self.loop)
        kernels = activity[activity["kernel"] & (activity["process"] == self.loop.process)]
        self.communication = with_names(kernels, is_communication)
        self.others = kernels.drop(self.communication.index)


def summarize_ranks(traces: Sequence[Path]) -> RanksSummary:
    """Say who waits for whom.

    Args:
        traces: the folder of each rank's trace, in order

    Raises:
        RecordError: a trace is missing or holds nothing, or the ranks' traces do not show the same epochs

    """
    ranks = [_Rank(trace) for trace in traces]
    epochs = {len(rank.loop.epochs) for rank in ranks}
    if len(epochs) != 1:
        raise RecordError(f"{traces[0]}: the ranks' traces hold {sorted(epochs)} epochs; give the traces of one run")
    communicates = all(not rank.communication.empty for rank in ranks)
    basis: Basis = "communication kernels" if communicates else "backward phase"
    collectives = [_find_collectives(rank, basis) for rank in ranks]
    numbers = range(1, epochs.pop() + 1)
    matched = [epoch for epoch in numbers if len({tuple(_keys(table, epoch)) for table in collectives}) == 1]
    waits = [wait for epoch in matched for wait in _list_waits(collectives, epoch)]
    steady = [epoch for epoch in numbers if epoch > 1] if len(numbers) >= WARM_UP_NEEDS_EPOCHS else list(numbers)
    unmatched = [epoch for epoch in numbers if epoch not in matched]
    return RanksSummary(
        profiler=ranks[0].profiler,
        basis=basis,
        ranks=[_sum_rank(number, rank, waits, steady, communicates) for number, rank in enumerate(ranks)],
        waits=waits,
        notes=[
            *([] if communicates else [NO_GPU_COMMUNICATION]),
            *(
                [f"the ranks show different collectives in epochs {unmatched}: waiting is not counted there"]
                if unmatched
                else []
            ),
        ],
    )


def write_ranks_summary(summary: RanksSummary, folder: Path) -> None:
    """Write `ranks.json`."""
    write_json(folder / RANKS_FILE, summary)


def _find_collectives(rank: _Rank, basis: Basis) -> pd.DataFrame:
    """Return a rank's collectives inside the epochs, in order: epoch, part, step, compute_ns (since the one before)."""
    phases = rank.loop.phases
    backward = phases.index[(phases["name"] == "backward") & (phases["part"] == "training")]
    if basis == "backward phase":
        events, phase = phases.loc[backward], backward.to_numpy()
        asked_ns = events["start_ns"].to_numpy()
    else:
        events, phase = rank.communication, rank.communication["phase"].to_numpy()
        # By its launch, where it is known: when the GPU then starts it differs from rank to rank.
        asked_ns = events["launch_end_ns"].where(events["launch_end_ns"] >= 0, events["start_ns"]).to_numpy()
    start, end = events["start_ns"].to_numpy(), np.maximum.accumulate(events["end_ns"].to_numpy())
    epoch = holder(rank.loop.spans, start)
    training_end = np.append(rank.loop.epochs["training_end_ns"].to_numpy(), 0)[epoch]
    step_of = pd.Series(_number_steps(rank.loop, backward), index=backward)
    table = pd.DataFrame(
        {
            "epoch": epoch + 1,
            "part": np.where(asked_ns < training_end, "training", "validation"),
            "step": step_of.reindex(phase, fill_value=_OUTSIDE_STEPS).to_numpy(),
        }
    )
    inside = epoch >= 0
    first = np.append(True, epoch[1:] != epoch[:-1])[: len(epoch)]
    before = np.where(first, np.append(rank.loop.spans.start, 0)[epoch], np.append(0, end[:-1])[: len(end)])
    return table.assign(compute_ns=np.maximum(start - before, 0))[inside].reset_index(drop=True)


def _number_steps(loop: Loop, backward: pd.Index) -> list[int]:
    """Return the number of each backward phase within its epoch, from 1."""
    epoch = holder(loop.spans, loop.phases.loc[backward, "start_ns"].to_numpy())
    return (pd.Series(epoch).groupby(epoch).cumcount() + 1).tolist()


def _keys(table: pd.DataFrame, epoch: int) -> list[tuple[str, int]]:
    """Return what the collectives of an epoch belong to, in order: the same on every rank, where they are the same ones."""
    mine = table[table["epoch"] == epoch]
    return list(zip(mine["part"], mine["step"], strict=True))


def _list_waits(collectives: Sequence[pd.DataFrame], epoch: int) -> list[Wait]:
    """Return, for each part and step of an epoch, what each rank computed and waited."""
    tables = [table[table["epoch"] == epoch] for table in collectives]
    compute = np.stack([table["compute_ns"] for table in tables])  # (ranks, collectives)
    waited = compute.max(axis=0) - compute
    places = pd.MultiIndex.from_frame(tables[0][["part", "step"]])
    waits = []
    for part, step in places.unique():
        here = places == (part, step)
        computed_ns, waited_ns = compute[:, here].sum(axis=1), waited[:, here].sum(axis=1)
        waits += [
            Wait(
                epoch=epoch,
                part=part,
                step=step or None,
                rank=rank,
                compute_s=computed_ns[rank] / _NS_PER_S,
                waited_s=waited_ns[rank] / _NS_PER_S,
                slowest=int(computed_ns.argmax()),
            )
            for rank in range(len(tables))
        ]
    return waits


def _sum_rank(number: int, rank: _Rank, waits: Sequence[Wait], epochs: Sequence[int], communicates: bool) -> RankTimes:
    spans = rank.loop.spans
    mine = Intervals(spans.start[[epoch - 1 for epoch in epochs]], spans.end[[epoch - 1 for epoch in epochs]])
    waited_s = sum(wait.waited_s for wait in waits if wait.rank == number and wait.epoch in epochs)
    communication, exposed = _measure_communication(rank, mine) if communicates else (None, None)
    return RankTimes(
        rank=number,
        epoch_s=fmean(mine.length.tolist()) / _NS_PER_S,
        waited_s=waited_s / len(epochs),
        communication_s=communication,
        exposed_s=exposed,
    )


def _measure_communication(rank: _Rank, epochs: Intervals) -> tuple[float, float]:
    """Return a rank's communication, and what of it no other kernel runs beside, in seconds an epoch."""
    whole = union(rank.communication["start_ns"].to_numpy(), rank.communication["end_ns"].to_numpy())
    alone = difference(whole, union(rank.others["start_ns"].to_numpy(), rank.others["end_ns"].to_numpy()))
    bounds = list(zip(epochs.start.tolist(), epochs.end.tolist(), strict=True))
    whole_ns, alone_ns = (sum(total(clip(part, *bound)) for bound in bounds) for part in (whole, alone))
    return whole_ns / len(bounds) / _NS_PER_S, alone_ns / len(bounds) / _NS_PER_S
