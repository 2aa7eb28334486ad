"""The verdict on each documented number: an outcome that is computed, and the conditions that differ."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from speedproof.results.comparison import Measured, Ratio
from speedproof.results.comparison_rows import ClaimResult, ClaimVerdict, DocumentedRatio, Needed
from speedproof.results.folder import MeasuredRun, Results
from speedproof.results.quality import Better
from speedproof.results.run_record import Mode
from speedproof.stats.claim_conditions import describe_bottleneck, list_conditions
from speedproof.stats.claims_file import (
    ClaimsFile,
    DocumentedClaim,
    Level,
    Source,
    Speedup,
    Unmeasurable,
    list_claimed_variants,
)
from speedproof.stats.comparability import pair_runs
from speedproof.stats.estimates import LEAST_PAIRS, Interval, judge_interval
from speedproof.stats.measurements import (
    estimate_needed,
    list_incomparable,
    measure_level,
    measure_pairs,
    measure_ratio,
)
from speedproof.stats.metrics import METRICS, measure_run
from speedproof.stats.run_values import epochs_to_quality
from speedproof.util.numbers import Unit, format_count, format_range, format_value

# The modes in which a claim is measured, the closest first. Numbers documented under a profiler are compared with profiled
# runs.
_MODES: dict[bool, list[Mode]] = {True: ["documented", "profiled", "timed"], False: ["timed"]}

_POSSIBLE = "the source calls this possible, so a lower value does not contradict it"
_MACHINES_UNITS = {"s", "/s", "J", "MiB"}  # of a machine's resources; all others are of learning


@dataclass(frozen=True)
class JudgedSample:
    """What a sample, or several of which this one is shown, say of a claim."""

    shown: Measured | Ratio
    verdict: ClaimVerdict
    reasons: list[str]
    by_experiment: dict[str, ClaimVerdict] = field(default_factory=dict)
    decidable: bool = True  # by more pairs: no number decides between experiments that contradict each other

    @property
    def count(self) -> int:
        return _count(self.shown)


def judge_claim(claim: DocumentedClaim, file: ClaimsFile, results: Results) -> ClaimResult:
    """Measure what a claim is about, in the closest mode that has it, and return the verdict.

    If several experiments are not merged, each is judged by itself; the claim is inconclusive if they disagree.
    """
    source = file.sources[claim.source]
    for mode in _MODES[source.profiled]:
        if found := _measure(claim.quantity, results, mode):
            break
    else:
        return _explain_absence(claim, file, results)
    bounds = file.list_bounds(claim)
    one = _unite([judge_sample(claim, row, bounds) for row in found], claim.unit)
    shown, method = one.shown, _describe_method(one.shown, mode)
    runs = [run for name in list_claimed_variants(claim.quantity) for run in results.select(name, mode)]
    if gate := _find_gate(claim.quantity, file, source, runs):
        one = JudgedSample(shown, "not comparable", [gate])
    return _result(claim, file).model_copy(
        update={
            "measured": shown.centre,
            "low": shown.low,
            "high": shown.high,
            "scope": shown.scope,
            "runs_beside": shown.runs_beside,
            "counted": one.count,
            "ratio": _document_ratio(bounds, shown),
            "needed": _estimate_needed(claim, bounds, one, results),
            "verdict": one.verdict,
            "by_experiment": one.by_experiment,
            "conditions": [
                *list_conditions(file, source, runs, mode, shown.metric),
                *_describe_limits_of_ratio(claim.quantity, results),
            ],
            "reason": "; ".join([method, *one.reasons]),
            "origin": shown.origin,
        }
    )


def _unite(judged: list[JudgedSample], unit: Unit) -> JudgedSample:
    """Return the sample that is shown, of the most pairs or runs: inconclusive if experiments disagree.

    Then an inconclusive one is shown, with what would decide it.
    """
    enough = [one for one in judged if one.count >= LEAST_PAIRS]
    disagree = len({one.verdict for one in enough}) > 1
    lacking = [one for one in enough if one.verdict == "inconclusive"] if disagree else []
    united = max(lacking or judged, key=lambda one: one.count)
    shown = united.shown
    if len(judged) > 1:
        each = (f"{one.shown.experiment} {_describe_interval(one.shown, unit)}: {one.verdict}" for one in judged)
        apart = f"each experiment by itself, of which {shown.experiment} is shown: {', '.join(each)}"
        united = replace(united, reasons=[*united.reasons, apart])
    if not disagree:
        return united
    by_experiment = {str(one.shown.experiment): one.verdict for one in enough}
    return replace(united, verdict="inconclusive", by_experiment=by_experiment, decidable=bool(lacking))


def _describe_limits_of_ratio(quantity: Level | Speedup | Unmeasurable, results: Results) -> list[str]:
    """Return how busy the GPUs were, of a ratio of times: that of a busy one and an idle one is not of the GPU alone."""
    if not isinstance(quantity, Speedup) or METRICS[quantity.metric].unit not in ("s", "/s"):
        return []
    return describe_bottleneck(list_claimed_variants(quantity), results)


def judge_sample(claim: DocumentedClaim, found: Measured | Ratio, bounds: tuple[float, float]) -> JudgedSample:
    """Return how one sample's interval judges a claim, and why it may not."""
    quality = found.quality if isinstance(found, Ratio) else None
    if isinstance(found, Ratio) and found.worse and quality is not None:
        return JudgedSample(found, "not comparable", [f"withheld: {quality.reason}"])
    reasons = [quality.reason] if quality is not None and quality.outcome == "not established" else []
    if found.low is None or found.high is None or _count(found) < LEAST_PAIRS:
        return JudgedSample(found, "inconclusive", [f"a verdict needs {LEAST_PAIRS} {_counted(found)}s", *reasons])
    verdict = _judge_stated(claim, Interval(found.low, found.high), bounds)
    possible = [_POSSIBLE] if claim.stated.comparator == "up to" and verdict == "inconclusive" else []
    return JudgedSample(found, verdict, [*possible, *reasons])


