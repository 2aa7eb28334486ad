"""Runs on several GPUs in words and rows: how they scale, who waits for whom, what communication costs."""

from speedproof.report.document import Element, Marked, Row, Text, make_table, write_row
from speedproof.report.figures.figure_data import Evidence
from speedproof.report.prose import Prose
from speedproof.report.ratio_phrases import describe_evidence, describe_ratio_cells, describe_undecided
from speedproof.results.trace_results import RanksSummary, RankTimes
from speedproof.stats.finding import RatioFinding
from speedproof.util.numbers import format_ratio

_PROSE = Prose("several_gpus.md.j2")
_ALSO = 0.1  # of the longest waiting: what others wait for the rank that waits longest is said, too
_SCALINGS = ["Variant", "Variant on more GPUs", "GPUs", "Scaling", "Efficiency", "95 % interval", "Pairs"]
_TIMES = ["Variant", "Rank", "Epoch", "Lost to imbalance", "Of that in training", "Communication", "Hidden", "Exposed"]


def compose_gpus(evidence: Evidence) -> list[Element]:
    """Compose how variants scale, and what the ranks of profiled runs wait for."""
    traced = [(run.title, run.ranks) for run, _ in evidence.traces.values() if run.ranks]
    times = [_list_times(title, summary, rank) for title, summary in traced for rank in summary.ranks]
    notes = [f"{title}: {note}." for title, summary in traced for note in summary.notes]
    scalings = [_list_cells(found) for found in evidence.findings.scalings]
    return [
        *make_table(_SCALINGS, scalings, Marked(_PROSE["scaling_note"]())),
        *make_table(_TIMES, times, Marked(_PROSE["ranks_note"]())),
        *([Text(notes, bullets=True)] if notes else []),
    ]


def describe_scaling(found: RatioFinding) -> str:
    """Return a sentence on two variants that differ in how many GPUs they train on."""
    doubt = f"; {describe_undecided(found)}" if found.is_open else ""
    evidence = f"{describe_evidence(found)}{doubt}"
    return _PROSE["scaling"](found, format_ratio(*found.ends)[0], evidence)


def describe_rank_variants(evidence: Evidence) -> list[str]:
    """Return one sentence for each profiled variant of several ranks: which one waits, and what communication costs."""
    return [describe_ranks(run.title, run.ranks) for run, _ in evidence.traces.values() if run.ranks]


def describe_ranks(title: str, summary: RanksSummary, noted: bool = False) -> str:
    """Return who waits longest and for whom, how much of the communication is exposed, and, if asked, what does not count."""
    if all(rank.waited_s is None for rank in summary.ranks):
        return f"{title}: {'; '.join(summary.notes)}."
    longest = max(summary.ranks, key=lambda rank: rank.waited_s or 0.0)
    most = max(summary.ranks, key=lambda rank: rank.exposed_s or 0.0)
    training = [wait for wait in summary.steady_waits if wait.part == "training"]
    if any(wait.group for wait in training):  # others' waiting may be for ranks that the longest never meets
        training = [wait for wait in training if wait.rank == longest.rank]
    slowest = max(summary.ranks, key=lambda other: sum(wait.waited_s for wait in training if wait.slowest == other.rank))
    least_s = _ALSO * (longest.waited_s or 0.0)
    turns = [pair for pair in summary.waited_for if pair.slowest == longest.rank and pair.waited_s > least_s]
    return _PROSE["ranks"](title, summary, longest, _training_wait_s(summary, longest.rank), slowest, most, turns, noted)


def _training_wait_s(summary: RanksSummary, rank: int) -> float:
    """Return how long a rank waits in training, in seconds an epoch."""
    epochs = {wait.epoch for wait in summary.steady_waits}
    waits = [wait.waited_s for wait in summary.steady_waits if (wait.rank, wait.part) == (rank, "training")]
    return sum(waits) / max(len(epochs), 1)


def _list_times(title: str, summary: RanksSummary, rank: RankTimes) -> Row:
    training_s = None if rank.waited_s is None else _training_wait_s(summary, rank.rank)
    communication_s = (rank.communication_s, rank.hidden_s, rank.exposed_s)
    return write_row(title, rank.rank, rank.epoch_s, rank.waited_s, training_s, *communication_s)


def _list_cells(found: RatioFinding) -> Row:
    gpus = " → ".join(map(str, reversed(found.ranks or ())))
    return write_row(found.against.title, found.subject.title, gpus, found.scaling, *describe_ratio_cells(found), found.pairs)
