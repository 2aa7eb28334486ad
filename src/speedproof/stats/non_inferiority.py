"""Equal quality: how well two variants learn, by the rule that the plan of an experiment committed to before its first run."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING, Literal

from speedproof.results.comparison import QualityCheck, QualityOutcome, Reached, Unreached
from speedproof.results.comparison_rows import Objection, Origin
from speedproof.results.folder import MeasuredRun, Results
from speedproof.results.quality import Better, Quality
from speedproof.results.run_record import EPOCHS_FILE, RUN_FILE
from speedproof.stats.carried_over import list_kinds_of
from speedproof.stats.comparability import RunPair, pair_runs
from speedproof.stats.estimates import LEAST_HOSTS, Interval, estimate_mean
from speedproof.stats.metrics import PROCESS
from speedproof.stats.run_values import epochs_to_quality, training_epoch_s, warm_up_epochs
from speedproof.stats.sequential import SINGLE, Design
from speedproof.util.numbers import format_count

if TYPE_CHECKING:
    from speedproof.stats.ratio_checks import Examined


LEAST_SEEDS = 4  # of which quality is judged: as many as the pairs of which a ratio is


def median_best_quality(runs: list[MeasuredRun]) -> float | None:
    """Return the median over runs of each run's best quality; None unless every run validated."""
    scores = [run.run.best_quality for run in runs if run.run.best_quality is not None]
    return median(scores) if scores and len(scores) == len(runs) else None


@dataclass(frozen=True)
class QualityDifference:
    """How much higher the faster variant's quality is than the other's, over seeds."""

    faster: float  # mean over seeds; of several machines, over their means
    slower: float
    interval: Interval | None  # of the difference; None if there are too few seeds, or a variant is constant
    seeds: int = LEAST_SEEDS  # different ones
    constant: tuple[bool, bool] = (
        False,
        False,
    )  # whether all runs of the faster, the slower report one value

    @property
    def centre(self) -> float:
        return self.faster - self.slower

    @property
    def turned(self) -> "QualityDifference":
        """Return how much higher the slower variant's quality is."""
        interval = None if self.interval is None else Interval(-self.interval.high, -self.interval.low)
        return QualityDifference(self.slower, self.faster, interval, self.seeds, self.constant[::-1])


Scores = Sequence[tuple[int, float | None]]  # seed and quality of each run


def check_quality(
    pairs: Sequence[RunPair],
    rule: Quality,
    ratio: float,
    better: Better = "lower",
    diverged: Sequence[MeasuredRun] = (),
    design: Design = SINGLE,
) -> QualityCheck:
    """Return whether the faster variant learns as well as the other; for a time, a `ratio` above 1 favours the candidate.

    `better` is the metric's own. Both variants are judged by the runs that make the ratio, since another experiment may have
    trained a variant for longer. Of several machines, each counts once. If runs of either `diverged`, it is not established.
    """
    candidate_is_faster = (ratio >= 1) == (better == "lower")
    counted = pairs if len({pair[0].host for pair in pairs}) == 1 else leave_out_tuned(pairs, rule)
    found = _compare_hosts(counted, design)  # the candidate's against the reference's
    difference = found if found is None or candidate_is_faster else found.turned
    diverging = Counter(run.title for run in diverged)
    broken = " and ".join(f"{format_count(count, 'run')} of {title}" for title, count in diverging.items())
    outcome, reason = judge_quality(difference, rule, broken)
    return QualityCheck(
        outcome=outcome,
        reference_quality=found.slower if found else None,
        candidate_quality=found.faster if found else None,
        difference=difference.centre if difference else None,
        **_list_ends(difference),
        seeds=difference.seeds if difference and difference.seeds < LEAST_SEEDS else None,
        constant=_name_constant(found) if found else [],
        diverged=broken,
        reason=reason,
        origin=_describe_origin(counted, design),
    )


def _list_ends(difference: QualityDifference | None) -> dict[str, float | None]:
    interval = difference.interval if difference else None
    return {"low": interval.low if interval else None, "high": interval.high if interval else None}


