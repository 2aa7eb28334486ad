"""From all finished experiments to `comparison.json`: levels, ratios, noise, ablation, verdicts, and what to doubt."""

from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from pathlib import Path
from statistics import geometric_mean
from types import MappingProxyType

from speedproof.results.comparison import (
    COMPARISON_FILE,
    Comparison,
    Incomparable,
    Measured,
    NoiseFloor,
    Overhead,
    Ratio,
    Reached,
    RooflinePoint,
    Unreached,
)
from speedproof.results.comparison_rows import Origin
from speedproof.results.experiment import LOST_TRACE, Experiment
from speedproof.results.files import read_json, sha256_of, write_sealed
from speedproof.results.folder import CONFIG_FILE, MeasuredRun, Results, read_results
from speedproof.results.run_record import EPOCHS_FILE, NOT_ALONE, RUN_FILE, Conditions, Mode
from speedproof.stats.ablation import Differences, measure_ablation, measure_wholes
from speedproof.stats.claims import judge_claim
from speedproof.stats.claims_file import load_claims
from speedproof.stats.comparability import (
    differ_in_samples_alone,
    differing_conditions,
    differing_settings,
    find_throttled,
    list_continued,
    list_prepared,
    list_stopped,
    pair_runs,
)
from speedproof.stats.container_cost import list_container_differences, measure_container_costs
from speedproof.stats.hardware_limit import measure_utilization
from speedproof.stats.machines import HOSTS_UNKNOWN, hosts_are_known, list_samples
from speedproof.stats.measurements import (
    list_incomparable,
    measure_level,
    measure_noise_floor,
    measure_overhead,
    measure_ratio,
)
from speedproof.stats.metrics import METRICS, MODES, TRAINING_EPOCH, measure_run
from speedproof.stats.non_inferiority import count_reached, explain_unreached
from speedproof.stats.scaling import is_weak_scaling, measure_scalings
from speedproof.util.progress_bar import SOON_S, report_progress


def compare_experiments(results: Results | Path, claims: Path, differences: Differences = MappingProxyType({})) -> Comparison:
    """Compare all variants of a results folder's experiments, read by now or not, and judge every claim of the file `claims`.

    What a stage of the ablation changed in the trace is known from the traces' `differences`, by the names of two stages.

    The first variant of an experiment's list is the reference. Ratios are reference / candidate: above 1 the candidate is
    faster. Raises :class:`RecordError` or :class:`ConfigError` where a file is missing or cannot be read.
    """
    claims_file = load_claims(claims)
    read = results if isinstance(results, Results) else read_results(results)
    of_ablation = read.of_ablation()
    stages = measure_ablation(of_ablation, differences)
    return Comparison(
        experiments=[experiment.experiment for experiment in read.experiments],
        made_of={name: sha256_of(read.folder / name) for name in read.sources},
        conditions=read.experiments[0].conditions,
        quality=read.quality,
        equivalence_margin=read.equivalence_margin,
        metrics={name: metric.note(read.quality) for name, metric in METRICS.items()},
        variants=read.variants,
        measured=list(_measure_levels(read)),
        ratios=list(_measure_ratios(read)),
        incomparable=list(_list_incomparable(read)),
        noise_floor=list(_measure_noise(read)),
        scaling=measure_scalings(read, claims_file.gpu_settings),
        ablation=stages,
        ablation_whole=measure_wholes(of_ablation, stages),
        reached=list(_count_reached(read)),
        unreached=list(_list_unreached(read)),
        overheads=list(_measure_overheads(read)),
        container=list(measure_container_costs(read)),
        roofline=list(place_variants(read)),
        utilization=list(measure_utilization(read)),
        prepared=list_prepared(read),
        stopped=list_stopped(read),
        throttled=list(find_throttled(read)),
        continued=list_continued(read),
        claims=[judge_claim(claim, claims_file, read) for claim in claims_file.claims],
        warnings=list(dict.fromkeys(_list_warnings(read))),
        trust_reported=read.trust_reported,
        of_proof=all(run.run.is_of_proof for run in read.runs),
    )


