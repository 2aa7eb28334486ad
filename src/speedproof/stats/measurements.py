"""What the runs of a results folder say together: levels over runs, ratios over pairs, each with its origin."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import fmean

from speedproof.results.claim import Claim
from speedproof.results.comparison import Incomparable, Measured, NoiseFloor, Overhead, PrintedDigits, QualityCheck, Ratio
from speedproof.results.comparison_rows import Needed, Objection, Origin, Outcome
from speedproof.results.folder import MeasuredRun, Results
from speedproof.results.quality import Better
from speedproof.results.run_record import GPU_FILE, PROGRAMS, Mode
from speedproof.stats.clocks import observe_ratio
from speedproof.stats.comparability import RunPair, find_incomparable, pair_runs
from speedproof.stats.estimates import (
    LEAST_HOSTS,
    LEAST_PAIRS,
    Estimate,
    Interval,
    Pair,
    Slack,
    count_needed,
    estimate_level,
    estimate_ratio,
    estimate_ratio_over_hosts,
    find_slack,
    judge_within_margin,
    keep_balanced,
    list_log_ratios,
    mean_slack,
    widen_logs,
    widen_ratio,
)
from speedproof.stats.machines import Sample, list_samples
from speedproof.stats.metrics import METRICS, RATE, TRAINING_EPOCH, measure_run, relative_resolution
from speedproof.stats.non_inferiority import check_quality
from speedproof.stats.ratio_checks import Examined, find_objections
from speedproof.stats.same_work import check_work
from speedproof.stats.sequential import SINGLE, Design, find_latest_look, forecast_look

RunReading = Callable[[MeasuredRun], float | None]  # a value of a run that is not a metric

INTERVAL_RULE = (
    "low and high: 95 % t interval, for one experiment of its pairs' log ratios (with an odd number of pairs above four, the "
    "last pair of the more frequent order is dropped, so that both orders count equally), for three or more hosts of theirs, "
    "each the mean of its experiments' mean log ratios"
)
WIDENED_RULE = "both extended by resolution_s of each run, half a unit of the last digit of its printed epochs"
JOINT_RULE = "at 5 % / {0}, so that {0} compared ratios of a metric hold together"
REPEATED_RULE = "low and high: 95 % repeated interval of the pairs' log ratios, those up to the latest look, valid at any stop"


def measure_level(results: Results, variant: str, mode: Mode, metric: str, target: float | None = None) -> list[Measured]:
    """Return a variant's metric over its completed runs in a mode, of each sample of which every run has a value.

    If runs of a sample diverged, it has no time to a quality.
    """
    runs = results.select(variant, mode)
    diverged = results.select_diverged(variant, mode) if target is not None else []
    without = {run.experiment for run in runs if measure_run(run, metric, target) is None}
    without |= {run.experiment for run in diverged}
    return [
        _describe_level(sample, [run for run in runs if run.experiment in sample.experiments], metric, target)
        for sample in list_samples([*runs, *diverged])
        if sample.experiments.isdisjoint(without)
    ]


def _describe_level(sample: Sample, runs: Sequence[MeasuredRun], metric: str, target: float | None) -> Measured:
    """Return the level of a variant's runs of one sample."""
    by_host = [[run for run in runs if run.experiment in host] for host in sample.hosts]
    hosts = [[value for run in own if (value := measure_run(run, metric, target)) is not None] for own in by_host]
    here, share = sample.scope == "here", METRICS[metric].unit == "%"
    level = estimate_level([[value] for value in hosts[0]] if here else hosts, share)
    mean, units = "mean" if share else "exponential of the mean logarithm", "runs" if here else "hosts"
    return Measured(
        variant=runs[0].run.variant,
        title=runs[0].title,
        mode=runs[0].run.mode,
        metric=metric,
        target=target,
        values=[value for host in hosts for value in host],
        centre=level.centre,
        **level.ends,
        **sample.stated,
        origin=list_origin(
            [run for own in by_host for run in own],
            metric,
            f"{mean} over {units} of: {_expression(metric, target)}; "
            "low and high: 95 % t interval, of a share clipped to 0 and 1",
        ),
    )