def _describe_origin(pairs: Sequence[RunPair], design: Design) -> Origin:
    names = [pairs[0][place].run.variant for place in (0, 1)]
    kind = f"{'joint ' if design.comparisons > 1 else ''}{'repeated' if design.repeated else 't'}"
    return Origin(
        files=[pair[place].file(RUN_FILE) for place in (0, 1) for pair in pairs],
        expression=(
            f"means over seeds of best_quality, of {names[0]} and of {names[1]}; low and high: 95 % {kind} interval of the "
            "faster variant's less the other's, paired by seed; of several machines, of each one's mean, without the seeds "
            "on which settings were chosen"
        ),
    )


def _name_constant(found: QualityDifference) -> list[Literal["reference", "candidate"]]:
    """Return which variants are constant in a difference of the candidate's quality from the reference's."""
    names: tuple[Literal["reference", "candidate"], ...] = ("candidate", "reference")
    return [name for name, constant in zip(names, found.constant, strict=True) if constant]


def leave_out_tuned(pairs: Sequence[RunPair], rule: Quality) -> list[RunPair]:
    """Return the pairs without those on whose seed and data the settings of one of the variants were chosen."""
    return [pair for pair in pairs if not any(_is_tuned_on(run, rule) for run in pair)]


def _is_tuned_on(run: MeasuredRun, rule: Quality) -> bool:
    tuned = rule.tuned_on.get(run.run.variant)
    if tuned is None or run.run.seed not in tuned.seeds:
        return False
    return not tuned.data or run.run.conditions.dataset_name in tuned.data


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
    constant = (variant in check.constant, len(check.constant) > (variant in check.constant))
    difference = QualityDifference(own, other, interval, check.seeds or LEAST_SEEDS, constant)
    outcome, reason = judge_quality(difference, rule, check.diverged)
    changed = {"outcome": outcome, "reason": reason, "difference": -check.difference, **_list_ends(difference)}
    return check.model_copy(update=changed)


def _compare_hosts(pairs: Sequence[RunPair], design: Design) -> QualityDifference | None:
    """Return how much higher the candidate's quality is than the reference's, by pairs of one machine or of several."""
    hosts: dict[str, list[RunPair]] = {}
    for pair in pairs:
        hosts.setdefault(pair[0].host, []).append(pair)
    scores = [
        tuple([(pair[place].run.seed, pair[place].run.best_quality) for pair in own] for place in (1, 0))
        for own in hosts.values()
    ]
    return pool_qualities([(candidate, reference) for candidate, reference in scores], design)


def pool_qualities(hosts: Sequence[tuple[Scores, Scores]], design: Design = SINGLE) -> QualityDifference | None:
    """Return the difference of two variants' qualities over machines, each of which counts once, as its mean.

    Seeds of one machine may agree better with each other than with another's, and machines that ran the same seeds agree
    whatever other seeds would give. So the interval is the wider one of two: of the machines' means, and of the seeds' means.
    One machine alone is judged by its seeds. Fewer than three of several have no interval. None unless every run has a quality.
    """
    found = [compare_qualities(faster, slower, design) for faster, slower in hosts]
    known = [one for one in found if one is not None]
    if not known or len(known) < len(found):
        return None
    if len(known) == 1:
        return known[0]
    faster, slower = ([score for scores in hosts for score in scores[place]] for place in (0, 1))
    by_seed = compare_qualities(faster, slower, design)
    if by_seed is None:
        return None
    own, other = fmean(one.faster for one in known), fmean(one.slower for one in known)
    ends = [by_seed.interval, estimate_mean([one.centre for one in known]).interval]
    widths = [end.high - end.low for end in ends if end is not None]
    interval = None
    if len(known) >= LEAST_HOSTS and len(widths) == len(ends):
        interval = Interval(own - other - max(widths) / 2, own - other + max(widths) / 2)
    return QualityDifference(own, other, interval, by_seed.seeds, by_seed.constant)


def compare_qualities(faster: Scores, slower: Scores, design: Design = SINGLE) -> QualityDifference | None:
    """Return the difference of two variants' qualities, each given as seed and quality of each run, in pairs.

    Runs of one seed count as their mean. If all runs of a variant have the same value although their seeds differ, the seed
    does not reach its program, and how much its quality varies is not known: there is no interval. Seeds of which some agree,
    as shares of few cases do, count each. None unless every run has a quality.
    """
    own, other = _mean_by_seed(faster), _mean_by_seed(slower)
    if not own or not other:
        return None
    constant = (len(own) > 1 and len(set(own.values())) == 1, len(other) > 1 and len(set(other.values())) == 1)
    interval = None if any(constant) else design.interval_of([value - other[seed] for seed, value in own.items()])
    return QualityDifference(fmean(own.values()), fmean(other.values()), interval, len(own), constant)


