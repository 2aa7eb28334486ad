"""What a reproduction will cost, before it starts: GPU minutes by past runs, disk and download by the configuration."""

import logging
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import chain, pairwise, product
from pathlib import Path
from statistics import median
from typing import TypeVar, get_args

import pandas as pd

from speedproof.config.model import Completed, Config
from speedproof.results.evidence_archive import EXPERIMENTS_FOLDER, OLD_EXPERIMENTS_FOLDER, find_files, is_there, size_below
from speedproof.results.experiment import (
    RUNS_FOLDER,
    Experiment,
    PlannedRun,
    check_files,
    experiment_file,
    is_control,
    read_experiment,
)
from speedproof.results.run_record import EPOCHS_FILE, RUN_FILE, Mode, Run, read_epochs, read_run
from speedproof.run.plan import plan_experiment
from speedproof.stats.run_values import training_epoch_s, warm_up_epochs
from speedproof.stats.sequential import DIFFERENCES, Noise, count_rounds, pool_noise
from speedproof.util.errors import RecordError
from speedproof.util.numbers import format_count, format_value
from speedproof.util.units import MIB

log = logging.getLogger("speedproof")

Read = TypeVar("Read")


@dataclass(frozen=True)
class PastRun:
    """A run that was kept: how long it took to start, and what its epochs cost."""

    experiment: Path
    run: Run
    training_s: float  # of a training epoch, as the comparison has it; 0 without epochs
    validation_s: float  # of a validation, mean; 0 if it did not validate
    control: bool  # the reference once more
    bytes: int  # of its folder


@dataclass(frozen=True)
class RoundsNeeded:
    """What it takes to find a difference between two variants: with so many rounds, nine measurements in ten find it."""

    difference: float  # a fraction
    rounds: int | None  # None: more than a thousand
    minutes: float  # of GPUs, in timed rounds


@dataclass(frozen=True)
class Power:
    """How much pairs of two variants' runs varied, and what finds how large a difference between them."""

    variants: tuple[str, str]
    noise: Noise
    findings: list[RoundsNeeded]


@dataclass(frozen=True)
class Cost:
    """What a configuration is expected to cost. Minutes are of one GPU: an experiment of several counts as often."""

    experiments_min: dict[str, float]  # by experiment, of the runs that past ones tell about
    unknown: list[str]  # variants without a past run, where nothing of this workload ran
    guessed: dict[str, str]  # variants without a past run of their own, by the one that stood in
    devices: list[str]  # on which the past runs ran
    data: list[str]  # which they read: an epoch of other data takes another time
    past_runs: int
    data_mib: float  # volumes on disk, archive included
    runs_mib: float  # what is kept of the runs that past ones tell about; profilers' own reports come on top
    download_mib: float
    until_decided: bool = False  # whether experiments may stop sooner
    powers: tuple[Power, ...] = ()  # of the compared pairs about whose noise past runs tell


def estimate_cost(config: Config, folders: Sequence[Path]) -> Cost:
    """Return what `config` will cost, by the past runs below `folders` (records and results), of the same workload.

    A run costs its start-up, its epochs and its validations, each their mean, and of the past runs of its variant the median,
    in its mode if there is one; and what passes between a run and the next one. For a variant without past runs the one
    stands in that differs from it in the fewest techniques. Past runs that broke off tell nothing.
    """
    past = [run for folder in folders for run in _find_past_runs(folder, config)]
    stand_ins = {name: _find_stand_in(config, name, past) for name in config.measurement.all_variants()}
    costs = _estimate_runs(config, past, stand_ins)
    plans = {experiment: plan_experiment(config, experiment).order for experiment in config.experiments()}
    expected = {name: [costs[run.variant, run.mode] for run in order] for name, order in plans.items()}
    used = [one for one in past if one.run.variant in stand_ins.values()]
    made = config.completed or Completed(variants={})
    return Cost(
        experiments_min={name: sum((one.gpu_min for one in runs), 0.0) for name, runs in expected.items()},
        unknown=[name for name, other in stand_ins.items() if other is None],
        guessed={name: other for name, other in stand_ins.items() if other not in (None, name)},
        devices=sorted({one.run.conditions.device_name() for one in used}),
        data=sorted({one.run.conditions.dataset_name for one in used} - {""}),
        past_runs=len(used),
        data_mib=made.data_mib,
        runs_mib=sum(one.bytes for one in chain(*expected.values())) / MIB,
        download_mib=made.download_mib,
        until_decided=config.measurement.until is not None,
        powers=tuple(_find_powers(config, past, _cost_round(plans, costs))) if config.measurement.rounds else (),
    )