def write_comparison(comparison: Comparison, results: Path) -> None:
    write_sealed(results / COMPARISON_FILE, comparison)


def _measure_levels(results: Results) -> Iterator[Measured]:
    for mode, metric, variant in product(MODES, _list_metrics(needs_target=False), results.variants):
        yield from measure_level(results, variant, mode, metric)
    for target, metric, variant in product(results.quality.targets, _list_metrics(needs_target=True), results.variants):
        yield from measure_level(results, variant, "timed", metric, target)


def _measure_ratios(results: Results) -> Iterator[Ratio]:
    asked: list[tuple[tuple[str, str], Mode, str, float | None]] = [
        *(
            (order_variants(variants, metric), mode, metric, None)
            for mode, metric, variants in product(MODES, _list_compared(needs_target=False), results.compared_pairs)
        ),
        *(
            (order_variants(variants, metric), "timed", metric, target)
            for target, metric, variants in product(
                results.quality.targets, _list_compared(needs_target=True), results.compared_pairs
            )
        ),
    ]
    with report_progress("comparing", len(asked), "ratios", after_s=SOON_S) as advance:
        for variants, mode, metric, target in asked:
            yield from measure_ratio(results, *variants, mode, metric, target)
            advance(1)


def _list_incomparable(results: Results) -> Iterator[Incomparable]:
    pairs = dict.fromkeys([*results.compared_pairs, *pairwise(results.ablation)])
    for mode, (reference, candidate) in product(MODES, pairs):
        compared = pair_runs(results.select(reference, mode), results.select(candidate, mode))
        if is_weak_scaling(compared):  # which is compared another way
            compared = [pair for pair in compared if not differ_in_samples_alone(*pair)]
        experiments = {one.experiment for one, _ in compared}
        yield from (row for row in list_incomparable(results, reference, candidate, mode) if row.experiment in experiments)


def _measure_noise(results: Results) -> Iterator[NoiseFloor]:
    for metric, variant in product(_list_compared(needs_target=False), results.variants):
        yield from measure_noise_floor(results, variant, metric)


def _list_metrics(needs_target: bool) -> list[str]:
    return [name for name, metric in METRICS.items() if metric.needs_target == needs_target]


def _list_compared(needs_target: bool) -> list[str]:
    """Return the metrics of which ratios are formed."""
    return [name for name in _list_metrics(needs_target) if METRICS[name].compared]


def order_variants(variants: tuple[str, str], metric: str) -> tuple[str, str]:
    """Return reference and candidate such that a ratio above 1 favours the second of two compared variants."""
    return variants if METRICS[metric].better == "lower" else variants[::-1]


def _count_reached(results: Results) -> Iterator[Reached]:
    """Yield a row for each sample: runs of another experiment may have been shorter."""
    for target, variant in product(results.quality.targets, results.variants):
        runs, diverged = results.select(variant, "timed"), results.select_diverged(variant, "timed")
        for sample in list_samples([*runs, *diverged]):
            completed, failed = (
                [run for run in of_kind if run.experiment in sample.experiments] for of_kind in (runs, diverged)
            )
            if row := count_reached(completed, target, failed, sample.experiment if len(results.experiments) > 1 else None):
                yield row


def _list_unreached(results: Results) -> Iterator[Unreached]:
    for target, variants in product(results.quality.targets, results.compared_pairs):
        if not list_incomparable(results, *variants, "timed") and (unreached := explain_unreached(results, *variants, target)):
            yield unreached


def _measure_overheads(results: Results) -> Iterator[Overhead]:
    for variant, mode in product(results.variants, MODES[1:]):
        yield from measure_overhead(results, variant, mode)


