"""What a container costs: blocks inside an image against blocks without one, taken by turns on the same GPU."""

from collections.abc import Iterator
from itertools import product
from statistics import median

from speedproof.analysis.comparability import differing_conditions, pair_runs
from speedproof.analysis.measurements import INTERVAL_RULE, list_origin, measure_pairs
from speedproof.analysis.metrics import METRICS
from speedproof.records.block import Block
from speedproof.records.comparison import ContainerCost
from speedproof.records.results import Results

_METRICS = ["training_epoch_s", "validation_epoch_s", "cache_fill_s", "process_s"]


def measure_container_costs(results: Results) -> Iterator[ContainerCost]:
    """Yield, for each variant and metric, how many times longer it takes inside the container than outside.

    Nothing where no block ran outside, or none inside, and where something else differed between the two, which
    :func:`list_container_differences` names.
    """
    outside_of = {inside.block: outside.block for inside, outside in _pair_blocks(results)}
    if not outside_of or list_container_differences(results):
        return
    for metric, variant in product(_METRICS, results.variants):
        runs = results.select(variant, "timed")
        if found := measure_pairs(pair_runs(runs, runs, outside_of), metric):
            expression = f"median over pairs of inside / outside of: {METRICS[metric].expression}; {INTERVAL_RULE}"
            yield ContainerCost(
                variant=variant,
                title=found.runs[0].title,
                metric=metric,
                outside=median(found.below),
                median=found.median,
                low=found.interval.low if found.interval else None,
                high=found.interval.high if found.interval else None,
                pairs=len(found.ratios),
                claimed=found.interval is not None and not found.interval.holds(1.0),
                origin=list_origin(found.runs, metric, expression),
            )


def list_container_differences(results: Results) -> list[str]:
    """Return what besides the image differs between a block inside the container and its partner outside."""
    return [
        f"{inside.block} in the container and {outside.block} outside differ in {key}: what the container costs is not formed"
        for inside, outside in _pair_blocks(results)
        for key in differing_conditions(inside.conditions, outside.conditions)
        if key != "image"
    ]


def _pair_blocks(results: Results) -> list[tuple[Block, Block]]:
    """Return the first timed block inside with the first outside, the second with the second, in the order they ran."""
    started: dict[str, str] = {}
    for run in results.runs:
        if run.run.arm == "timed":
            started[run.block] = min(run.run.started, started.get(run.block, run.run.started))
    ordered = sorted((block for block in results.blocks if block.block in started), key=lambda block: started[block.block])
    inside = [block for block in ordered if block.conditions.image is not None]
    outside = [block for block in ordered if block.conditions.image is None]
    return list(zip(inside, outside, strict=False))
