"""What a container costs: experiments inside an image against experiments without one, taken by turns on the same GPU."""

from collections.abc import Iterator, Sequence
from itertools import product

from speedproof.results.comparison import ContainerCost
from speedproof.results.experiment import Experiment
from speedproof.results.folder import MeasuredRun, Results
from speedproof.stats.comparability import RunPair, differing_conditions, pair_runs
from speedproof.stats.estimates import (
    LEAST_PAIRS,
    Estimate,
    estimate_level,
    estimate_ratio_over_hosts,
    judge_within_margin,
    mean_slack,
    widen_ratio,
)
from speedproof.stats.measurements import PairedMetric, list_origin, measure_pairs
from speedproof.stats.metrics import METRICS


def measure_container_costs(results: Results) -> Iterator[ContainerCost]:
    """Yield, for each variant and metric, how many times longer it takes inside the container than outside.

    Nothing where no experiment ran outside, or none inside, and where something else differed between the two, which
    :func:`list_container_differences` names.
    """
    outside_of = {inside.experiment: outside.experiment for inside, outside in _pair_experiments(results)}
    if not outside_of or list_container_differences(results):
        return
    for metric, variant in product([name for name, metric in METRICS.items() if metric.in_containers], results.variants):
        runs = results.select(variant, "timed")
        by_machine: dict[str, list[RunPair]] = {}
        for pair in pair_runs(runs, runs, outside_of):
            by_machine.setdefault(_machine(pair[0]), []).append(pair)
        for pairs in by_machine.values():
            if found := measure_pairs(pairs, metric):
                yield _measure_cost(results, metric, found)


def _measure_cost(results: Results, metric: str, founds: Sequence[PairedMetric]) -> ContainerCost:
    """Return what the container costs on one machine: each experiment inside with its partner outside is one pair."""
    pairs = [experiment for found in founds for host in found.hosts for experiment in host]
    estimate = estimate_ratio_over_hosts([[experiment] for experiment in pairs])
    slack = mean_slack([[experiment] for found in founds for host in found.slacks for experiment in host])
    interval = estimate.interval and widen_ratio(estimate.interval, slack)
    runs = [run for found in founds for run in found.runs]
    enough = len(pairs) >= LEAST_PAIRS
    outcome = judge_within_margin(interval, results.equivalence_margin) if enough and interval else "no verdict"
    expression = (
        f"exponential of the mean log of inside / outside, one for each two experiments, of: {METRICS[metric].expression}"
    )
    return ContainerCost(
        variant=runs[0].run.variant,
        title=runs[0].title,
        metric=metric,
        outside=estimate_level([[below] for experiment in pairs for _, below in experiment], share=False).centre,
        centre=estimate.centre,
        **Estimate(estimate.centre, interval).ends,
        pairs=len(pairs),
        scope="here",
        experiment=None,
        hosts=1,
        runs_beside=sum(run.had_company for run in runs),
        outcome=outcome,
        claimed=outcome in ("faster", "slower"),
        origin=list_origin(runs, metric, f"{expression}; low and high: 95 % t interval of these values"),
    )


def _machine(run: MeasuredRun) -> str:
    """Return what tells on which machine a run was: its GPU, or its processor."""
    return run.run.conditions.gpu.uuid if run.run.conditions.gpu else run.run.conditions.cpu


def list_container_differences(results: Results) -> list[str]:
    """Return what besides the image differs between an experiment inside the container and its partner outside."""
    return [
        f"{inside.experiment} in the container and {outside.experiment} outside differ in {key}: no container cost is formed"
        for inside, outside in _pair_experiments(results)
        for key in differing_conditions(inside.conditions, outside.conditions)
        if key != "image"
    ]


def _pair_experiments(results: Results) -> list[tuple[Experiment, Experiment]]:
    """Return the first timed experiment inside with the first outside, the second with the second, in the order they ran."""
    started: dict[str, str] = {}
    for run in results.runs:
        if run.run.mode == "timed":
            started[run.experiment] = min(run.run.started, started.get(run.experiment, run.run.started))
    ordered = sorted(
        (experiment for experiment in results.experiments if experiment.experiment in started),
        key=lambda experiment: started[experiment.experiment],
    )
    inside = [experiment for experiment in ordered if experiment.conditions.image is not None]
    outside = [experiment for experiment in ordered if experiment.conditions.image is None]
    return list(zip(inside, outside, strict=False))
