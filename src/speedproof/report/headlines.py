"""What the report says first: how many times as fast one variant is as another, how variants scale, what is withheld."""

from speedproof.report.document import Row
from speedproof.report.ranks_section import describe_scalings
from speedproof.report.scope import describe_place, name_place
from speedproof.results.comparison import AblationWhole, Comparison, Ratio, StoppedExperiment
from speedproof.results.comparison_rows import Needed, Scope
from speedproof.results.quality import Quality
from speedproof.stats.estimates import LEAST_PAIRS
from speedproof.stats.main_ratios import list_headline_ratios, variants_of
from speedproof.stats.metrics import METRICS, PROCESS_TO_QUALITY
from speedproof.util.numbers import NO_NUMBER, format_count, format_ratio, format_value

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
    ratios = sorted(list_headline_ratios(comparison), key=lambda ratio: ratio.unequal)
    return [_describe_speedup(ratio, comparison) for ratio in ratios]


def tabulate_speedups(comparison: Comparison, unequal: bool = False) -> list[Row]:
    """Return a header and a row for each compared pair, the faster variant first; nothing where sentences are few enough.

    Variants that do `unequal` work in an epoch stand in a table of their own, with what differs.
    """
    ratios = list_headline_ratios(comparison)
    if len(ratios) <= _MOST_SENTENCES:
        return []
    apart = {(variants_of(ratio), ratio.experiment): ratio.work.reason for ratio in ratios if ratio.work and ratio.unequal}
    ratios = [ratio for ratio in ratios if ((variants_of(ratio), ratio.experiment) in apart) == unequal]
    if not ratios:
        return []
    metrics = [metric for metric in METRICS if any(ratio.metric == metric for ratio in ratios)]
    header = ["Variant", "Against", *(comparison.title_of(metric) for metric in metrics), "Pairs of runs"]
    pairs: dict[tuple[tuple[str, str], str | None], list[Ratio]] = {}
    for ratio in ratios:
        pairs.setdefault((variants_of(ratio), ratio.experiment), []).append(ratio)
    rows = [header, *(_tabulate_pair(pair, metrics, comparison) for pair in pairs.values())]
    if not unequal:
        return rows
    reasons = ["Work", *(apart[key].removeprefix("unequal work: ") for key in pairs)]
    return [[*row, reason] for row, reason in zip(rows, reasons, strict=True)]


def describe_evidence(measured: Ratio | AblationWhole, turned: bool = False) -> str:
    """Return the interval (where the variants are `turned`, the reciprocal's), or that there is none, and of how many pairs."""
    pairs = f"{format_count(measured.pairs, 'pair')} of runs"
    if measured.low is None:
        return f"{pairs}, too few for an interval"
    needed = measured.needed if isinstance(measured, Ratio) else None
    more = "" if needed is None else f"; {describe_needed(needed, measured.scope)}"
    least = f", where a verdict needs {LEAST_PAIRS}" if measured.outcome == "no verdict" else ""
    return f"{name_interval(measured)} {_format(measured, turned)[1]}, {pairs}{least}{more}"


def name_interval(measured: object) -> str:
    """Return what the interval of a ratio is called: joint, if it is one of several that hold together."""
    return "joint 95 % interval" if isinstance(measured, Ratio) and measured.comparisons > 1 else "95 % interval"


def describe_futile(stopped: StoppedExperiment) -> str:
    """Return why rounds ended that would hardly have decided, and how many would."""
    most = (
        f"{stopped.reachable} rounds" if stopped.reachable == stopped.most else f"the {stopped.reachable} rounds of the budget"
    )
    enough = (
        f"{stopped.needed} fixed beforehand would, if they vary as these do (--rounds {stopped.needed})"
        if stopped.needed
        else "not even 1000 would, if they vary as these do"
    )
    return f"rounds ended after {stopped.rounds}, since {most} would hardly decide; {enough}"


def describe_needed(needed: Needed, scope: Scope | None) -> str:
    """Return how many pairs, or machines, would decide if they came out as those before, and what the missing ones take."""
    what = "machine" if scope == "model" else "pair"
    return f"{format_count(needed.pairs, what)} in all would decide, {_describe_minutes(needed.minutes)} more"


def _describe_minutes(minutes: float) -> str:
    if minutes < 1:
        return "less than a minute"
    number, unit = (round(minutes), "minute") if minutes < 90 else (round(minutes / 60), "hour")
    return f"about {format_count(number, unit)}"


