"""What the numbers of a results folder cannot show, as data: a code for each limit, and the facts of its sentence."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

from speedproof.profilers.formats import describe_foreign
from speedproof.results.asked import Asked
from speedproof.results.comparison import Comparison, Ratio, Throttled
from speedproof.results.folder import MeasuredRun, Results
from speedproof.results.summary import WARM_UP_NEEDS_EPOCHS, Summary
from speedproof.stats.comparability import differing_conditions
from speedproof.stats.main_ratios import list_judged
from speedproof.stats.metrics import METRICS, SPREAD_EPOCH, counts_warm_up
from speedproof.stats.order_profit import LEAST_ROUNDS
from speedproof.stats.stopping_rules import STOPPING_RULES

LimitKind = Literal[
    "no_gpu", "synthetic_data", "foreign_profiler",
    "single_pair", "quality_not_compared", "quality_not_judged", "work_unknown", "no_noise_floor", "order_unchecked",
    "short_runs", "warm_up_counts", "overlapping", "shared_machine", "resumed", "tuned",
    "prepared", "stopped", "observed_ranges", "throttled", "continued", "one_experiment",
    "trace_elsewhere", "one_of_traces",
]  # fmt: skip
Traces = Mapping[str, tuple[MeasuredRun, Summary]]  # each variant's profiled run that is shown


@dataclass(frozen=True)
class Limit:
    """One thing that numbers cannot show; its `facts` are those of the sentence of its kind."""

    kind: LimitKind
    facts: Mapping[str, Any]


def list_limits(results: Results, comparison: Comparison, traces: Traces, asked: Asked | None = None) -> list[Limit]:
    """Return what the device, the data, the profiler and the number of runs leave open; `asked` is what a proof was asked."""
    of_proof = asked is not None
    return [
        *_limit_conditions(comparison, traces, of_proof),
        *_limit_comparisons(comparison, of_proof),
        *_find_short_runs(results),
        *_find_company(results),
        *_find_tuned(results),
        *group_prepared(comparison),
        *list_stops(comparison),
        *find_observed_ranges(results),
        *group_throttled(comparison.throttled),
        *_find_continued(comparison),
        *_limit_experiments(results, comparison),
        *_find_traces_elsewhere(results, traces),
        *_find_traces_of_many(results, traces),
    ]


def _limit_conditions(comparison: Comparison, traces: Traces, of_proof: bool) -> Iterator[Limit]:
    conditions = comparison.conditions
    if conditions.gpu is None:
        yield Limit("no_gpu", {"of_proof": of_proof, "claims": bool(comparison.claims)})
    if conditions.synthetic_data:
        yield Limit("synthetic_data", {"name": conditions.dataset_name})
    for said in dict.fromkeys(describe_foreign(summary.profiler) for _, summary in traces.values()):
        if said:
            yield Limit("foreign_profiler", {"said": said})


def _limit_comparisons(comparison: Comparison, of_proof: bool) -> Iterator[Limit]:
    """Yield what few pairs, qualities that are not judged, unknown work and a missing control leave open."""
    ratios = [ratio for ratio in comparison.ratios if ratio.mode == "timed"]
    # Of each two variants in an experiment, by the metric that has most.
    pairs: dict[tuple[str | None, str, str], int] = {}
    for ratio in ratios:
        variants = (ratio.experiment, ratio.reference, ratio.candidate)
        pairs[variants] = max(ratio.pairs, pairs.get(variants, 0))
    if 1 in pairs.values():
        yield Limit("single_pair", {})
    yield from _limit_quality(comparison, ratios, of_proof)
    if not of_proof and any(ratio.work is not None and ratio.work.outcome == "unknown" for ratio in ratios):
        yield Limit("work_unknown", {})
    if (ratios or comparison.scaling) and not comparison.noise_floor:
        yield Limit("no_noise_floor", {"of_proof": of_proof})
    if of_proof and 1 < max(pairs.values(), default=0) < LEAST_ROUNDS:
        yield Limit("order_unchecked", {"rounds": LEAST_ROUNDS})


def _limit_quality(comparison: Comparison, ratios: Sequence[Ratio], of_proof: bool) -> Iterator[Limit]:
    judged = [ratio.quality.outcome != "not judged" for ratio in ratios if ratio.quality is not None]
    if of_proof and comparison.quality.margin is None:
        yield Limit("quality_not_compared", {})
    elif not all(judged):
        yield Limit("quality_not_judged", {"some": any(judged)})


def _find_short_runs(results: Results) -> Iterator[Limit]:
    """Yield which variants' runs are too short to exclude their warm-up."""
    variants = [runs for name in results.variants if (runs := results.select(name, "timed"))]
    short = [runs[0].title for runs in variants if any(0 < run.run.epochs < WARM_UP_NEEDS_EPOCHS for run in runs)]
    if short:
        yield Limit("short_runs", {"titles": short, "enough": WARM_UP_NEEDS_EPOCHS})
    counting = [runs[0].title for runs in variants if any(counts_warm_up(run, SPREAD_EPOCH) for run in runs)]
    if 0 < len(counting) < len(variants):
        yield Limit("warm_up_counts", {"titles": counting, "metric": METRICS[SPREAD_EPOCH].title})