def measure_ratio(
    results: Results, reference: str, candidate: str, mode: Mode, metric: str, target: float | None = None
) -> list[Ratio]:
    """Return the ratio of two variants' metric over pairs of runs, of each sample.

    There is none if no pair has both values above 0, or if not every run, diverged ones included, reached the quality. There is
    also none if something besides the techniques differed in an experiment; :func:`list_incomparable` names it.
    """
    if target is not None and any(results.select_diverged(variant, mode) for variant in (reference, candidate)):
        return []
    pairs = pair_runs(results.select(reference, mode), results.select(candidate, mode))
    if find_incomparable(reference, candidate, mode, pairs):
        return []
    rule = f"exponential of the mean log of {reference} / {candidate} of: {_expression(metric, target)}"
    return [_build_ratio(results, found, metric, target, rule) for found in measure_pairs(pairs, metric, target)]


def measure_noise_floor(results: Results, variant: str, metric: str) -> list[NoiseFloor]:
    """Return how far a variant differs from its control; none where no control ran, or something else differed."""
    pairs = pair_runs(results.select(variant, "timed"), results.select_controls(variant))
    if find_incomparable(variant, variant, "timed", pairs):
        return []
    rule = f"exponential of the mean log of {variant} / its control of: {_expression(metric, None)}"
    return [
        NoiseFloor(
            variant=variant,
            title=found.runs[0].title,
            metric=metric,
            centre=found.estimate.centre,
            **found.estimate.ends,
            pairs=len(found.ratios),
            **found.sample.stated,
            largest=max(max(ratio, 1 / ratio) for ratio in found.ratios) - 1,
            origin=list_origin(
                found.runs, metric, f"{rule}; {found.interval_rule}; largest: of the pairs' ratios or reciprocals, less 1"
            ),
        )
        for found in measure_pairs(pairs, metric)
    ]


def list_incomparable(results: Results, reference: str, candidate: str, mode: Mode) -> list[Incomparable]:
    """Return, for each experiment, what besides two variants' techniques differed in a mode, so that no ratio is formed."""
    return find_incomparable(
        reference, candidate, mode, pair_runs(results.select(reference, mode), results.select(candidate, mode))
    )


def measure_overhead(results: Results, variant: str, mode: Mode) -> list[Overhead]:
    """Return how much longer a training epoch takes under a profiler; none where no experiment has comparable runs of both.

    Nor of a proof by kineto, which records no more of a command than an analysis needs: most of its epochs may be without it.
    """
    timed = results.select(variant, "timed")
    whole = [one for one in results.select(variant, mode) if (one.run.case, one.run.profiler) != (PROGRAMS, "kineto")]
    pairs = [(run, other) for run in whole for other in timed if run.experiment == other.experiment]
    if find_incomparable(variant, variant, mode, pairs):
        return []
    rule = (
        f"exponential of the mean log, over all pairs of runs of an experiment, of {mode} / timed: "
        f"{_expression(TRAINING_EPOCH, None)}; of several hosts, of their experiments' means"
    )
    return [
        Overhead(
            variant=variant,
            title=found.runs[0].title,
            mode=mode,
            ratio=found.estimate.centre,
            **found.sample.stated,
            origin=list_origin(found.runs, TRAINING_EPOCH, rule),
        )
        for found in measure_pairs(pairs, TRAINING_EPOCH, balanced=False)
    ]