def _judge_stated(claim: DocumentedClaim, interval: Interval, bounds: tuple[float, float]) -> ClaimVerdict:
    """Return how an interval compares with a claim: below what a source calls possible, only a loss contradicts it."""
    verdict = judge_interval(interval, bounds, _better(claim.quantity))
    is_loss = isinstance(claim.quantity, Speedup) and bounds[0] > 1 > interval.high
    return (
        "inconclusive" if claim.stated.comparator == "up to" and verdict == "not reproduced here" and not is_loss else verdict
    )


def _better(quantity: Level | Speedup | Unmeasurable) -> Better:
    return METRICS[quantity.metric].better if isinstance(quantity, Level) else "higher"


def _find_gate(
    quantity: Level | Speedup | Unmeasurable, file: ClaimsFile, source: Source, runs: list[MeasuredRun]
) -> str | None:
    """Return why a total of other epochs, or a level that depends on the machine or the data, cannot be compared; else None.

    Other ratios of two variants and shares are compared wherever they are measured, beside what differs.
    """
    if isinstance(quantity, Unmeasurable):
        return None
    metric = METRICS[quantity.metric]
    title = metric.note(runs[0].quality).title
    if metric.total and (others := {run.run.epochs for run in runs} - {source.epochs}):
        return f"{title} of {min(others)} epochs: not comparable with that of {source.epochs}"
    if isinstance(quantity, Speedup) or metric.unit == "%":
        return None
    of_machine = metric.unit in _MACHINES_UNITS
    of_data = quantity.target is not None or not of_machine
    for ranks, conditions in ((run.run.ranks, run.run.conditions) for run in runs):
        if of_machine and (conditions.gpu is None or not source.is_of(conditions.gpu.name) or ranks != source.gpus):
            several = f"{ranks} " if ranks > 1 else ""
            return f"{title} on {several}{conditions.device_name()}: not comparable with {source.hardware}"
        if of_data and file.is_of_other_data(conditions):
            return f"{title} on {conditions.dataset_name}: not comparable with {file.dataset}"
    return None


def _count(found: Measured | Ratio) -> int:
    return found.pairs if isinstance(found, Ratio) else len(found.values)


def _counted(found: Measured | Ratio) -> str:
    return "pair" if isinstance(found, Ratio) else "run"