@dataclass(frozen=True)
class _RunCost:
    """What a run is expected to take; nothing if no past run tells."""

    gpu_min: float = 0.0
    bytes: float = 0.0


def _estimate_runs(
    config: Config, past: Sequence[PastRun], stand_ins: Mapping[str, str | None]
) -> dict[tuple[str, Mode], _RunCost]:
    """Return what a run of each variant is expected to take in each mode."""
    pauses_s = _find_pauses(past)
    # An experiment holds all of its GPUs, also while a run uses fewer.
    gpus = max(1, config.experiment_resources().gpus) * config.experiment_nodes()
    found: dict[tuple[str, Mode], _RunCost] = defaultdict(_RunCost)
    for (name, other), mode in product(stand_ins.items(), get_args(Mode)):
        likes = [one for one in past if one.run.variant == other]
        likes = [one for one in likes if one.run.mode == mode] or likes
        if likes:
            epochs, validate_every = config.epochs_of(name), config.validate_every_of(name)
            run_s = median(_expected_s(one, epochs, validate_every) for one in likes) + pauses_s.get(mode, 0.0)
            found[name, mode] = _RunCost(gpus * run_s / 60, median(one.bytes for one in likes))
    return found


def _cost_round(plans: Mapping[str, Sequence[PlannedRun]], costs: Mapping[tuple[str, Mode], _RunCost]) -> float:
    """Return how many minutes the first timed round of the first experiment is expected to take."""
    order = next(iter(plans.values()))
    return sum(costs[run.variant, run.mode].gpu_min for run in order if (run.mode, run.round) == ("timed", 0))


def describe_cost(cost: Cost) -> list[str]:
    total_min, longest_min = sum(cost.experiments_min.values()), max(cost.experiments_min.values())
    sentences = []
    if cost.past_runs:
        experiments = f"{format_count(len(cost.experiments_min), 'experiment')}, the longest {longest_min:.1f}"
        minutes = f"{'at most ' if cost.until_decided else ''}{total_min:.1f} GPU minutes"
        sentences.append(f"expected: {minutes} in {experiments}, by {cost.past_runs} past runs on {' and '.join(cost.devices)}")
        if cost.data:
            sentences.append(f"these read {' and '.join(cost.data)}: epochs of more data take longer")
    sentences += [_describe_power(power) for power in cost.powers]
    if cost.powers and cost.until_decided:
        sentences.append("rounds end once all compared variants are decided: what that saves is counted against these numbers")
    for other in dict.fromkeys(cost.guessed.values()):
        names = ", ".join(name for name, stand_in in cost.guessed.items() if stand_in == other)
        sentences.append(f"no past run, estimated like {other}, which differs least: {names}")
    if cost.unknown:
        sentences.append(f"not counted, because no past run of this workload has it: {', '.join(cost.unknown)}")
    sentences.append(
        f"download {cost.download_mib:.0f} MiB; disk {cost.data_mib:.0f} MiB of volumes and {cost.runs_mib:.0f} MiB of runs, "
        "profilers' reports and checkpoints not counted"
    )
    return sentences


def _describe_power(power: Power) -> str:
    found = []
    for finding in power.findings:
        minutes = f" ({format_value(finding.minutes, 'GPU minutes')})" if finding.rounds else ""
        found.append(f"{format_value(finding.difference, '%')} in {finding.rounds or 'more than 1000'} rounds{minutes}")
    limit, seen = (format_value(value, "%") for value in (power.noise.limit, power.noise.deviation))
    noise = f"{limit}, the upper 80 % limit of {seen} in past runs"
    return f"{' / '.join(power.variants)}: a difference is found nine times in ten of {', '.join(found)}; pairs vary by {noise}"


