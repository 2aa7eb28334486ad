"""Equal quality: how well two sides learn, by the rule that the plan of a block committed to before its first run."""

from collections.abc import Sequence
from statistics import median

from speedproof.analysis.comparability import RunPair, pair_runs
from speedproof.analysis.metrics import epochs_to_dice
from speedproof.numbers import format_value
from speedproof.records.block import Quality
from speedproof.records.comparison import Origin, QualityCheck, QualityOutcome, Reached, Unreached
from speedproof.records.results import MeasuredRun, Results
from speedproof.records.run import EPOCHS_FILE, RUN_FILE


def median_best_dice(runs: list[MeasuredRun]) -> float | None:
    """Return the median over runs of each run's best foreground Dice; None unless every run validated."""
    scores = [run.run.best_dice for run in runs if run.run.best_dice is not None]
    return median(scores) if scores and len(scores) == len(runs) else None


def check_quality(pairs: Sequence[RunPair], rule: Quality, ratio: float) -> QualityCheck:
    """Return whether the faster side, the denominator where `ratio` is above 1, learns as well as the other.

    Both are judged by the runs that make the ratio: another block may have trained a side for longer.
    """
    sides = [[pair[side] for pair in pairs] for side in (0, 1)]
    numerator, denominator = (median_best_dice(runs) for runs in sides)
    faster, slower = (denominator, numerator) if ratio >= 1 else (numerator, denominator)
    outcome, reason = judge_dice(faster, slower, rule)
    names = [runs[0].run.variant for runs in sides]
    return QualityCheck(
        outcome=outcome,
        numerator_dice=numerator,
        denominator_dice=denominator,
        reason=reason,
        origin=Origin(
            files=[run.file(RUN_FILE) for runs in sides for run in runs],
            expression=f"median over runs of best_dice, of {names[0]} and of {names[1]}",
        ),
    )


def judge_dice(faster: float | None, slower: float | None, rule: Quality) -> tuple[QualityOutcome, str]:
    """Return whether the faster side's Dice is as good as the slower one's, and why."""
    if faster is None or slower is None:
        return "not judged", "not every run validated"
    if slower <= rule.judged_above:
        limit = format_value(rule.judged_above, "Dice")
        return (
            "not judged",
            f"the slower side's Dice is {format_value(slower, 'Dice')}, not above {limit}: too short a training",
        )
    both = f"Dice {format_value(faster, 'Dice')} against {format_value(slower, 'Dice')}"
    margin = format_value(rule.dice_margin, "Dice")
    if faster < slower - rule.dice_margin:
        return "worse", f"{both}, lower by more than the margin of {margin}"
    return "equal", f"{both}, not lower by more than the margin of {margin}"


def count_reached(runs: Sequence[MeasuredRun], dice: float) -> Reached | None:
    """Return how many of a variant's runs reached a Dice; None where there are none."""
    if not runs:
        return None
    reached = [run for run in runs if epochs_to_dice(run.epochs, dice) is not None]
    return Reached(
        variant=runs[0].run.variant,
        title=runs[0].title,
        dice=dice,
        runs=len(runs),
        reached=len(reached),
        continued=sum(1 for run in reached if run.run.continued),
        origin=Origin(
            files=[run.file(name) for run in runs for name in (EPOCHS_FILE, RUN_FILE)],
            expression=f"number of runs in which some dice_foreground reaches {dice:g}; of those, with anything in continued",
        ),
    )


def explain_unreached(results: Results, numerator: str, denominator: str, dice: float) -> Unreached | None:
    """Return why two sides have no ratio of their ways to a Dice; None where every run reached it, or none did.

    Only runs that have a partner count: of blocks, and of repeats of a closed block, in which both ran.
    """
    pairs = pair_runs(results.select(numerator, "timed"), results.select(denominator, "timed"))
    sides = [row for side in (0, 1) if (row := count_reached([pair[side] for pair in pairs], dice))]
    short = [row for row in sides if row.reached < row.runs]
    if len(sides) < 2 or not short or not any(row.reached for row in sides):
        return None
    counts = " and ".join(f"{row.reached} of {row.runs} runs of {row.title}" for row in short)
    return Unreached(
        numerator=numerator,
        denominator=denominator,
        dice=dice,
        numerator_reached=sides[0].reached,
        denominator_reached=sides[1].reached,
        reason=f"only {counts} reached it",
        origin=Origin(
            files=[file for row in sides for file in row.origin.files],
            expression=f"number of runs of {numerator} and of {denominator} in which some dice_foreground reaches {dice:g}",
        ),
    )
