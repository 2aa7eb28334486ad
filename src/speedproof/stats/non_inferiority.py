"""Equal quality: how well two variants learn, by the rule that the plan of an experiment committed to before its first run."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, variance
from typing import Literal

from speedproof.results.comparison import Origin, QualityCheck, QualityOutcome, Reached, Unreached
from speedproof.results.folder import MeasuredRun, Results
from speedproof.results.quality import Better, Quality
from speedproof.results.run_record import EPOCHS_FILE, RUN_FILE
from speedproof.stats.comparability import RunPair, pair_runs
from speedproof.stats.estimates import Interval, estimate_mean, student_quantile
from speedproof.stats.metrics import epochs_to_quality
from speedproof.util.numbers import format_count


def median_best_quality(runs: list[MeasuredRun]) -> float | None:
    """Return the median over runs of each run's best quality; None unless every run validated."""
    scores = [run.run.best_quality for run in runs if run.run.best_quality is not None]
    return median(scores) if scores and len(scores) == len(runs) else None


@dataclass(frozen=True)
class QualityDifference:
    """How much higher the faster variant's quality is than the other's, over seeds."""

    faster: float  # mean over seeds
    slower: float
    interval: Interval | None  # of the difference; None where there are too few seeds

    @property
    def centre(self) -> float:
        """Return the mean difference."""
        return self.faster - self.slower


def check_quality(
    pairs: Sequence[RunPair], rule: Quality, ratio: float, better: Better = "lower", diverged: Sequence[MeasuredRun] = ()
) -> QualityCheck:
    """Return whether the faster variant learns as well as the other; for a time, a `ratio` above 1 favours the candidate.

    `better` is the metric's own. Both variants are judged by the runs that make the ratio, since another experiment may have
    trained a variant for longer. If runs of either `diverged` besides, no worse is not established.
    """
    candidate_is_faster = (ratio >= 1) == (better == "lower")
    scores = [[(pair[place].run.seed, pair[place].run.best_quality) for pair in pairs] for place in (0, 1)]
    faster, slower = scores[::-1] if candidate_is_faster else scores
    difference = compare_qualities(faster, slower)
    counts = Counter(run.title for run in diverged)
    broken = " and ".join(f"{format_count(count, 'run')} of {title}" for title, count in counts.items())
    outcome, reason = judge_quality(difference, rule, broken)
    names = [pairs[0][place].run.variant for place in (0, 1)]
    means = (None, None) if difference is None else (difference.slower, difference.faster)
    return QualityCheck(
        outcome=outcome,
        reference_quality=means[0] if candidate_is_faster else means[1],
        candidate_quality=means[1] if candidate_is_faster else means[0],
        difference=difference.centre if difference else None,
        low=difference.interval.low if difference and difference.interval else None,
        high=difference.interval.high if difference and difference.interval else None,
        diverged=broken,
        reason=reason,
        origin=Origin(
            files=[pair[place].file(RUN_FILE) for place in (0, 1) for pair in pairs],
            expression=(
                f"means over seeds of best_quality, of {names[0]} and of {names[1]}; low and high: 95 % t interval of the "
                "faster variant's less the other's, paired by seed; if one variant's runs all have the same value, its seeds "
                "count as one and the interval is Welch's"
            ),
        ),
    )


def check_variant(check: QualityCheck, rule: Quality, variant: Literal["reference", "candidate"]) -> QualityCheck:
    """Return the check of one variant of a ratio against the other, whichever of them is the faster."""
    if check.difference is None or check.reference_quality is None or check.candidate_quality is None:
        return check
    own, other = check.reference_quality, check.candidate_quality
    if variant == "candidate":
        own, other = other, own
    if (check.difference > 0) == (own > other):
        return check
    interval = None if check.low is None or check.high is None else Interval(-check.high, -check.low)
    outcome, reason = judge_quality(QualityDifference(own, other, interval), rule, check.diverged)
    ends = {} if interval is None else {"low": interval.low, "high": interval.high}
    return check.model_copy(update={"outcome": outcome, "reason": reason, "difference": -check.difference, **ends})


def compare_qualities(
    faster: Sequence[tuple[int, float | None]], slower: Sequence[tuple[int, float | None]]
) -> QualityDifference | None:
    """Return the difference of two variants' qualities, each given as seed and quality of each run, in pairs.

    Runs of one seed count as their mean. A variant whose runs of several seeds all have the same value ignores its seed: it
    counts as one value, and the interval is Welch's of the two variants, unpaired (B. L. Welch, Biometrika 34 (1947) 28-35).
    Seeds of which some agree, as shares of few cases do, count each. None unless every run has a quality.
    """
    variants = [_mean_by_seed(faster), _mean_by_seed(slower)]
    if not variants[0] or not variants[1]:
        return None
    values = [list(variant.values()) for variant in variants]
    if len(variants[0]) > 1 and any(len(set(variant)) == 1 for variant in values):
        one, other = (variant[:1] if len(set(variant)) == 1 else variant for variant in values)
        return QualityDifference(fmean(one), fmean(other), _welch_interval(one, other))
    interval = estimate_mean([value - variants[1][seed] for seed, value in variants[0].items()]).interval
    return QualityDifference(fmean(values[0]), fmean(values[1]), interval)