@dataclass(frozen=True)
class PairedMetric:
    """A metric over the pairs of runs of one sample."""

    sample: Sample
    runs: list[MeasuredRun]  # reference and candidate by turns
    hosts: list[list[list[Pair]]]  # by host and experiment
    estimate: Estimate
    slacks: list[list[list[Slack]]]  # of the pairs, by which the interval is widened
    exact: Interval | None  # that interval before
    design: Design = SINGLE  # by which the interval is made

    @property
    def run_pairs(self) -> list[RunPair]:
        return list(zip(self.runs[::2], self.runs[1::2], strict=True))

    @property
    def pairs(self) -> list[Pair]:
        return [pair for host in self.hosts for experiment in host for pair in experiment]

    @property
    def ratios(self) -> list[float]:
        return [above / below for above, below in self.pairs]

    @property
    def interval_rule(self) -> str:
        """Return what the interval is, for an origin."""
        rules = [REPEATED_RULE if self.design.repeated else INTERVAL_RULE]
        rules += [JOINT_RULE.format(self.design.comparisons)] if self.design.comparisons > 1 else []
        return "; ".join([*rules, WIDENED_RULE] if self.is_widened else rules)

    @property
    def slack(self) -> Slack:
        """Return how far the mean of the log ratios may be off by the digits that programs printed."""
        return mean_slack(self.slacks)

    @property
    def is_widened(self) -> bool:
        """Return whether times of it were printed, so that its interval is wider than that of its values."""
        return self.slack != (0.0, 0.0)

    @property
    def verdict_interval(self) -> Interval | None:
        """Return the interval if it is of enough pairs for a verdict."""
        return self.estimate.interval if len(self.pairs) >= LEAST_PAIRS else None

    @property
    def logs(self) -> list[float]:
        """Return the values that the interval is of: an experiment's log ratios, or the hosts' means."""
        if self.sample.scope == "here":
            return list_log_ratios(self.pairs)
        return [fmean(fmean(list_log_ratios(experiment)) for experiment in host) for host in self.hosts]


def measure_pairs(
    pairs: Sequence[RunPair], metric: str | RunReading, target: float | None = None, balanced: bool = True
) -> list[PairedMetric]:
    """Return the ratios of the pairs that have both values above 0, of each sample; none where one misses the target.

    With `balanced`, all pairs of an experiment count if their number is even or at most four; otherwise one is dropped, so that
    both orders count equally. If rounds ended once variants were decided, the pairs up to the latest look count.
    """
    found = [_read_pair(pair, metric, target) for pair in pairs]
    known = [one for one in found if one is not None]
    if target is not None and len(known) < len(found):
        return []
    experiments: dict[str, list[_MeasuredPair]] = {}
    for one in known:
        experiments.setdefault(one.runs[0].experiment, []).append(one)
    if balanced:
        experiments = {name: _keep_balanced(experiment) for name, experiment in experiments.items()}
    samples = list_samples([one.runs[0] for experiment in experiments.values() for one in experiment])
    return [_pool(sample, [[experiments[name] for name in host] for host in sample.hosts], balanced) for sample in samples]


@dataclass(frozen=True)
class _MeasuredPair:
    """A pair of runs, and what was measured of both."""

    runs: RunPair
    values: Pair
    slack: Slack


def _read_pair(pair: RunPair, metric: str | RunReading, target: float | None) -> _MeasuredPair | None:
    """Return what was measured of a pair; None unless both values are above 0."""
    above, below = (measure_run(run, metric, target) if isinstance(metric, str) else metric(run) for run in pair)
    return _MeasuredPair(pair, (above, below), _find_slack(pair, metric, target)) if above and below else None


def _pool(sample: Sample, hosts: Sequence[Sequence[Sequence[_MeasuredPair]]], balanced: bool) -> PairedMetric:
    """Return the ratio of a sample's pairs, by host and experiment."""
    values = [[[one.values for one in experiment] for experiment in host] for host in hosts]
    slacks = [[[one.slack for one in experiment] for experiment in host] for host in hosts]
    runs = [run for host in hosts for experiment in host for one in experiment for run in one.runs]
    here = sample.scope == "here"
    design = Design(balanced and here and runs[0].until_decided, max(run.comparisons for run in runs))
    together = design.comparisons
    estimate = estimate_ratio(values[0][0], together) if here else estimate_ratio_over_hosts(values, together)
    if design.repeated:
        of_logs = design.interval_of(list_log_ratios(values[0][0]))
        estimate = Estimate(estimate.centre, of_logs and of_logs.exponential)
    exact = estimate.interval
    widened = Estimate(estimate.centre, widen_ratio(exact, mean_slack(slacks)) if exact else None)
    sample = replace(sample, runs_beside=sum(run.had_company for run in runs))
    return PairedMetric(sample, runs, values, widened, slacks, exact, design)