def _describe_interval(found: Measured | Ratio, unit: Unit) -> str:
    interval = f" ({format_range(found.low, found.high, unit)})" if found.low is not None else ""
    return f"{format_value(found.centre, unit)}{interval}"


def _estimate_needed(
    claim: DocumentedClaim, bounds: tuple[float, float], judged: JudgedSample, results: Results
) -> Needed | None:
    """Return how many pairs of runs would decide a claim on a ratio; None of a level, or where no number would."""
    shown = judged.shown
    if judged.verdict != "inconclusive" or not judged.decidable or not isinstance(shown, Ratio) or shown.worse:
        return None
    pairs = pair_runs(results.select(shown.reference, shown.mode), results.select(shown.candidate, shown.mode))
    for found in measure_pairs(pairs, shown.metric, shown.target):
        if found.sample.experiment == shown.experiment:
            return estimate_needed(found, lambda interval: _judge_stated(claim, interval, bounds) != "inconclusive")
    return None


def _measure(quantity: Level | Speedup | Unmeasurable, results: Results, mode: Mode) -> Sequence[Measured | Ratio]:
    match quantity:
        case Level():
            levels = measure_level(results, quantity.variant, mode, quantity.metric, quantity.target)
            runs = list(results.select(quantity.variant, mode))
            runs += results.select_diverged(quantity.variant, mode) if quantity.target is not None else []
            return levels if sum(len(one.values) for one in levels) == len(runs) else []  # all experiments count
        case Speedup():
            return measure_ratio(results, quantity.reference, quantity.candidate, mode, quantity.metric, quantity.target)
        case Unmeasurable():
            return []


def _explain_absence(claim: DocumentedClaim, file: ClaimsFile, results: Results) -> ClaimResult:
    """Say why there is no number: nothing ran or could be paired, or runs did not reach the quality."""
    quantity = claim.quantity
    if isinstance(quantity, Unmeasurable):
        return _result(claim, file, reason=quantity.missing)
    modes = _MODES[file.sources[claim.source].profiled]
    names = list_claimed_variants(quantity)
    if absent := [name for name in names if not any(results.select(name, mode) for mode in modes)]:
        return _result(claim, file, reason=f"no completed run of {' and '.join(absent)}")
    runs = _list_counted(quantity, results, modes)
    if isinstance(quantity, Speedup) and (reason := _explain_unpaired(quantity, results, modes, runs)):
        return _result(claim, file, reason=reason)
    diverged = [run for name in names for mode in modes for run in results.select_diverged(name, mode)]
    short = [] if quantity.target is None else [run for run in runs if epochs_to_quality(run, quantity.target) is None]
    if not short and (quantity.target is None or not diverged):
        return _result(claim, file, reason=_explain_lacking(quantity, results, runs))
    return _judge_unreached(claim, file, results, quantity, (runs, short, diverged))


def _explain_lacking(quantity: Level | Speedup, results: Results, runs: list[MeasuredRun]) -> str:
    """Return which metric runs have no value of, and why."""
    lacking = [run for run in runs if not measure_run(run, quantity.metric, quantity.target)]
    some = f" in {len(lacking)} of {len(runs)} runs" if len(lacking) < len(runs) else ""
    metric = METRICS[quantity.metric]
    return f"no value of {metric.note(results.quality).title}{some}{f': {metric.absence}' if metric.absence else ''}"


def _judge_unreached(
    claim: DocumentedClaim,
    file: ClaimsFile,
    results: Results,
    quantity: Level | Speedup,
    counted: tuple[list[MeasuredRun], list[MeasuredRun], list[MeasuredRun]],
) -> ClaimResult:
    """Judge a way to a quality that not every run reached: `counted` are all runs, those that fell short, and diverged ones."""
    runs, short, diverged = counted
    source, first = file.sources[claim.source], runs[0]
    epochs = min(run.run.epochs for run in short or runs)
    reason = f"{results.quality.title} {quantity.target:g} was not reached by every run in {epochs} epochs"
    reason += f", and {format_count(len(diverged), 'run')} diverged" if diverged else ""
    if epochs < source.epochs:
        return _result(claim, file, reason=f"{reason}, and the source trained {source.epochs}")
    only_possible = claim.stated.comparator == "up to"
    verdict: ClaimVerdict = "inconclusive"
    if file.is_of_other_data(first.run.conditions):
        verdict = "not comparable"
    elif not diverged and not only_possible and _is_missed(file.list_bounds(claim), quantity, runs, short):
        verdict = "not reproduced here"
    conditions = list_conditions(file, source, runs, first.run.mode, quantity.metric)
    return _result(claim, file, verdict=verdict, reason=reason, conditions=conditions)


