"""Which runs of an interrupted experiment are kept (whole ones that measured what is asked for), and its files' checksums."""

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd

from speedproof.config.model import Config
from speedproof.profilers.formats import find_run_tracer
from speedproof.results.experiment import EXPERIMENT_FILE, PLAN_FILE, RUNS_FOLDER, Experiment, Plan, PlannedRun
from speedproof.results.files import read_record, sha256_of, write_sealed
from speedproof.results.quality import Quality
from speedproof.results.run_record import (
    RUN_FILE,
    TRACE_FOLDER,
    Backend,
    Conditions,
    Run,
    check_run_qualities,
    fingerprint_of,
    read_epochs,
    read_gpu_samples,
    read_run,
    without_title,
)
from speedproof.results.trace_results import process_folders
from speedproof.results.trace_tables import TRACE_FILE
from speedproof.util.errors import RecordError

# The files of a run that later steps read, and so the ones an experiment keeps checksums of.
VOUCHED = tuple(f"{rank}{name}" for rank in ("", "rank*/") for name in ("*.json", "*.csv", "trace/*", "stats/*"))


def expected_fingerprint(config: Config, planned: PlannedRun, profiler: Backend, conditions: Conditions) -> str:
    """Return the fingerprint that a run of this plan would have under these conditions."""
    return fingerprint_of(planned_settings(config, planned, profiler), conditions)


def planned_settings(config: Config, planned: PlannedRun, profiler: Backend) -> dict[str, Any]:
    """Return what the configuration decides of a planned run, as :attr:`Run.settings` has it of one that ran."""
    tracer = find_run_tracer(profiler)
    return {
        "case": config.workload_name,
        "variant": planned.variant,
        "mode": planned.mode,
        "profiler": profiler,
        "seed": planned.seed,
        "epochs": config.reported_epochs_of(planned.variant, profiler),
        "validate_every": config.validate_every_of(planned.variant),
        "techniques": without_title(config.completed_variants[planned.variant].settings),
        "workload": config.shared,
        "gpu_samples_per_s": config.profiling.gpu_samples_per_s,
        "traced": config.profiling.traced if tracer and tracer.takes_settings else [],
    }


def remove_runs_of_another_order(folder: Path, plan: Plan) -> None:
    """Remove the runs that an earlier attempt left in another order than is planned now.

    A plan of more or fewer rounds has the same order as far as both go.
    """
    try:
        before = read_record(folder / PLAN_FILE, Plan).order
    except RecordError:
        return
    timed, now = ([run for run in order if run.mode == "timed"] for order in (before, plan.order))
    if any(one != other for one, other in zip(timed, now, strict=False)):
        shutil.rmtree(folder / RUNS_FOLDER, ignore_errors=True)


def finish_experiment(folder: Path, config: Config, plan: Plan, done: Mapping[str, PlannedRun], **found: Any) -> Experiment:
    """Write `experiment.json` of the runs that are `done`, with what else was found of them, and return it."""
    experiment = Experiment(
        experiment=plan.experiment,
        variants=config.measurement.variants,
        pairs=config.measurement.pairs,
        ablation=plan.ablation,
        quality=plan.quality,
        equivalence_margin=plan.equivalence_margin,
        comparisons=plan.comparisons,
        trust_reported=config.measurement.trust_reported,
        data=_list_data(config),
        design=plan.design,
        order=list(done.values()),
        runs=list(done),
        plan=sha256_of(folder / PLAN_FILE),
        **found,
    )
    write_sealed(folder / EXPERIMENT_FILE, experiment)
    return experiment


def _list_data(config: Config) -> dict[str, Any]:
    """Return the configured data without folders, which are elsewhere on other machines."""
    data = config.model_dump(mode="json", include={"data"})["data"]
    return {name: value for name, value in data.items() if name != "folder" and not name.endswith("_folder")}


def digest_tables(folder: Path, runs: Iterable[str], known: Mapping[Path, str] = MappingProxyType({})) -> dict[str, str]:
    """Return the SHA-256 of every file of the runs that a later step reads, by path relative to the experiment's folder.

    Files whose digest is `known` are not read again.
    """
    found = [path for run in runs for pattern in VOUCHED for path in (folder / RUNS_FOLDER / run).glob(pattern)]
    tables = [path for path in sorted(found) if _is_table(path)]
    return {path.relative_to(folder).as_posix(): known.get(path) or sha256_of(path) for path in tables}


def _is_table(path: Path) -> bool:
    return path.is_file() and not path.name.startswith(".")  # as what a kill left of a file that was being written


@dataclass(frozen=True)
class WholeRun:
    """A run that ended well, and its epochs."""

    run: Run
    epochs: pd.DataFrame


def read_whole_run(folder: Path, fingerprint: str, quality: Quality) -> WholeRun | None:
    """Return a run that ended well, left all that it should have, and measured what is asked for now; None of any other."""
    try:
        run = read_run(folder) if (folder / RUN_FILE).exists() else None
        if run is None or run.outcome != "completed" or run.fingerprint != fingerprint:
            return None
        # These have no checksum yet: without this check, a table cut off by a full disk would be used from here on.
        epochs = read_epochs(folder)
        if len(epochs) != run.epochs:
            return None
        check_run_qualities(folder, quality, run, epochs)
        places = process_folders(folder, run.ranks)
        for place in places:
            read_gpu_samples(place)
    except RecordError:
        return None
    traced = run.profiler == "none" or all((place / TRACE_FOLDER / TRACE_FILE).exists() for place in places)
    return WholeRun(run, epochs) if traced else None