def _list_warnings(results: Results) -> Iterator[str]:
    yield from _list_other_rules(results)
    for experiment in results.experiments:
        yield from _list_missing_runs(experiment)
    yield from list_container_differences(results)
    gpus = {run.run.conditions.gpu.uuid for run in results.runs if run.run.conditions.gpu}
    if len(gpus) > 1 and not hosts_are_known(results.runs):
        yield HOSTS_UNKNOWN
    yield from _list_unplanned_experiments(results)
    yield from _list_mixed_settings(results)
    yield from _list_mixed_lengths(results)
    if any(run.run.clock == "system" for run in results.runs):
        yield "times from the start of a process are up to 1 s too long, because the system rounds some runs' start to seconds"
    conditions = {experiment.experiment: experiment.conditions for experiment in results.experiments}
    for run in results.runs:
        yield from _list_doubts_of_run(run, conditions[run.experiment])
    yield from _list_warnings_of_runs(results.runs)


def _list_other_rules(results: Results) -> Iterator[str]:
    """Yield the conditions and rules of later experiments that differ from the first one's, whose rules are used."""
    first, *others = results.experiments
    under_other: dict[str, list[str]] = {}
    for experiment in others:
        for key in differing_conditions(first.conditions, experiment.conditions):
            under_other.setdefault(key, []).append(experiment.experiment)
    for key, experiments in under_other.items():
        yield f"{', '.join(experiments)} used a different {key} than {first.experiment}"
    for experiment in others:
        name = experiment.experiment
        if experiment.quality != first.quality:
            yield f"{name} has another quality rule than {first.experiment}, whose rule is used"
        if experiment.equivalence_margin != first.equivalence_margin:
            yield f"{name} has another equivalence margin than {first.experiment}, whose margin is used"


def _list_doubts_of_run(run: MeasuredRun, begun: Conditions) -> Iterator[str]:
    """Yield what is to be known of a run; `begun` are the conditions with which its experiment began."""
    place = f"{run.experiment}/{run.name}"
    for key in differing_conditions(begun, run.run.conditions):
        yield f"{place} used a different {key} than its experiment began with"
    if run.run.outcome != "completed":
        of = " except that of runs that missed a quality" if run.run.outcome == "not_a_number" else ""
        yield f"{place} ended as {run.run.outcome} ({run.run.reason}); it is excluded from every number{of}"
    if run.run.profiler != "none" and run.run.outcome == "completed" and run.summary is None:
        yield f"{place} was profiled but not analysed; run the analysis"
    yield from (f"{place}, trace: {warning}" for warning in (run.summary.warnings if run.summary else []))


def _list_warnings_of_runs(runs: Sequence[MeasuredRun]) -> Iterator[str]:
    """Yield what runs warn of, each text once with the runs that have it."""
    places: dict[str, list[str]] = {}
    for run in runs:
        for warning in run.run.warnings:
            places.setdefault(warning, []).append(f"{run.experiment}/{run.name}")
    for warning, names in places.items():
        which = f"all {len(runs)} runs" if 1 < len(names) == len(runs) else ", ".join(names)
        yield f"{which}: {'another experiment was running on this machine' if warning == NOT_ALONE else warning}"


def _list_missing_runs(experiment: Experiment) -> Iterator[str]:
    if experiment.left_out:
        names = ", ".join(experiment.left_out)
        yield f"{experiment.experiment}: this record leaves out {len(experiment.left_out)} of its runs to stay small: {names}"
    lost = [name for name, end in experiment.undone.items() if end == LOST_TRACE]
    if lost:
        yield f"{experiment.experiment}: {', '.join(lost)} failed under the profiler and left no trace"
    elif experiment.undone:
        planned = len(experiment.runs) + len(experiment.left_out) + len(experiment.undone)
        names = ", ".join(f"{name} ({end})" for name, end in experiment.undone.items())
        yield (
            f"{experiment.experiment} was closed before {len(experiment.undone)} of its {planned} planned runs were done: "
            f"{names}; ratios come from the rounds that both variants finished"
        )