def _find_company(results: Results) -> Iterator[Limit]:
    """Yield which experiments ran side by side or were interrupted."""
    spans = [(run.experiment, run.run.started, run.run.ended) for run in results.runs]
    names = [experiment.experiment for experiment in results.experiments]
    met = {
        name
        for name, start, end in spans
        if any(other != name and start < ended and begun < end for other, begun, ended in spans)
    }
    if beside := [name for name in names if name in met]:
        yield Limit("overlapping", {"experiments": beside, "all": len(beside) == len(names)})
    if shared := sum(run.had_company for run in results.runs):
        yield Limit("shared_machine", {"shared": shared, "runs": len(results.runs)})
    for one in results.experiments:
        if 0 < len(one.kept) < len(one.runs):  # a closed experiment keeps all that it has
            yield Limit("resumed", {"experiment": one.experiment, "kept": len(one.kept), "runs": len(one.runs)})


def _find_tuned(results: Results) -> Iterator[Limit]:
    """Yield whether each variant is judged by seeds or data that its settings were chosen with, if that is known."""
    for name, tuned in results.quality.tuned_on.items():
        if runs := results.select(name, "timed"):
            seeds = sorted({run.run.seed for run in runs} & {*tuned.seeds})
            same_data = runs[0].run.conditions.dataset_name in tuned.data
            yield Limit("tuned", {"title": runs[0].title, "seeds": seeds, "same_data": same_data})


def group_prepared(comparison: Comparison) -> Iterator[Limit]:
    """Yield which variants started from prepared volumes, and how long each experiment took to prepare them."""
    for title in dict.fromkeys(row.title for row in comparison.prepared):
        yield Limit("prepared", {"title": title, "rows": [row for row in comparison.prepared if row.title == title]})


def list_stops(comparison: Comparison) -> Iterator[Limit]:
    """Yield why each experiment ended that was to run until its variants were decided."""
    for row in comparison.stopped:
        facts = {"row": row, "why": STOPPING_RULES[row.reason].report}
        yield Limit("stopped", facts | {"margin": comparison.equivalence_margin})


def find_observed_ranges(results: Results) -> Iterator[Limit]:
    """Yield what recording cost at most, for each variant whose epochs are its NVTX ranges."""
    for variant, title in results.variants.items():
        found = [
            (ranges.cost_s / run.run.process_s, ranges)
            for run in results.select(variant, "timed")
            if (ranges := run.run.observed_ranges)
        ]
        if found:
            share, ranges = max(found, key=lambda one: one[0])
            yield Limit("observed_ranges", {"title": title, "share": share, "ranges": ranges})


def group_throttled(rows: Sequence[Throttled]) -> Iterator[Limit]:
    """Yield in which runs the GPU was throttled, grouped by reason."""
    reasons = list(dict.fromkeys(tuple(row.reasons) for row in rows))
    for own, alike in groupby(sorted(rows, key=lambda row: reasons.index(tuple(row.reasons))), lambda row: row.reasons):
        throttled = list(alike)
        shares = [row.share for row in throttled]
        runs = [f"{row.experiment}/{row.run}" for row in throttled]
        yield Limit("throttled", {"low": min(shares), "high": max(shares), "runs": runs, "reasons": own})


def _find_continued(comparison: Comparison) -> Iterator[Limit]:
    for row in comparison.continued:
        breaks = list(zip(row.epochs, row.reasons, strict=True))
        yield Limit("continued", {"run": f"{row.experiment}/{row.run}", "breaks": breaks})


def _limit_experiments(results: Results, comparison: Comparison) -> Iterator[Limit]:
    """Yield that intervals are of one experiment, if they are."""
    compared = comparison.scaling or any(ratio.mode == "timed" for ratio in comparison.ratios)
    timed = {run.experiment for variant in results.variants for run in results.select(variant, "timed")}
    if (compared and len(timed) == 1) or (not compared and list_judged(comparison) and len(results.experiments) == 1):
        yield Limit("one_experiment", {})


def _find_traces_elsewhere(results: Results, traces: Traces) -> Iterator[Limit]:
    """Yield variants whose trace is from an experiment that did not time them, and what else differed there."""
    conditions = {experiment.experiment: experiment.conditions for experiment in results.experiments}
    places: dict[tuple[str, ...], list[str]] = {}
    for variant, (run, _) in traces.items():
        timed = dict.fromkeys(one.experiment for one in results.select(variant, "timed"))
        if timed and run.experiment not in timed:
            places.setdefault((run.experiment, *timed), []).append(run.title)
    for (traced, *others), titles in places.items():
        apart: dict[tuple[str, ...], list[str]] = {}
        for experiment in others:
            if keys := differing_conditions(conditions[traced], conditions[experiment]):
                apart.setdefault(tuple(keys), []).append(experiment)
        yield Limit("trace_elsewhere", {"titles": titles, "traced": traced, "timed": others, "apart": list(apart.items())})


def _find_traces_of_many(results: Results, traces: Traces) -> Iterator[Limit]:
    """Yield which profiled run is shown, if a variant has several."""
    for variant, (run, _) in traces.items():
        if (profiled := len(results.select(variant, run.run.mode))) > 1:
            name = f"{run.experiment}/{run.name}"
            yield Limit("one_of_traces", {"title": run.title, "run": name, "profiled": profiled})
