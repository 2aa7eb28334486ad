"""What the report says first: how many times as fast one variant is as another, how variants scale, what is withheld."""

from collections.abc import Sequence

from speedproof.report.document import Row
from speedproof.report.ranks_section import describe_scalings
from speedproof.report.ratio_phrases import describe_cell, describe_speedup
from speedproof.report.scope import name_found_place
from speedproof.results.comparison import Comparison
from speedproof.stats.finding import RatioFinding
from speedproof.stats.main_ratios import group_speedups, list_speedups
from speedproof.stats.metrics import METRICS, PROCESS_TO_QUALITY
from speedproof.util.numbers import NO_NUMBER

# More speedups than these are a table's matter.
_MOST_SENTENCES = 4


def name_case(case: str) -> str:
    """Return a workload's place below `workloads/` in words: `my_case/published` becomes `my case, published`."""
    return case.replace("_", " ").replace("/", ", ")


def describe_headlines(comparison: Comparison, tabulated: bool = False) -> list[str]:
    """Return what was measured, a sentence each: speedups, how variants scale, and qualities that not all runs reached.

    Speedups are left out if they are `tabulated`.
    """
    speedups = [] if tabulated else describe_speedups(comparison)
    return [*speedups, *describe_scalings(comparison), *_describe_unreached(comparison)]


def describe_speedups(comparison: Comparison) -> list[str]:
    """Return one sentence for each compared pair and headline metric: how many times as fast one is as the other.

    Those of variants that do unequal work come last.
    """
    return [describe_speedup(found) for found in sorted(list_speedups(comparison), key=lambda found: found.unequal)]


def tabulate_speedups(comparison: Comparison, unequal: bool = False) -> list[Row]:
    """Return a header and a row for each compared pair, the faster variant first; nothing if sentences are few enough.

    Variants that do `unequal` work in an epoch stand in a table of their own, with what differs.
    """
    pairs = group_speedups(comparison)
    shown = [own for own in pairs if any(found.unequal for found in own) == unequal]
    if sum(map(len, pairs)) <= _MOST_SENTENCES or not shown:
        return []
    titles = {found.metric: found.metric_title for own in shown for found in own}
    metrics = [metric for metric in METRICS if metric in titles]
    header = ["Variant", "Against", *(titles[metric] for metric in metrics), "Pairs of runs"]
    rows = [header, *(_tabulate_pair(own, metrics) for own in shown)]
    if not unequal:
        return rows
    reasons = ["Work", *(next(found.work.reason for found in own if found.work and found.unequal) for own in shown)]
    return [[*row, reason] for row, reason in zip(rows, reasons, strict=True)]


def _tabulate_pair(own: Sequence[RatioFinding], metrics: Sequence[str]) -> Row:
    """Return both titles, a cell for each metric and the pairs of runs; by the first metric the faster variant comes first."""
    cells = {found.metric: describe_cell(found) for found in own}
    counts = dict.fromkeys(str(found.pairs) for found in own)  # each metric's, where some runs lack one
    first = own[0]
    return [
        name_found_place(first.subject.title, first.place),
        first.against.title,
        *(cells.get(metric, NO_NUMBER) for metric in metrics),
        ", ".join(counts),
    ]


def _describe_unreached(comparison: Comparison) -> list[str]:
    """Return why there is no ratio for the best quality that runs of both variants reached, but not all of them."""
    highest = {
        (row.reference, row.candidate): row
        for row in comparison.unreached  # from the easiest target to the hardest
        if row.reference_reached and row.candidate_reached
    }
    titles, what = comparison.variants, comparison.title_of(PROCESS_TO_QUALITY)
    return [
        f"{what} ({row.target:g}): the ratio {titles[row.reference]} / {titles[row.candidate]} is withheld: {row.reason}."
        for row in highest.values()
    ]
