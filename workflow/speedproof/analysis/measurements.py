"""What the runs of a results folder say together: levels over runs, ratios over pairs, each with its origin."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from speedproof.analysis.comparability import RunPair, find_incomparable, pair_runs
from speedproof.analysis.metrics import METRICS, measure_run
from speedproof.analysis.quality import check_quality
from speedproof.analysis.statistics import Interval, Pair, median_ratio, merged_interval
from speedproof.records.comparison import Incomparable, Measured, NoiseFloor, Origin, Overhead, Ratio
from speedproof.records.results import MeasuredRun, Results
from speedproof.records.run import GPU_FILE, Arm

INTERVAL_RULE = (
    "low and high: 95 % t interval on the pairs' log ratios; of several blocks, spanning that on the blocks' mean log ratios"
)


def measure_level(results: Results, variant: str, arm: Arm, metric: str, target: float | None = None) -> Measured | None:
    """Return a variant's metric over its completed runs in an arm; None unless every one of them has a value."""
    runs = results.select(variant, arm)
    values = [value for run in runs if (value := measure_run(run, metric, target)) is not None]
    if not runs or len(values) < len(runs):
        return None
    return Measured(
        variant=variant,
        title=runs[0].title,
        arm=arm,
        metric=metric,
        target=target,
        values=values,
        median=median(values),
        low=min(values),
        high=max(values),
        origin=list_origin(runs, metric, f"median over runs of: {_expression(metric, target)}"),
    )


def measure_ratio(
    results: Results, numerator: str, denominator: str, arm: Arm, metric: str, target: float | None = None
) -> Ratio | None:
    """Return the ratio of two variants' metric over pairs of runs.

    None where no pair has both values above 0, where a quality was not reached by every run, and where something besides the
    techniques differed inside a block, which :func:`list_incomparable` names.
    """
    pairs = pair_runs(results.select(numerator, arm), results.select(denominator, arm))
    found = measure_pairs(pairs, metric, target)
    if found is None or find_incomparable(numerator, denominator, arm, pairs):
        return None
    quality = check_quality(pairs, results.quality, found.median, METRICS[metric].better) if METRICS[metric].judged else None
    differs = found.interval is not None and not found.interval.holds(1.0)
    rule = f"median over pairs of {numerator} / {denominator} of: {_expression(metric, target)}"
    return Ratio(
        numerator=numerator,
        denominator=denominator,
        arm=arm,
        metric=metric,
        target=target,
        median=found.median,
        low=found.interval.low if found.interval else None,
        high=found.interval.high if found.interval else None,
        pairs=len(found.ratios),
        claimed=differs and (quality is None or quality.outcome != "worse"),
        quality=quality,
        origin=list_origin(found.runs, metric, f"{rule}; {INTERVAL_RULE}"),
    )


def measure_noise_floor(results: Results, variant: str, metric: str) -> NoiseFloor | None:
    """Return how far a variant differs from its control; None where no control ran, or something else differed."""
    pairs = pair_runs(results.select(variant, "timed"), results.select_controls(variant))
    found = measure_pairs(pairs, metric)
    if found is None or find_incomparable(variant, variant, "timed", pairs):
        return None
    rule = f"median over pairs of {variant} / its control of: {_expression(metric, None)}"
    return NoiseFloor(
        variant=variant,
        title=found.runs[0].title,
        metric=metric,
        median=found.median,
        low=found.interval.low if found.interval else None,
        high=found.interval.high if found.interval else None,
        pairs=len(found.ratios),
        largest=max(max(ratio, 1 / ratio) for ratio in found.ratios) - 1,
        origin=list_origin(
            found.runs, metric, f"{rule}; {INTERVAL_RULE}; largest: of the pairs' ratios or reciprocals, less 1"
        ),
    )


def list_incomparable(results: Results, numerator: str, denominator: str, arm: Arm) -> list[Incomparable]:
    """Return, for each block, what besides two variants' techniques differed in an arm, so that no ratio is formed."""
    return find_incomparable(
        numerator, denominator, arm, pair_runs(results.select(numerator, arm), results.select(denominator, arm))
    )


def measure_overhead(results: Results, variant: str, arm: Arm) -> Overhead | None:
    """Return how much longer a training epoch takes under a profiler; None where no block has comparable runs of both."""
    timed = results.select(variant, "timed")
    pairs = [(run, other) for run in results.select(variant, arm) for other in timed if run.block == other.block]
    found = measure_pairs(pairs, "training_epoch_s")
    if found is None or find_incomparable(variant, variant, arm, pairs):
        return None
    rule = f"median over all pairs of runs of a block of {arm} / timed: {_expression('training_epoch_s', None)}"
    return Overhead(
        variant=variant,
        title=found.runs[0].title,
        arm=arm,
        ratio=found.median,
        origin=list_origin(found.runs, "training_epoch_s", rule),
    )


@dataclass(frozen=True)
class Found:
    """A metric over pairs of runs."""

    runs: list[MeasuredRun]  # numerator and denominator by turns
    ratios: list[float]
    below: list[float]  # the denominators' values
    median: float
    interval: Interval | None


def measure_pairs(pairs: Sequence[RunPair], metric: str, target: float | None = None) -> Found | None:
    """Return the ratios of the pairs that have both values above 0; None where there is none, or one misses the target."""
    runs: list[MeasuredRun] = []
    blocks: dict[str, list[Pair]] = {}
    for one, other in pairs:
        above, below = measure_run(one, metric, target), measure_run(other, metric, target)
        if above and below:
            runs += [one, other]
            blocks.setdefault(one.block, []).append((above, below))
    values = [pair for block in blocks.values() for pair in block]
    if not values or (target is not None and len(values) < len(pairs)):
        return None
    ratios = [above / below for above, below in values]
    return Found(runs, ratios, [below for _, below in values], median_ratio(values), merged_interval(list(blocks.values())))


def list_origin(runs: Sequence[MeasuredRun], metric: str, expression: str) -> Origin:
    """Return the files that a metric of these runs is computed of, and how."""
    files = [file for run in runs for name in METRICS[metric].files for file in _list_files(run, name)]
    return Origin(files=files, expression=expression)


def _list_files(run: MeasuredRun, name: str) -> list[str]:
    return run.process_files(name) if name == GPU_FILE else [run.file(name)]


def _expression(metric: str, target: float | None) -> str:
    return METRICS[metric].expression if target is None else f"{METRICS[metric].expression} ({target:g})"