def judge_quality(difference: QualityDifference | None, rule: Quality, diverged: str = "") -> tuple[QualityOutcome, str]:
    """Return whether the faster variant's quality is as good as the slower one's, and why.

    No worse: the interval's worse end is within the margin, and no run `diverged`, of which there is no quality; worse: its
    better end is beyond; else, and of fewer than four seeds, neither is established.
    """
    if difference is None:
        return "not judged", "not every run validated"
    if rule.margin is None:
        return "not judged", "no quality margin was declared"
    above = "above" if rule.better == "higher" else "below"
    if rule.judged_above is not None and rule.reaches(rule.judged_above, difference.slower):
        limit = rule.format(rule.judged_above)
        return (
            "not judged",
            f"the slower variant's {rule.title} is {rule.format(difference.slower)}; quality is judged only {above} {limit}",
        )
    both = f"{rule.title} {rule.format(difference.faster)} against {rule.format(difference.slower)}"
    if lacking := _describe_lacking(difference, rule):
        return "not established", f"{both}{lacking}"
    if difference.interval is None:
        return "not established", f"{both}, from fewer than {LEAST_HOSTS} machines, which are not pooled"
    return _judge_ends(difference.interval, rule, both, diverged)


def _describe_lacking(difference: QualityDifference, rule: Quality) -> str:
    """Return why the seeds do not allow a verdict on quality; nothing if they do."""
    if constant := dict.fromkeys(_list_constant(difference, rule)):
        which = "every run" if all(difference.constant) else "every run of one variant"
        values = " or ".join(constant)
        return f": {which} reports {values}; the program ignores its seed (SPEEDPROOF_SEED), or the seed changes nothing"
    if difference.seeds < LEAST_SEEDS:
        return f" over {format_count(difference.seeds, 'seed')}; a verdict on quality needs {LEAST_SEEDS}"
    return ""


def _list_constant(difference: QualityDifference, rule: Quality) -> list[str]:
    values = (difference.faster, difference.slower)
    return [rule.format(value) for value, constant in zip(values, difference.constant, strict=True) if constant]


def _judge_ends(interval: Interval, rule: Quality, both: str, diverged: str) -> tuple[QualityOutcome, str]:
    """Judge the interval of a difference by the margin; `both` names the two qualities."""
    margin = rule.margin or 0.0
    lower, within = "lower" if rule.better == "higher" else "higher", rule.format(margin)
    ends = sorted((interval.low, interval.high), reverse=rule.better == "lower")
    worst, best = (_round_off(end if rule.better == "higher" else -end) for end in ends)
    if worst >= -margin and diverged:
        return "not established", f"{both} in the runs that did not diverge; {diverged} diverged"
    if worst >= -margin:
        return "no worse", f"{both}, not {lower} by more than the margin of {within}"
    if best < -margin:
        return "worse", f"{both}, {lower} by more than the margin of {within}"
    limits = f"{rule.format(interval.low)} to {rule.format(interval.high)}"
    return (
        "not established",
        f"{both}, difference {limits}: it may be {lower} by more than the margin of {within}",
    )


def _mean_by_seed(scores: Scores) -> dict[int, float]:
    """Return each seed's mean quality; nothing unless every run has one."""
    seeds: dict[int, list[float]] = {}
    for seed, quality in scores:
        if quality is None:
            return {}
        seeds.setdefault(seed, []).append(quality)
    return {seed: fmean(values) for seed, values in seeds.items()}


def _round_off(value: float) -> float:
    """Return a quality's difference without the rounding error of binary fractions: 0.93 - 0.94 is -0.01."""
    return round(value, 12)