def _find_slack(pair: RunPair, metric: str | RunReading, target: float | None) -> Slack:
    """Return how far the digits that programs printed let a pair's log ratio be off; a reading of a run is one of a rate."""
    known = metric if isinstance(metric, str) else RATE
    one, other = (relative_resolution(run, known, target) for run in pair)
    below, above = find_slack(one, other)
    return (above, below) if METRICS[known].printed == "rate" else (below, above)


def _keep_balanced(experiment: list[_MeasuredPair]) -> list[_MeasuredPair]:
    """Return the pairs of an experiment that count, by round: an even number of a fixed one, or those up to a look."""
    ordered = sorted(experiment, key=lambda entry: entry.runs[0].run.round)
    if ordered[0].runs[0].until_decided:
        return ordered[: find_latest_look(len(ordered))]
    starts = [[(run.run.started, run.name) for run in entry.runs] for entry in ordered]
    return [ordered[number] for number in keep_balanced([one < other for one, other in starts])]


def decide(found: PairedMetric, margin: float) -> Outcome:
    """Return the outcome for the variant that a ratio above 1 favours: for a time, the candidate."""
    if found.verdict_interval is None:
        return "no verdict"
    return judge_within_margin(found.verdict_interval, margin)


def _describe_digits(found: PairedMetric, margin: float) -> PrintedDigits | None:
    """Return what the ratio would be without the digits of printed times; None if it is of no such times."""
    if not found.is_widened:
        return None
    exact = replace(found, estimate=Estimate(found.estimate.centre, found.exact))
    digit_s = max(2 * (run.run.resolution_s or 0.0) for run in found.runs)
    return PrintedDigits(digit_s=digit_s, **exact.estimate.ends, outcome=decide(exact, margin))


def estimate_needed(found: PairedMetric, decides: Callable[[Interval], bool]) -> Needed | None:
    """Return how many pairs, or hosts, an interval of the ratio would take to decide, and the minutes of those that miss."""
    logs = found.logs
    if len(logs) < 2:
        return None
    here = found.sample.scope == "here"

    def decides_logs(interval: Interval) -> bool:
        return decides(widen_logs(interval, found.slack).exponential)

    together = found.design.comparisons
    if found.design.repeated:
        count = forecast_look(logs, decides_logs, together)
    else:
        least, step = (LEAST_PAIRS, 2) if here else (LEAST_HOSTS, 1)  # of an odd number one would be dropped
        count = count_needed(logs, decides_logs, least, step, together)
    if count is None:
        return None
    seconds = [_lasted_s(run) for run in found.runs]
    each_s = 2 * fmean(seconds) if here else sum(seconds) / len(logs)
    return Needed(pairs=count, minutes=(count - len(logs)) * each_s / 60)


def _build_ratio(results: Results, found: PairedMetric, metric: str, target: float | None, rule: str) -> Ratio:
    """Return the ratio of two variants' timed or profiled runs, with what is known of their quality and work."""
    pairs, entry = found.run_pairs, METRICS[metric]
    (reference, candidate), mode = (run.run.variant for run in pairs[0]), pairs[0][0].run.mode
    outcome = decide(found, results.equivalence_margin)
    quality = _check_quality(results, found, entry.better) if entry.judged else None
    objections = _list_objections(results, found, metric, target) if mode == "timed" else []
    return Ratio(
        reference=reference,
        candidate=candidate,
        mode=mode,
        metric=metric,
        target=target,
        centre=found.estimate.centre,
        **found.estimate.ends,
        pairs=len(found.ratios),
        comparisons=found.design.comparisons,
        **found.sample.stated,
        outcome=outcome,
        needed=_estimate_needed_pairs(results, found, _find_claim(results, metric, target) if mode == "timed" else None),
        claimed=outcome in ("faster", "slower")
        and (quality is None or quality.outcome != "worse")
        and not any(objection.blocks for objection in objections),
        quality=quality,
        work=check_work(pairs, entry.spreads) if entry.judged else None,
        printed=_describe_digits(found, results.equivalence_margin),
        observed=observe_ratio(metric, pairs) if mode == "timed" and found.sample.scope == "here" else None,
        objections=objections,
        origin=list_origin(found.runs, metric, f"{rule}; {found.interval_rule}"),
    )