def _list_mixed_lengths(results: Results) -> Iterator[str]:
    """Yield the variants, stages too, whose runs of one number trained for different numbers of epochs: totals mix them."""
    titles = results.variants | {run.run.variant: run.title for run in results.runs}
    for (variant, title), mode in product(titles.items(), MODES):
        runs = results.select(variant, mode)
        for sample in list_samples(runs):
            epochs = sorted({run.run.epochs for run in runs if run.experiment in sample.experiments})
            if len(epochs) > 1:
                merged = f"{mode} runs of {' and '.join(map(str, epochs))} epochs are merged"
                yield f"{title}: {merged}; keep them in separate records"


def _list_mixed_settings(results: Results) -> Iterator[str]:
    """Yield the variants, stages too, whose runs are of different techniques or workload: no longer one variant."""
    first: dict[str, MeasuredRun] = {}
    for run in results.runs:
        if run.run.outcome == "completed":
            before = first.setdefault(run.run.variant, run)
            for key, (one, other) in differing_settings(before.run, run.run).items():
                yield (
                    f"{run.run.variant}: {key} is {one} in {before.experiment} and {other} in {run.experiment}, but their "
                    "runs are merged; keep them in separate results"
                )


def _list_unplanned_experiments(results: Results) -> Iterator[str]:
    """Yield the experiments that the configuration beside them does not plan: left over from an earlier one."""
    config = results.folder / CONFIG_FILE
    if config.exists():
        measurement = read_json(config)["measurement"]
        kind = "block" if "blocks" in measurement else "experiment"  # what versions before 0.3 called it
        count = measurement[f"{kind}s"]
        planned = {f"{kind}-{number}" for number in range(1, count + 1)}
        for experiment in results.experiments:
            if experiment.experiment not in planned:
                yield (
                    f"{experiment.experiment} is left over: measurement.experiments is {count} in {CONFIG_FILE}; its runs "
                    "still count; remove its folder if they should not"
                )


_EXPRESSION = (
    "geometric means over runs of rates; arithmetic_s: flop_per_epoch / flop_per_s; traffic_s: bytes_per_epoch / bytes_per_s; "
    f"share: the larger of the two / measured_s, that over runs of: {METRICS[TRAINING_EPOCH].expression}"
)


def place_variants(results: Results) -> Iterator[RooflinePoint]:
    """Yield each variant's timed training epoch beside its bounds; variants whose runs did not count work are left out.

    The bound is the larger of arithmetic at the measured rate of matrix products and traffic at the measured rate of copies:
    S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model for multicore architectures",
    Communications of the ACM 52 (2009).
    """
    for variant in dict.fromkeys([*results.variants, *results.ablation]):
        runs = [run for run in results.select(variant, "timed") if run.run.work and run.run.rates]
        epochs = [epoch for run in runs if (epoch := measure_run(run, TRAINING_EPOCH))]
        if not runs or len(epochs) < len(runs):
            continue
        works = [run.run.work for run in runs if run.run.work]
        rates = [run.run.rates for run in runs if run.run.rates]
        flop, moved = works[0].flop_per_epoch, works[0].bytes_per_epoch
        flop_per_s, bytes_per_s = (
            geometric_mean(getattr(rate, name) for rate in rates) for name in ("flop_per_s", "bytes_per_s")
        )
        arithmetic_s, traffic_s, measured_s = flop / flop_per_s, moved / bytes_per_s, geometric_mean(epochs)
        yield RooflinePoint(
            variant=variant,
            title=runs[0].title,
            flop_per_epoch=flop,
            bytes_per_epoch=moved,
            flop_per_s=flop_per_s,
            bytes_per_s=bytes_per_s,
            arithmetic_s=arithmetic_s,
            traffic_s=traffic_s,
            measured_s=measured_s,
            share=max(arithmetic_s, traffic_s) / measured_s,
            origin=Origin(files=[run.file(name) for run in runs for name in (EPOCHS_FILE, RUN_FILE)], expression=_EXPRESSION),
        )