def count_reached(
    runs: Sequence[MeasuredRun], target: float, diverged: Sequence[MeasuredRun] = (), experiment: str | None = None
) -> Reached | None:
    """Return how many of a variant's runs reached a quality; those that `diverged` did not. None without runs."""
    counted = [*runs, *diverged]
    if not counted:
        return None
    reached = [run for run in runs if epochs_to_quality(run, target) is not None]
    return Reached(
        variant=counted[0].run.variant,
        title=counted[0].title,
        target=target,
        experiment=experiment,
        runs=len(counted),
        reached=len(reached),
        continued=sum(1 for run in reached if run.run.continued),
        origin=Origin(
            files=[run.file(name) for run in counted for name in (EPOCHS_FILE, RUN_FILE)],
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


_SHARE = 0.5  # of a gain that the quality command eats
# By how much its shortest times differ if it does the same: of three of 0.11 s by 0.046 s at most, in 67 draws (Python on two
# cores with a load of 17); in one proof of four rounds by 0.058 s. Longer ones differ by more.
_TOLERATED_S, _TOLERATED = 0.1, 0.05
_LEAST_RUNS = 3
_LEAST_READ = 2  # runs of either variant whose quality rests on a file: one may be read by another program just then


def check_judged(examined: "Examined") -> list[Objection]:
    """Object if the faster variant changed what the quality command reads, or leaves it work that eats the gain."""
    faster = examined.faster
    variant = examined.variants[faster]
    own, other = ([pair[position] for pair in examined.pairs] for position in (faster, 1 - faster))
    if min(len(own), len(other)) < _LEAST_RUNS:
        return []
    return [*_check_data(variant, own, other), *_check_time(variant, own, other, examined.metric == PROCESS)]


def _check_data(variant: str, own: Sequence[MeasuredRun], other: Sequence[MeasuredRun]) -> list[Objection]:
    elsewhere = {kind for name in _list_changed(other) for kind in list_kinds_of(name)}
    changed = [name for name in _list_rewritten(own) if not any(kind in elsewhere for kind in list_kinds_of(name))]
    names = [name for name in changed if _rests_on(name, own) and _rests_on(name, other)]
    return [Objection(kind="changed test data", variant=variant, blocks=True, names=names)] if names else []


def _list_rewritten(own: Sequence[MeasuredRun]) -> list[str]:
    """Return the files that timed runs changed, or a warm-up that did not create them, as it does with what it downloads."""
    timed = [name for run in own for name in run.observed.changed]
    warm_up = own[0].observed.warm_up
    before = [
        name
        for name in (warm_up.changed if warm_up else [])
        if warm_up and name not in warm_up.own_not_hidden and not any(run.hides(name) for run in warm_up.without)
    ]
    return list(dict.fromkeys([*timed, *before]))


def _list_changed(runs: Sequence[MeasuredRun]) -> list[str]:
    warm_up = runs[0].observed.warm_up
    return [*(warm_up.changed if warm_up else []), *(name for run in runs for name in run.observed.changed)]


def _rests_on(name: str, runs: Sequence[MeasuredRun]) -> bool:
    """Return whether the quality command reads a file after each run but the first, which may come before its change."""
    read = sum(name in run.observed.judged_by for run in runs)
    return read >= max(_LEAST_READ, len(runs) - 1)


def _check_time(variant: str, own: Sequence[MeasuredRun], other: Sequence[MeasuredRun], of_processes: bool) -> list[Objection]:
    own_s, other_s = ([run.observed.judging_s for run in runs] for runs in (own, other))
    times = [[one for one in times_s if one is not None] for times_s in (own_s, other_s)]
    if len(times[0]) < len(own) or len(times[1]) < len(other):
        return []
    gain_s = fmean(_measure_spent(run, of_processes) for run in other) - fmean(_measure_spent(run, of_processes) for run in own)
    shortest, shortest_other = map(min, times)
    more_s = shortest - shortest_other
    if gain_s <= 0 or more_s <= max(_SHARE * gain_s, _TOLERATED_S + _TOLERATED * shortest_other):
        return []
    values = {"judging_s": shortest, "other_judging_s": shortest_other, "gain_s": gain_s}
    return [Objection(kind="works when judged", variant=variant, blocks=True, values=values)]


def _measure_spent(run: MeasuredRun, of_processes: bool) -> float:
    """Return what all epochs of a run took, each as its average one, else its process."""
    epoch_s = None if of_processes else training_epoch_s(run.epochs, warm_up_epochs(run.run))
    return run.run.process_s if epoch_s is None else epoch_s * len(run.epochs)
