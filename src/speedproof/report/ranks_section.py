"""Runs on several GPUs in words and rows: how they scale, who waits for whom, what communication costs."""

from speedproof.report.document import Row
from speedproof.report.figures.figure_data import Evidence
from speedproof.results.comparison import Comparison, Scaling
from speedproof.results.ranks import RanksSummary
from speedproof.util.numbers import NO_NUMBER, format_count, format_ratio, format_value


def describe_scalings(comparison: Comparison) -> list[str]:
    """Return one sentence for each pair of variants that differ in how many GPUs they train on."""
    return [_describe_scaling(scaling) for scaling in comparison.scaling]


def describe_rank_variants(evidence: Evidence) -> list[str]:
    """Return one sentence for each profiled variant of several ranks: which one waits, and what communication costs."""
    return [describe_ranks(run.title, run.ranks) for run, _ in evidence.traces.values() if run.ranks]


def describe_ranks(title: str, summary: RanksSummary) -> str:
    """Return who waits longest and for whom, and how much of the communication is exposed, in seconds an epoch."""
    if any(rank.waited_s is None for rank in summary.ranks):
        return f"{title}: {'; '.join(summary.notes)}."
    longest = max(summary.ranks, key=lambda rank: rank.waited_s or 0.0)
    waited_s = longest.waited_s or 0.0
    share = format_value(waited_s / longest.epoch_s, "%")
    sentence = (
        f"{title}: rank {longest.rank} loses {format_value(waited_s, 's')} an epoch ({share}) to imbalance, "
        f"{_describe_training(summary, longest.rank)}"
        if waited_s
        else f"{title}: no rank waits for another"
    )
    most = max(summary.ranks, key=lambda rank: rank.exposed_s or 0.0)
    if most.communication_s is None:
        return f"{sentence}; {'; '.join(summary.notes)}."
    exposed = f"{format_value(most.exposed_s, 's')} of {format_value(most.communication_s, 's')}"
    return f"{sentence}. Communication, waiting inside it included, is exposed for {exposed} an epoch on rank {most.rank}."


def list_scalings(comparison: Comparison) -> list[Row]:
    """Return both variants, GPUs, kind, efficiency, interval and pairs of every scaling."""
    return [
        [
            scaling.smaller_title,
            scaling.larger_title,
            f"{scaling.smaller_ranks} → {scaling.larger_ranks}",
            scaling.kind,
            *_describe_efficiency(scaling),
            str(scaling.pairs),
        ]
        for scaling in comparison.scaling
    ]


def list_rank_times(evidence: Evidence) -> list[Row]:
    """Return variant, rank, epoch, what it loses to imbalance, of that in training, its communication, hidden and exposed."""
    return [
        [
            run.title,
            str(rank.rank),
            format_value(rank.epoch_s, "s"),
            *(
                NO_NUMBER if seconds is None else format_value(seconds, "s")
                for seconds in (
                    rank.waited_s,
                    None if rank.waited_s is None else _training_wait_s(run.ranks, rank.rank),
                    rank.communication_s,
                    rank.hidden_s,
                    rank.exposed_s,
                )
            ),
        ]
        for run, _ in evidence.traces.values()
        if run.ranks
        for rank in run.ranks.ranks
    ]


def list_rank_notes(evidence: Evidence) -> list[str]:
    """Return what the tables on ranks cannot tell."""
    return [f"{run.title}: {note}." for run, _ in evidence.traces.values() if run.ranks for note in run.ranks.notes]


def _describe_training(summary: RanksSummary, rank: int) -> str:
    """Return how much of what a rank waits it waits in training, and for whom most of that is."""
    training = [wait for wait in summary.steady_waits if wait.part == "training"]
    slowest = max(summary.ranks, key=lambda other: sum(wait.waited_s for wait in training if wait.slowest == other.rank))
    return (
        f"{format_value(_training_wait_s(summary, rank), 's')} of it in training, where most waiting is for rank {slowest.rank}"
    )


def _training_wait_s(summary: RanksSummary, rank: int) -> float:
    """Return how long a rank waits in training, in seconds an epoch."""
    epochs = {wait.epoch for wait in summary.steady_waits}
    waits = [wait.waited_s for wait in summary.steady_waits if (wait.rank, wait.part) == (rank, "training")]
    return sum(waits) / max(len(epochs), 1)


def _describe_efficiency(scaling: Scaling) -> tuple[str, str]:
    """Return the efficiency and its interval, and that it shows no difference where it holds 1."""
    value, interval = format_ratio(scaling.efficiency, scaling.low, scaling.high)
    holds_one = scaling.low is not None and scaling.high is not None and scaling.low <= 1 <= scaling.high
    return value, f"{interval}: inconclusive" if holds_one else interval


def _describe_scaling(scaling: Scaling) -> str:
    work = "the same work a GPU" if scaling.kind == "weak" else "the same work in all"
    efficiency, interval = _describe_efficiency(scaling)
    evidence = "no interval" if scaling.low is None else f"95 % interval {interval}"
    return (
        f"{scaling.kind.capitalize()} scaling, {scaling.smaller_title} on {scaling.smaller_ranks} to {scaling.larger_title} on "
        f"{scaling.larger_ranks} ({work}): each gets {efficiency} as much done "
        f"({evidence}, {format_count(scaling.pairs, 'pair')} of runs)."
    )
