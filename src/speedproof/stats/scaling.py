"""How well a variant scales over GPUs: what a GPU of the larger variant gets done, against one of the smaller variant."""

from collections.abc import Collection, Sequence
from itertools import combinations

from speedproof.results.comparison import Scaling
from speedproof.results.comparison_rows import Origin
from speedproof.results.folder import MeasuredRun, Results
from speedproof.results.run_record import EPOCHS_FILE, RUN_FILE, TITLE
from speedproof.stats.comparability import RunPair, count_samples, differing_conditions, pair_runs
from speedproof.stats.measurements import PairedMetric, measure_pairs
from speedproof.stats.metrics import METRICS, TRAINING_EPOCH, measure_run

_RULE = (
    "exponential of the mean log of: samples a second and rank of the larger variant / that of the smaller, samples of an "
    f"epoch over its time, the {METRICS[TRAINING_EPOCH].expression}"
)


def measure_scalings(results: Results, gpu_settings: Collection[str]) -> list[Scaling]:
    """Return the scaling efficiency of each two variants that differ in how many GPUs they train on, and in nothing else.

    `gpu_settings` are the settings that say so.
    """
    found = []
    for one, other in combinations(results.variants, 2):
        smaller, larger = sorted((one, other), key=lambda name: _ranks_of(results, name))
        if _differ_in_gpus_alone(results, smaller, larger, gpu_settings):
            found += _measure_scaling(results, smaller, larger)
    return found


def is_weak_scaling(pairs: Sequence[RunPair]) -> bool:
    """Return whether all pairs are of runs on different numbers of GPUs whose GPUs do the same work."""
    return bool(pairs) and all(
        one.run.ranks != other.run.ranks and _samples_a_rank(one) == _samples_a_rank(other) for one, other in pairs
    )


def _measure_scaling(results: Results, smaller: str, larger: str) -> list[Scaling]:
    """Return the efficiency over the pairs of timed runs, of each sample; none where more than the GPUs differed."""
    pairs = pair_runs(results.select(smaller, "timed"), results.select(larger, "timed"))
    if any(
        not _rate(one) or not _rate(other) or differing_conditions(one.run.conditions, other.run.conditions)
        for one, other in pairs
    ):
        return []
    return [
        Scaling(
            smaller=smaller,
            larger=larger,
            smaller_title=pairs[0][0].title,
            larger_title=pairs[0][1].title,
            kind="weak" if is_weak_scaling(pairs) else "strong",
            smaller_ranks=pairs[0][0].run.ranks,
            larger_ranks=pairs[0][1].run.ranks,
            efficiency=own.estimate.centre,
            **own.estimate.ends,
            pairs=len(own.pairs),
            **own.sample.stated,
            origin=Origin(
                files=[run.file(name) for run in own.runs for name in (EPOCHS_FILE, RUN_FILE)],
                expression=f"{_RULE}; {own.interval_rule}",
            ),
        )
        for own in pair_scaled(results, smaller, larger)
    ]


def pair_scaled(results: Results, smaller: str, larger: str) -> list[PairedMetric]:
    """Return the throughput of a GPU, larger variant / smaller variant, of each pair of timed runs."""
    pairs = pair_runs(results.select(larger, "timed"), results.select(smaller, "timed"))
    return measure_pairs(pairs, _rate)


def _differ_in_gpus_alone(results: Results, smaller: str, larger: str, gpu_settings: Collection[str]) -> bool:
    one, other = (_list_others(results, name, gpu_settings) for name in (smaller, larger))
    return _ranks_of(results, smaller) < _ranks_of(results, larger) and one == other


def _list_others(results: Results, variant: str, gpu_settings: Collection[str]) -> dict[str, object]:
    run = next(run for run in results.runs if run.run.variant == variant)
    return {key: value for key, value in run.run.techniques.items() if key not in {TITLE, *gpu_settings}}


def _ranks_of(results: Results, variant: str) -> int:
    return next(run.run.ranks for run in results.runs if run.run.variant == variant)


def _samples_a_rank(run: MeasuredRun) -> float | None:
    samples = count_samples(run)
    return None if samples is None else samples / run.run.ranks


def _rate(run: MeasuredRun) -> float:
    """Return how many samples a second each rank trains on; 0 where no epoch was finished."""
    samples, epoch_s = _samples_a_rank(run), measure_run(run, TRAINING_EPOCH)
    return samples / epoch_s if samples and epoch_s else 0.0
