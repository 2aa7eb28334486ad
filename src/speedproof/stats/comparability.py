"""Whether runs may be compared: what besides their techniques differed, whether a GPU was slowed down, what came before."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from speedproof.results.comparison import Continued, Incomparable, PreparedVariant, StoppedExperiment, Throttled
from speedproof.results.comparison_rows import Origin
from speedproof.results.folder import MeasuredRun, Results
from speedproof.results.run_record import GPU_FILE, NAMES_ONLY, RUN_FILE, Conditions, Mode, Run
from speedproof.stats.run_values import Values, read_column, steady_epochs

RunPair = tuple[MeasuredRun, MeasuredRun]

SAMPLES_AN_EPOCH = "training samples per epoch"

# What sentences call conditions whose name alone tells a reader little.
_READ_AS = {"gpu.uuid": "GPU card", "gpu.name": "GPU model", "sources": "version of the code"}
# NVML's reasons for clocks below what the load asks for. The others are an idle GPU's, or a setting that holds for all runs.
HEAT_REASONS = frozenset({"hardware slowdown", "software thermal slowdown", "hardware thermal slowdown", "power brake"})
SLOWING_REASONS = HEAT_REASONS | {"power cap"}
# A single sample in a hundred may be a spike at the start of a load.
_THROTTLED_FROM = 0.01


def pair_runs(
    references: Sequence[MeasuredRun], candidates: Sequence[MeasuredRun], partner_experiments: Mapping[str, str] | None = None
) -> list[RunPair]:
    """Return the pairs of runs of the same round, hence of the same seed.

    Both are of one experiment or, with `partner_experiments`, of a reference's experiment and its partner; experiments without
    a partner then have no pairs.
    """
    partners = {(run.experiment, run.run.round): run for run in candidates}
    keys = [
        (partner_experiments.get(run.experiment) if partner_experiments else run.experiment, run.run.round)
        for run in references
    ]
    return [(run, partners[key]) for run, key in zip(references, keys, strict=True) if key in partners]


def differing_conditions(one: Conditions, other: Conditions) -> list[str]:
    """Return what differs and could make a run faster, by the conditions' names; of the GPU and packages, their parts."""
    names = list(_differences(_matter(one), _matter(other)))
    # Another GPU also changes the list of visible GPUs, which is named only if nothing but the list differs.
    return [_READ_AS.get(name, name) for name in names if name != "gpu_uuids" or "gpu.uuid" not in names]


def differing_settings(one: Run, other: Run) -> dict[str, tuple[Any, Any]]:
    """Return in what two runs' techniques and workload differ, by name: `network.channels`, `workload.patch_size`.

    Titles are names only; in how many epochs runs train is compared apart. A technique that an earlier version did not know
    differs from any value. Proofs differ in the files of their commands, too.
    """
    return _differences(_settings(one), _settings(other), absent="not recorded")


def find_incomparable(reference: str, candidate: str, mode: Mode, pairs: Sequence[RunPair]) -> list[Incomparable]:
    """Return, for each experiment in which the runs of a pair differ by more than their techniques, in what."""
    found: dict[str, dict[str, None]] = {}
    for one, other in pairs:
        if differences := _describe_differences(one, other):
            found.setdefault(one.experiment, {}).update(dict.fromkeys(differences))
    return [
        Incomparable(reference=reference, candidate=candidate, mode=mode, experiment=experiment, differences=list(differences))
        for experiment, differences in found.items()
    ]


def find_throttled(results: Results) -> Iterator[Throttled]:
    """Yield the runs in which the GPU held its clocks down in one sample of a hundred or more."""
    for run in results.runs:
        loaded = list_throttle_reasons(run)
        slowed = [found & SLOWING_REASONS for found in loaded if found & SLOWING_REASONS]
        if slowed and len(slowed) / len(loaded) >= _THROTTLED_FROM:
            yield Throttled(
                experiment=run.experiment,
                run=run.name,
                share=len(slowed) / len(loaded),
                reasons=[reason for reason, _ in Counter(reason for found in slowed for reason in sorted(found)).most_common()],
                origin=Origin(
                    files=run.process_files(GPU_FILE),
                    expression="rows of throttle_reasons that name a slowdown / rows that do not name an idle GPU",
                ),
            )


def list_throttle_reasons(run: MeasuredRun) -> list[set[str]]:
    """Return why the clocks were lower than they could be in each sample of a run in which its GPUs were not idle."""
    if "throttle reasons" not in run.derived:  # each metric asks
        samples = [table["throttle_reasons"] for table in run.gpu_samples]
        reasons = [set(str(text).split("|")) for column in samples for text in column.dropna()]
        run.derived["throttle reasons"] = [found for found in reasons if "gpu idle" not in found]
    return list(run.derived["throttle reasons"])