def _check_quality(results: Results, found: PairedMetric, better: Better) -> QualityCheck:
    mode, experiments = found.runs[0].run.mode, {run.experiment for run in found.runs}
    variants = dict.fromkeys(run.run.variant for run in found.runs)
    diverged = [run for variant in variants for run in results.select_diverged(variant, mode) if run.experiment in experiments]
    return check_quality(found.run_pairs, results.quality, found.estimate.centre, better, diverged, found.design)


def _estimate_needed_pairs(results: Results, found: PairedMetric, claim: Claim | None) -> Needed | None:
    """Return how many pairs would decide the claim or, without one, which variant is faster; None if that is decided."""

    def decides(interval: Interval) -> bool:
        if claim is None:
            return judge_within_margin(interval, results.equivalence_margin) != "inconclusive"
        return claim.judge(interval.low, interval.high) != "inconclusive"

    decided = found.verdict_interval is not None and decides(found.verdict_interval)
    return None if decided else estimate_needed(found, decides)


def _find_claim(results: Results, metric: str, target: float | None) -> Claim | None:
    """Return what a proof claims of a metric's ratio."""
    asked = results.asked
    return asked.claim if asked and (metric, target) == (asked.metric, None) else None


def _list_objections(results: Results, found: PairedMetric, metric: str, target: float | None) -> list[Objection]:
    """Return what speaks against a ratio of timed runs: of several machines, what blocks the ratio of any experiment."""
    if found.sample.scope == "here":
        return find_objections(_examine(results, found, metric, target))
    blocking: dict[tuple[str, str | None], Objection] = {}
    for name in (experiment for host in found.sample.hosts for experiment in host):
        own = [pair for pair in found.run_pairs if pair[0].experiment == name]
        for alone in measure_pairs(own, metric, target):
            for objection in find_objections(_examine(results, alone, metric, target)):
                if objection.blocks:
                    blocking.setdefault((objection.kind, objection.variant), objection)
    return list(blocking.values())


def _examine(results: Results, found: PairedMetric, metric: str, target: float | None) -> Examined:
    """Return a ratio of one experiment as checks see it."""
    experiment = found.runs[0].experiment
    reference, candidate = (run.run.variant for run in found.runs[:2])
    trusted = any(one.trust_reported is not None for one in results.experiments if one.experiment == experiment)
    return Examined(
        reference=reference,
        candidate=candidate,
        metric=metric,
        pairs=found.run_pairs,
        values=found.pairs,
        profiled=(_list_profiled(results, experiment, reference), _list_profiled(results, experiment, candidate)),
        centre=found.estimate.centre,
        interval=found.estimate.interval,
        outcome=decide(found, results.equivalence_margin),
        equivalence_margin=results.equivalence_margin,
        trusted=trusted,
        claim=_find_claim(results, metric, target),
    )


def _list_profiled(results: Results, experiment: str, variant: str) -> list[MeasuredRun]:
    return [run for run in results.select(variant, "profiled") if run.experiment == experiment]


def _lasted_s(run: MeasuredRun) -> float:
    return (datetime.fromisoformat(run.run.ended) - datetime.fromisoformat(run.run.started)).total_seconds()


def list_origin(runs: Sequence[MeasuredRun], metric: str, expression: str) -> Origin:
    """Return the files that a metric of these runs is computed of, and how."""
    files = [file for run in runs for name in METRICS[metric].files for file in _list_files(run, name)]
    return Origin(files=files, expression=expression)


def _list_files(run: MeasuredRun, name: str) -> list[str]:
    return run.process_files(name) if name == GPU_FILE else [run.file(name)]


def _expression(metric: str, target: float | None) -> str:
    return METRICS[metric].expression if target is None else f"{METRICS[metric].expression} ({target:g})"