def judge_quality(difference: QualityDifference | None, rule: Quality, diverged: str = "") -> tuple[QualityOutcome, str]:
    """Return whether the faster variant's quality is as good as the slower one's, and why.

    No worse: the interval's worse end is within the margin, and no run `diverged`, of which there is no quality; worse: its
    better end is beyond; else neither is established.
    """
    if difference is None:
        return "not judged", "not every run validated"
    if rule.margin is None:
        return "not judged", "no margin of quality was declared"
    above, lower = ("above", "lower") if rule.better == "higher" else ("below", "higher")
    if rule.judged_above is not None and rule.reaches(rule.judged_above, difference.slower):
        limit = rule.format(rule.judged_above)
        return (
            "not judged",
            f"the slower variant's {rule.title} is {rule.format(difference.slower)}, not {above} {limit}: too short a training",
        )
    both = f"{rule.title} {rule.format(difference.faster)} against {rule.format(difference.slower)}"
    margin = rule.format(rule.margin)
    if difference.interval is None:
        return (
            "not established",
            f"{both}: of one seed, so whether it is {lower} by more than the margin of {margin} is not established",
        )
    ends = sorted((difference.interval.low, difference.interval.high), reverse=rule.better == "lower")
    worst, best = (_round_off(end if rule.better == "higher" else -end) for end in ends)
    if worst >= -rule.margin and diverged:
        return "not established", f"{both}, of the runs that did not diverge, as {diverged} did"
    if worst >= -rule.margin:
        return "no worse", f"{both}, not {lower} by more than the margin of {margin}"
    if best < -rule.margin:
        return "worse", f"{both}, {lower} by more than the margin of {margin}"
    limits = f"{rule.format(difference.interval.low)} to {rule.format(difference.interval.high)}"
    return (
        "not established",
        f"{both}, a difference of {limits}: whether it is {lower} by more than the margin of {margin} is not established",
    )


def _mean_by_seed(scores: Sequence[tuple[int, float | None]]) -> dict[int, float]:
    """Return each seed's mean quality; nothing unless every run has one."""
    seeds: dict[int, list[float]] = {}
    for seed, quality in scores:
        if quality is None:
            return {}
        seeds.setdefault(seed, []).append(quality)
    return {seed: fmean(values) for seed, values in seeds.items()}


def _welch_interval(one: Sequence[float], other: Sequence[float]) -> Interval | None:
    """Return Welch's 95 % interval of the difference of means; a variant of a single value has no error. None of two such."""
    errors = [variance(variant) / len(variant) if len(variant) > 1 else 0.0 for variant in (one, other)]
    total, centre = sum(errors), fmean(one) - fmean(other)
    if len(one) < 2 and len(other) < 2:
        return None
    if total == 0:
        return Interval(centre, centre)
    variants = [(error, len(variant)) for error, variant in zip(errors, (one, other), strict=True) if error]
    degrees = 1 / sum((error / total) ** 2 / (count - 1) for error, count in variants)
    half_width = student_quantile(degrees) * math.sqrt(total)
    return Interval(centre - half_width, centre + half_width)


def _round_off(value: float) -> float:
    """Return a quality's difference without what binary fractions add to it: 0.93 - 0.94 is -0.01."""
    return round(value, 12)


def count_reached(runs: Sequence[MeasuredRun], target: float, diverged: Sequence[MeasuredRun] = ()) -> Reached | None:
    """Return how many of a variant's runs reached a quality; those that `diverged` did not. None where there are none."""
    if not runs:
        return None
    reached = [run for run in runs if epochs_to_quality(run, target) is not None]
    return Reached(
        variant=runs[0].run.variant,
        title=runs[0].title,
        target=target,
        runs=len(runs) + len(diverged),
        reached=len(reached),
        continued=sum(1 for run in reached if run.run.continued),
        origin=Origin(
            files=[run.file(name) for run in [*runs, *diverged] for name in (EPOCHS_FILE, RUN_FILE)],
            expression=f"number of completed runs in which some quality reaches {target:g}; of those, with anything in "
            "continued",
        ),
    )


def explain_unreached(results: Results, reference: str, candidate: str, target: float) -> Unreached | None:
    """Return why two variants have no ratio of their ways to a quality; None where every run reached it, or none did.

    Only runs count that have a partner in their experiment and round, and those that diverged.
    """
    pairs = pair_runs(results.select(reference, "timed"), results.select(candidate, "timed"))
    rows = [
        row
        for place, name in enumerate((reference, candidate))
        if (row := count_reached([pair[place] for pair in pairs], target, results.select_diverged(name, "timed")))
    ]
    short = [row for row in rows if row.reached < row.runs]
    if len(rows) < 2 or not short or not any(row.reached for row in rows):
        return None
    counts = " and ".join(f"{row.reached} of {row.runs} runs of {row.title}" for row in short)
    return Unreached(
        reference=reference,
        candidate=candidate,
        target=target,
        reference_reached=rows[0].reached,
        candidate_reached=rows[1].reached,
        reason=f"only {counts} reached it",
        origin=Origin(
            files=[file for row in rows for file in row.origin.files],
            expression=f"number of runs of {reference} and of {candidate} in which some quality reaches {target:g}",
        ),
    )