def list_continued(results: Results) -> list[Continued]:
    """Return the runs that were killed and went on from a checkpoint."""
    return [
        Continued(
            experiment=run.experiment,
            run=run.name,
            epochs=[part.first_epoch for part in run.run.continued],
            reasons=[part.reason for part in run.run.continued],
            origin=Origin(files=[run.file(RUN_FILE)], expression="first_epoch and reason of each of continued"),
        )
        for run in results.runs
        if run.run.continued
    ]


def list_prepared(results: Results) -> list[PreparedVariant]:
    """Return the variants that started from prepared volumes, with what the preparation took, in each experiment."""
    return [
        PreparedVariant(
            experiment=experiment.experiment,
            variant=filled.variant,
            title=next(run.title for run in results.runs if run.run.variant == filled.variant),
            seconds=filled.seconds,
            volumes=filled.volumes,
            from_store=filled.from_store,
            origin=Origin(
                files=[results.files[experiment.experiment]],
                expression=f"seconds, volumes and from_store of {filled.variant} in prepared",
            ),
        )
        for experiment in results.experiments
        for filled in experiment.prepared
    ]


def list_stopped(results: Results) -> list[StoppedExperiment]:
    """Return the experiments whose timed rounds went on until variants were decided, and why each ended."""
    return [
        StoppedExperiment(
            experiment=experiment.experiment,
            **experiment.stopped.model_dump(exclude={"asked"}),
            origin=Origin(files=[results.files[experiment.experiment]], expression="stopped"),
        )
        for experiment in results.experiments
        if experiment.stopped
    ]


def count_samples(run: MeasuredRun) -> int | None:
    """Return on how many samples an epoch trains, over all ranks; None if the program did not report it.

    It is the mean of the epochs whose time is compared. Training on fewer samples does not make a variant faster.
    """
    if run.epochs.empty:
        return None
    if SAMPLES_AN_EPOCH not in run.derived:
        run.derived[SAMPLES_AN_EPOCH] = _round(float(np.mean(_list_samples(run)[steady_epochs(run)])))
    return cast(int | None, run.derived[SAMPLES_AN_EPOCH])


def _list_samples(run: MeasuredRun) -> Values:
    return read_column(run.epochs, "samples_per_s") * read_column(run.epochs, "train_s")


def _round(samples: float) -> int | None:
    return None if math.isnan(samples) else round(samples)


def _describe_samples(run: MeasuredRun) -> int | str | None:
    """Return on how many samples an epoch trains, with the first one's if that differs."""
    samples = count_samples(run)
    first = None if samples is None else _round(_list_samples(run)[0])
    return samples if first in (None, samples) else f"{first} in the first, then {samples}"


def _describe_differences(one: MeasuredRun, other: MeasuredRun) -> list[str]:
    return [f"{key}: {before} against {after}" for key, (before, after) in _find_differences(one, other).items()]


def differ_in_samples_alone(one: MeasuredRun, other: MeasuredRun) -> bool:
    """Return whether two runs differ by no more than their techniques and how many samples an epoch has."""
    return _find_differences(one, other).keys() <= {SAMPLES_AN_EPOCH}


def _find_differences(one: MeasuredRun, other: MeasuredRun) -> dict[str, tuple[Any, Any]]:
    return _differences(_what_matters(one), _what_matters(other))


def _what_matters(run: MeasuredRun) -> dict[str, Any]:
    if "matter" not in run.derived:
        run.derived["matter"] = _matter(run.run.conditions) | {SAMPLES_AN_EPOCH: _describe_samples(run)}
    return run.derived["matter"]


def _differences(left: dict[str, Any], right: dict[str, Any], absent: Any = None) -> dict[str, tuple[Any, Any]]:
    pairs = {key: (left.get(key, absent), right.get(key, absent)) for key in left | right}
    return {key: (one, other) for key, (one, other) in pairs.items() if one != other}


def _settings(run: Run) -> dict[str, Any]:
    lengths = {"title", "epochs", "validate_every"}  # techniques may leave the last two to the configuration
    techniques = {key: value for key, value in run.techniques.items() if key not in lengths}
    files = {"program files": run.conditions.sources} if run.is_of_proof else {}
    return _flatten(techniques | files | {"validate_every": run.validate_every, "workload": run.workload})


def _matter(conditions: Conditions) -> dict[str, Any]:
    return _flatten(conditions.model_dump(exclude=set(NAMES_ONLY)))


def _flatten(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by name, `gpu.uuid` and `packages.torch` for those inside."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        parts = {f"{key}.{inner}": item for inner, item in value.items()} if isinstance(value, dict) else {key: value}
        flat |= parts
    return flat
