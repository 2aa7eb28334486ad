"""What results say first: the answer, speedups, how variants scale, documented numbers, and what is withheld."""

from collections.abc import Sequence

from speedproof.report.document import Badge, Row, Tone
from speedproof.report.ranks_section import describe_scaling
from speedproof.report.ratio_phrases import (
    describe_cell,
    describe_main,
    describe_needed,
    describe_speedup,
    describe_sureness,
    name_mode,
)
from speedproof.report.scope import name_found_place
from speedproof.results.comparison_rows import ClaimResult, ClaimVerdict
from speedproof.stats.finding import RatioFinding
from speedproof.stats.found_tables import Findings, UnreachedFinding
from speedproof.stats.main_ratios import Answer
from speedproof.stats.metrics import METRICS
from speedproof.util.numbers import NO_NUMBER, format_range, format_value

# More speedups than these are a table's matter.
_MOST_SENTENCES = 4


def name_case(case: str) -> str:
    """Return a workload's place below `workloads/` in words: `my_case/published` becomes `my case, published`."""
    return case.replace("_", " ").replace("/", ", ")


def describe_headlines(findings: Findings, tabulated: bool = False) -> list[str]:
    """Return what was measured, a sentence each: speedups, how variants scale, and qualities that not all runs reached.

    Speedups are left out if they are `tabulated`.
    """
    speedups = [] if tabulated else describe_speedups(findings)
    return [*speedups, *map(describe_scaling, findings.scalings), *map(_describe_unreached, findings.unreached)]


def _describe_unreached(found: UnreachedFinding) -> str:
    """Return why there is no ratio for a quality that runs of both variants reached, but not all of them."""
    variants = f"{found.reference.title} / {found.candidate.title}"
    return f"{found.title}: the ratio {variants} is withheld: {found.reason}."


def describe_speedups(findings: Findings) -> list[str]:
    """Return one sentence for each compared pair and headline metric: how many times as fast one is as the other.

    Those of variants that do unequal work come last.
    """
    return [describe_speedup(found) for found in sorted(findings.speedups, key=lambda found: found.unequal)]


def tabulate_speedups(findings: Findings, unequal: bool = False) -> list[Row]:
    """Return a header and a row for each compared pair, the faster variant first; nothing if sentences are few enough.

    Variants that do `unequal` work in an epoch stand in a table of their own, with what differs.
    """
    pairs = findings.grouped_speedups
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


_TONES: dict[ClaimVerdict, Tone] = {"reproduced": "good", "exceeded": "good", "not reproduced here": "bad"}


def describe_verdict(claim: ClaimResult) -> str:
    """Return the outcome; of a number that was judged, with how many conditions differ from its source's."""
    number = len(claim.conditions)
    if claim.verdict not in _TONES or not number:
        return claim.verdict
    return f"{claim.verdict}, {'1 condition differs' if number == 1 else f'{number} conditions differ'}"


def badge_verdict(verdict: ClaimVerdict, text: str) -> Badge:
    """Return a text in the colour of an outcome."""
    return Badge(text, _TONES.get(verdict, "open"))


def describe_statement(claim: ClaimResult) -> str:
    """Return what a source states, and since when if that is known."""
    return f"{claim.documented} ({claim.date})" if claim.date else claim.documented


def describe_outcome(claim: ClaimResult) -> str:
    """Return a documented number beside the measured one, and the outcome."""
    spread = "" if claim.low is None else f", 95 % interval {format_range(claim.low, claim.high, claim.unit)}"
    needed = f", {describe_needed(claim.needed, claim.scope)}" if claim.needed else ""
    return (
        f"{claim.text}: {claim.documented} on {claim.hardware}; measured {format_value(claim.measured, claim.unit)}{spread} "
        f"({claim.reason}): {describe_verdict(claim)}{needed}."
    )


def describe_answer(answer: Answer) -> list[str]:
    """Return the answer, its certainty and what was documented, if anything, as a line each."""
    documented = [f"Documented: {said}" for said in describe_documented(answer)]
    if not answer.mains:
        return [describe_alone(answer), *documented]
    main = answer.mains[0]
    return ["".join(describe_main(main)), describe_sureness(main), *documented]


def describe_documented(answer: Answer) -> list[str]:
    """Return, as one sentence, the documented numbers with their outcomes; nothing if there are none."""
    if answer.alone:
        return [describe_outcome(answer.alone)]
    return [_describe_claims(answer.documented)] if answer.documented else []


def _describe_claims(found: RatioFinding) -> str:
    hardware = dict.fromkeys(claim.hardware for claim in found.documented)
    own = {claim.id: f" on {claim.hardware}" if len(hardware) > 1 else "" for claim in found.documented}
    verdicts = "; ".join(
        dict.fromkeys(f"{claim.documented}{own[claim.id]}: {_say_verdict(claim)}" for claim in found.documented)
    )
    where = name_mode(found) if len(hardware) > 1 else f" (on {found.documented[0].hardware}{name_mode(found)})"
    return f"{verdicts}{where}."


def describe_alone(answer: Answer) -> str:
    """Return the answer if no two variants could be compared: a documented number's outcome, or that there is none."""
    claim = answer.alone
    if claim is None or claim.verdict == "inconclusive":
        return f"No two variants could be compared{': ' if answer.differences else ''}{'; '.join(answer.differences)}."
    return f"{claim.text}: measured {format_value(claim.measured, claim.unit)}, documented {claim.documented}."


def _say_verdict(claim: ClaimResult) -> str:
    """Return the verdict, and each experiment's own if they disagree."""
    said: dict[str, list[str]] = {}
    for experiment, verdict in claim.by_experiment.items():
        said.setdefault(verdict, []).append(experiment)
    each = ", ".join(f"{verdict} in {' and '.join(experiments)}" for verdict, experiments in said.items())
    return f"{describe_verdict(claim)}: {each}" if each else describe_verdict(claim)
