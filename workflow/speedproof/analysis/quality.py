"""Equal quality: how well two sides learn, by the rule that the plan of a block committed to before its first run."""

from collections.abc import Sequence
from statistics import median

from speedproof.analysis.comparability import RunPair, pair_runs
from speedproof.analysis.metrics import epochs_to_quality
from speedproof.records.comparison import Origin, QualityCheck, QualityOutcome, Reached, Unreached
from speedproof.records.quality import Better, Quality
from speedproof.records.results import MeasuredRun, Results
from speedproof.records.run import EPOCHS_FILE, RUN_FILE


def median_best_quality(runs: list[MeasuredRun]) -> float | None:
    """Return the median over runs of each run's best quality; None unless every run validated."""
    scores = [run.run.best_quality for run in runs if run.run.best_quality is not None]
    return median(scores) if scores and len(scores) == len(runs) else None


def check_quality(pairs: Sequence[RunPair], rule: Quality, ratio: float, better: Better = "lower") -> QualityCheck:
    """Return whether the faster side learns as well as the other: of a time, the denominator where `ratio` is above 1.

    `better` is the metric's own. Both sides are judged by the runs that make the ratio: another block may have trained a side
    for longer.
    """
    sides = [[pair[side] for pair in pairs] for side in (0, 1)]
    numerator, denominator = (median_best_quality(runs) for runs in sides)
    gains = denominator, numerator
    faster, slower = gains if (ratio >= 1) == (better == "lower") else gains[::-1]
    outcome, reason = judge_quality(faster, slower, rule)
    names = [runs[0].run.variant for runs in sides]
    return QualityCheck(
        outcome=outcome,
        numerator_quality=numerator,
        denominator_quality=denominator,
        reason=reason,
        origin=Origin(
            files=[run.file(RUN_FILE) for runs in sides for run in runs],
            expression=f"median over runs of best_quality, of {names[0]} and of {names[1]}",
        ),
    )


def judge_quality(faster: float | None, slower: float | None, rule: Quality) -> tuple[QualityOutcome, str]:
    """Return whether the faster side's quality is as good as the slower one's, and why."""
    if faster is None or slower is None:
        return "not judged", "not every run validated"
    if rule.margin is None:
        return "not judged", "no margin of quality was declared"
    above, lower = ("above", "lower") if rule.better == "higher" else ("below", "higher")
    if rule.judged_above is not None and rule.reaches(rule.judged_above, slower):
        limit = rule.format(rule.judged_above)
        return (
            "not judged",
            f"the slower side's {rule.title} is {rule.format(slower)}, not {above} {limit}: too short a training",
        )
    both = f"{rule.title} {rule.format(faster)} against {rule.format(slower)}"
    margin = rule.format(rule.margin)
    if rule.is_worse(faster, slower):
        return "worse", f"{both}, {lower} by more than the margin of {margin}"
    return "equal", f"{both}, not {lower} by more than the margin of {margin}"


def count_reached(runs: Sequence[MeasuredRun], target: float) -> Reached | None:
    """Return how many of a variant's runs reached a quality; None where there are none."""
    if not runs:
        return None
    reached = [run for run in runs if epochs_to_quality(run, target) is not None]
    return Reached(
        variant=runs[0].run.variant,
        title=runs[0].title,
        target=target,
        runs=len(runs),
        reached=len(reached),
        continued=sum(1 for run in reached if run.run.continued),
        origin=Origin(
            files=[run.file(name) for run in runs for name in (EPOCHS_FILE, RUN_FILE)],
            expression=f"number of runs in which some quality reaches {target:g}; of those, with anything in continued",
        ),
    )


def explain_unreached(results: Results, numerator: str, denominator: str, target: float) -> Unreached | None:
    """Return why two sides have no ratio of their ways to a quality; None where every run reached it, or none did.

    Only runs that have a partner count: of blocks, and of repeats of a closed block, in which both ran.
    """
    pairs = pair_runs(results.select(numerator, "timed"), results.select(denominator, "timed"))
    sides = [row for side in (0, 1) if (row := count_reached([pair[side] for pair in pairs], target))]
    short = [row for row in sides if row.reached < row.runs]
    if len(sides) < 2 or not short or not any(row.reached for row in sides):
        return None
    counts = " and ".join(f"{row.reached} of {row.runs} runs of {row.title}" for row in short)
    return Unreached(
        numerator=numerator,
        denominator=denominator,
        target=target,
        numerator_reached=sides[0].reached,
        denominator_reached=sides[1].reached,
        reason=f"only {counts} reached it",
        origin=Origin(
            files=[file for row in sides for file in row.origin.files],
            expression=f"number of runs of {numerator} and of {denominator} in which some quality reaches {target:g}",
        ),
    )