def _is_missed(
    bounds: tuple[float, float], quantity: Level | Speedup, runs: list[MeasuredRun], short: list[MeasuredRun]
) -> bool:
    """Return whether a documented way to a quality is missed by the runs that fell `short` of it: four or more, and all.

    Each took less than its way would have taken. So a level is missed if no run reached the quality, and none could have within
    the documented range; a ratio, if its candidate never did, its reference always, and each pair's ratio is below the range
    even so. If some runs reached it, or the reference fell short, the number may be anything.
    """
    low, high = bounds
    spent = METRICS[quantity.metric].spent
    if spent is None:
        return False
    if isinstance(quantity, Level):
        return len(short) == len(runs) >= LEAST_PAIRS and all(spent(run) > high for run in runs)
    above, below = ([run for run in runs if run.run.variant == name] for name in (quantity.reference, quantity.candidate))
    pairs = pair_runs(above, below)
    ratios = [
        way / spent(other)
        for one, other in pairs
        if other in short and (way := measure_run(one, quantity.metric, quantity.target)) is not None
    ]
    return len(ratios) == len(pairs) >= LEAST_PAIRS and max(ratios) < low


def _list_counted(quantity: Level | Speedup, results: Results, modes: list[Mode]) -> list[MeasuredRun]:
    """Return the runs that the number would be of: all of a variant, or those of two that have a partner."""
    if isinstance(quantity, Level):
        return [run for mode in modes for run in results.select(quantity.variant, mode)]
    variants = [(results.select(quantity.reference, mode), results.select(quantity.candidate, mode)) for mode in modes]
    return [run for references, candidates in variants for pair in pair_runs(references, candidates) for run in pair]


def _explain_unpaired(quantity: Speedup, results: Results, modes: list[Mode], runs: list[MeasuredRun]) -> str | None:
    """Return why two variants that ran have no comparable pair of runs, of which a ratio is formed; None if they have."""
    names = list_claimed_variants(quantity)
    if runs:
        found = [row for mode in modes for row in list_incomparable(results, quantity.reference, quantity.candidate, mode)]
        return f"not comparable in {found[0].experiment}: {'; '.join(found[0].differences)}" if found else None
    one, other = ({run.experiment for run in results.runs if run.run.variant == name} for name in names)
    if not one & other:
        return f"{' and '.join(names)} never ran in the same experiment, inside of which a ratio is formed"
    return f"no completed runs of {' and '.join(names)} share an experiment, a mode and a round, of which a ratio is formed"


def _result(
    claim: DocumentedClaim,
    file: ClaimsFile,
    reason: str = "",
    verdict: ClaimVerdict = "not measured",
    conditions: list[str] | None = None,
) -> ClaimResult:
    source = file.sources[claim.source]
    return ClaimResult(
        id=claim.id,
        text=claim.text,
        subject=file.describe_subject(claim),
        source=file.describe_source(claim),
        date=claim.date,
        url=source.url,
        hardware=source.hardware,
        unit=claim.unit,
        documented=file.describe(claim),
        measured=None,
        low=None,
        high=None,
        verdict=verdict,
        conditions=conditions or [],
        reason=reason,
        origin=None,
    )


def _document_ratio(bounds: tuple[float, float], shown: Measured | Ratio) -> DocumentedRatio | None:
    if not isinstance(shown, Ratio):
        return None
    low, high = (end if math.isfinite(end) else None for end in bounds)
    return DocumentedRatio(
        reference=shown.reference,
        candidate=shown.candidate,
        metric=shown.metric,
        target=shown.target,
        mode=shown.mode,
        low=low,
        high=high,
    )


def _describe_method(found: Measured | Ratio, mode: Mode) -> str:
    count = format_count(_count(found), _counted(found))
    where = f"{found.hosts} machines" if found.scope == "model" else "one machine"
    return f"{count}, {mode} mode, {where}"