def _find_powers(config: Config, past: Sequence[PastRun], round_min: float) -> Iterator[Power]:
    """Yield, for each compared pair whose variants ran in pairs before, how many rounds find which difference."""
    timed = {
        (one.experiment, one.run.round, one.run.variant): one for one in past if one.run.mode == "timed" and not one.control
    }
    for variants in config.measurement.compared():
        experiments: dict[Path, list[float]] = {}
        for (experiment, number, variant), one in timed.items():
            other = timed.get((experiment, number, variants[1]))
            if variant == variants[0] and other and one.training_s and other.training_s:
                experiments.setdefault(experiment, []).append(math.log(one.training_s / other.training_s))
        if (noise := pool_noise(list(experiments.values()))) is None:
            continue
        counts = {
            difference: count_rounds(difference, noise.limit, config.measurement.comparisons) for difference in DIFFERENCES
        }
        yield Power(variants, noise, [RoundsNeeded(size, count, (count or 0) * round_min) for size, count in counts.items()])


def _find_stand_in(config: Config, name: str, past: Sequence[PastRun]) -> str | None:
    """Return the variant whose past runs tell what this one costs: itself, or what differs least; of several the slowest."""
    if any(one.run.variant == name for one in past):
        return name
    settings = config.completed_variants[name].settings

    def differ(one: PastRun) -> tuple[int, float]:
        return len(config.changed_techniques(one.run.techniques, settings)), -one.training_s

    nearest = min(past, key=differ, default=None)
    return nearest.run.variant if nearest else None


def _find_past_runs(folder: Path, config: Config) -> Iterator[PastRun]:
    """Yield the completed runs below a folder that trained on this workload as this configuration's variants do."""
    read_once = cache(read_experiment)  # an experiment checks many runs
    places = [folder, *folder.glob("*")]  # a results folder, or one of several; no deeper
    for path in sorted(path for place in places for path in _list_runs(place)):
        try:
            _check_finished(path, read_once)
            run = _read_if_readable(read_run, path.parent)
            if run is None or (run.case, run.workload, run.outcome) != (config.workload_name, config.shared, "completed"):
                continue
            _check_finished(path.with_name(EPOCHS_FILE), read_once)
        except RecordError as error:
            log.warning("not counted: %s", error)
            continue
        epochs = _read_if_readable(read_epochs, path.parent)
        if epochs is not None and not epochs.empty:
            yield _read_past_run(path.parent, run, epochs)


def _list_runs(results: Path) -> list[Path]:
    try:
        places = [results / name for name in (EXPERIMENTS_FOLDER, OLD_EXPERIMENTS_FOLDER)]
        return [path for place in places for path in find_files(place, f"*/{RUNS_FOLDER}/*/{RUN_FILE}")]
    except RecordError as error:
        log.warning("not counted: %s", error)
        return []


def _check_finished(path: Path, read: Callable[[Path], Experiment]) -> None:
    """Check a run's file against its experiment's checksums, if that is finished."""
    experiment = path.parents[2]
    if is_there(experiment_file(experiment)):
        check_files(experiment, read(experiment), [path.relative_to(experiment).as_posix()])


def _read_if_readable(read: Callable[[Path], Read], folder: Path) -> Read | None:
    """Return what is read of a run; None if it is of another version, which is ignored here."""
    try:
        return read(folder)
    except RecordError:
        return None


def _read_past_run(folder: Path, run: Run, epochs: pd.DataFrame) -> PastRun:
    validations_s = epochs["validation_s"].dropna()
    return PastRun(
        experiment=folder.parents[1],
        run=run,
        training_s=training_epoch_s(epochs, warm_up_epochs(run)) or 0.0,
        control=is_control(folder.name),
        validation_s=0.0 if validations_s.empty else float(validations_s.mean()),
        bytes=size_below(folder),
    )


def _find_pauses(past: Sequence[PastRun]) -> dict[Mode, float]:
    """Return what a run of each mode takes besides, in seconds, until the next of its experiment begins: medians.

    A first epoch that warms up, the end of the process, the export of a trace.
    """
    pauses_s: dict[Mode, list[float]] = {}
    inside = sorted(past, key=lambda one: (str(one.experiment), one.run.started))
    for one, following in pairwise(inside):
        begun, next_begun = (datetime.fromisoformat(run.run.started) for run in (one, following))
        pause_s = (next_begun - begun).total_seconds() - _expected_s(one, one.run.epochs, one.run.validate_every)
        if one.experiment == following.experiment and pause_s > 0:
            pauses_s.setdefault(one.run.mode, []).append(pause_s)
    return {mode: median(found) for mode, found in pauses_s.items()}


def _expected_s(past: PastRun, epochs: int, validate_every: int) -> float:
    return past.run.start_up_s + epochs * past.training_s + epochs // validate_every * past.validation_s