def _name_variants(ratio: Ratio, titles: dict[str, str], turned: bool) -> list[str]:
    """Return the titles of both variants, the one after the slash first unless they are `turned`."""
    return [titles[variant] for variant in (variants_of(ratio) if turned else reversed(variants_of(ratio)))]


def _format(measured: Ratio | AblationWhole, turned: bool) -> tuple[str, str]:
    """Return a ratio and its interval; where the variants are `turned`, the reciprocals."""
    if not turned:
        return format_ratio(measured.centre, measured.low, measured.high)
    low, high = (None if end is None else 1 / end for end in (measured.high, measured.low))
    return format_ratio(1 / measured.centre, low, high)


def _describe_speedup(ratio: Ratio, comparison: Comparison) -> str:
    title = comparison.title_of(ratio.metric)
    what = title if ratio.target is None else f"{title} ({ratio.target:g})"
    turned, place = ratio.centre < 1, describe_place(ratio, comparison)
    faster, slower = _name_variants(ratio, comparison.variants, turned)
    evidence = describe_evidence(ratio, turned)
    if ratio.withheld and ratio.quality is not None:
        return f"{what}: a speedup of {faster} over {slower} {place} is withheld: {ratio.quality.reason} ({evidence})."
    if ratio.quality is not None and (ratio.worse or (ratio.quality.outcome == "not established" and ratio.claimed)):
        evidence = f"{evidence}; {ratio.quality.reason}"
    if ratio.work is not None and ratio.unequal:
        evidence = f"{evidence}; {ratio.work.reason}"
    if ratio.outcome == "equivalent":
        margin = format_value(comparison.equivalence_margin, "%")
        return f"{what}: {faster} is as fast as {slower} {place}, within the margin of {margin} ({evidence})."
    if ratio.outcome == "no verdict":
        return f"{what}: no verdict on {faster} and {slower} {place}: {_format(ratio, turned)[0]} ({evidence})."
    if ratio.low is not None and not ratio.claimed:
        return f"{what}: inconclusive between {faster} and {slower} {place} ({evidence})."
    # A proof's may be a reported one; those of workloads have names of their own, which take no article.
    what_quality = comparison.quality.title if comparison.quality.name == Quality().name else "quality"
    equal = f", at a {what_quality} no worse" if ratio.quality is not None and ratio.quality.outcome == "no worse" else ""
    return f"{what}: {faster} is {_format(ratio, turned)[0]} as fast as {slower} {place}{equal} ({evidence})."


def _tabulate_pair(ratios: list[Ratio], metrics: list[str], comparison: Comparison) -> Row:
    """Return both titles, a cell for each metric and the pairs of runs; by the first metric the faster variant comes first."""
    turned = ratios[0].centre < 1
    cells = {ratio.metric: _describe_cell(ratio, turned) for ratio in ratios}
    counts = dict.fromkeys(str(ratio.pairs) for ratio in ratios)  # each metric's, where some runs lack one
    first, second = _name_variants(ratios[0], comparison.variants, turned)
    return [
        name_place(first, ratios[0], comparison),
        second,
        *(cells.get(metric, NO_NUMBER) for metric in metrics),
        ", ".join(counts),
    ]


def _describe_cell(ratio: Ratio, turned: bool) -> str:
    value, interval = _format(ratio, turned)
    said = ratio.quality is not None and (ratio.worse or (ratio.quality.outcome == "not established" and ratio.claimed))
    worse = f"; {ratio.quality.reason}" if said and ratio.quality is not None else ""
    if ratio.low is None:
        text = f"no verdict of {'one pair' if ratio.pairs == 1 else format_count(ratio.pairs, 'pair')} ({value}){worse}"
    elif ratio.withheld:
        text = f"withheld{worse}"
    elif ratio.outcome == "no verdict":
        text = f"no verdict of fewer than {LEAST_PAIRS} pairs ({value}, {interval}){worse}"
    elif ratio.outcome == "equivalent":
        text = f"equivalent ({interval})"
    elif not ratio.claimed:
        text = f"inconclusive ({interval}){worse}"
    else:
        text = f"{value} ({interval}){worse}"
    return text if ratio.target is None else f"{ratio.target:g}: {text}"


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


def describe_unclaimed(outcome: str) -> str:
    """Return what is said of a ratio by which no variant is shown to be faster."""
    return {"no verdict": "too few pairs for a verdict", "equivalent": "equivalent"}.get(outcome, "inconclusive")
