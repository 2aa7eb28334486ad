"""Runs on several GPUs in words and rows: how they scale, who waits for whom, what communication costs."""

from speedproof.numbers import NO_NUMBER, format_ratio, format_value
from speedproof.records.comparison import Comparison, Scaling
from speedproof.records.ranks import RanksSummary
from speedproof.report.figures.evidence import Evidence

Row = list[str]


def describe_scalings(comparison: Comparison) -> list[str]:
    """Return one sentence for each pair of sides that differ in how many GPUs they train on."""
    return [_describe_scaling(scaling) for scaling in comparison.scaling]


def describe_rank_sides(evidence: Evidence) -> list[str]:
    """Return one sentence for each profiled side of several ranks: which one waits, and what communication costs."""
    return [describe_ranks(run.title, run.ranks) for run, _ in evidence.traces.values() if run.ranks]


def describe_ranks(title: str, summary: RanksSummary) -> str:
    """Return who waits longest and for whom, and how much of the communication is exposed, in seconds an epoch."""
    longest = max(summary.ranks, key=lambda rank: rank.waited_s)
    slowest = max(summary.ranks, key=lambda rank: _waited_for(summary, rank.rank))
    share = format_value(longest.waited_s / longest.epoch_s, "%")
    sentence = (
        f"{title}: rank {longest.rank} loses {format_value(longest.waited_s, 's')} an epoch ({share}) to imbalance, "
        f"most waiting is for rank {slowest.rank}"
        if longest.waited_s
        else f"{title}: no rank waits for another"
    )
    most = max(summary.ranks, key=lambda rank: rank.exposed_s or 0.0)
    if most.communication_s is None:
        return f"{sentence}; {'; '.join(summary.notes)}."
    exposed = f"{format_value(most.exposed_s, 's')} of {format_value(most.communication_s, 's')}"
    return f"{sentence}. Communication, waiting inside it included, is exposed for {exposed} an epoch on rank {most.rank}."


def list_scalings(comparison: Comparison) -> list[Row]:
    """Return both sides, GPUs, kind, efficiency, interval and pairs of every scaling."""
    return [
        [
            scaling.smaller_title,
            scaling.larger_title,
            f"{scaling.smaller_ranks} → {scaling.larger_ranks}",
            scaling.kind,
            *format_ratio(scaling.efficiency, scaling.low, scaling.high),
            str(scaling.pairs),
        ]
        for scaling in comparison.scaling
    ]


def list_rank_times(evidence: Evidence) -> list[Row]:
    """Return side, rank, epoch, what it loses to imbalance, its communication, hidden and exposed."""
    return [
        [
            run.title,
            str(rank.rank),
            format_value(rank.epoch_s, "s"),
            format_value(rank.waited_s, "s"),
            *(
                NO_NUMBER if seconds is None else format_value(seconds, "s")
                for seconds in (rank.communication_s, rank.hidden_s, rank.exposed_s)
            ),
        ]
        for run, _ in evidence.traces.values()
        if run.ranks
        for rank in run.ranks.ranks
    ]


def list_rank_notes(evidence: Evidence) -> list[str]:
    """Return what the tables on ranks cannot tell."""
    return [f"{run.title}: {note}." for run, _ in evidence.traces.values() if run.ranks for note in run.ranks.notes]


def _waited_for(summary: RanksSummary, rank: int) -> float:
    return sum(wait.waited_s for wait in summary.steady_waits if wait.slowest == rank)


def _describe_scaling(scaling: Scaling) -> str:
    work = "the same work a GPU" if scaling.kind == "weak" else "the same work in all"
    efficiency, interval = format_ratio(scaling.efficiency, scaling.low, scaling.high)
    evidence = "no interval" if scaling.low is None else f"95 % interval {interval}"
    return (
        f"{scaling.kind.capitalize()} scaling, {scaling.smaller_title} on {scaling.smaller_ranks} to {scaling.larger_title} on "
        f"{scaling.larger_ranks} ({work}): each gets {efficiency} as much done "
        f"({evidence}, {scaling.pairs} {'pair' if scaling.pairs == 1 else 'pairs'} of runs)."
    )
