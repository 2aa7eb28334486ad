"""Close an interrupted experiment that cannot go on, for example without its GPU: its record holds the whole runs."""

from itertools import pairwise
from pathlib import Path

from speedproof.config.model import Config
from speedproof.results.evidence_archive import OLD_EXPERIMENTS_FOLDER
from speedproof.results.experiment import (
    EXPERIMENT_FILE,
    PLAN_FILE,
    PREPARED_FILE,
    PREPARED_FOLDER,
    RUNS_FOLDER,
    Experiment,
    Plan,
    PlannedRun,
    PreparedFolder,
    Stopped,
)
from speedproof.results.files import read_record
from speedproof.results.run_record import EPOCHS_FILE, GPU_FILE, LOG_FILE, Run, read_run
from speedproof.results.trace_results import process_folders
from speedproof.run.plan import plan_experiment
from speedproof.run.resume import digest_tables, expected_fingerprint, finish_experiment, read_whole_run
from speedproof.stats.comparability import differing_conditions
from speedproof.util.errors import RecordError


def close_experiment(folder: Path, config: Config) -> Experiment:
    """Write `experiment.json` of an interrupted experiment, from its completed runs; files of other runs are kept.

    A run is complete by the same rule as when an experiment resumes. The order was drawn before the first run, so stopping
    early does not select results.

    Raises:
        RecordError: the experiment is finished, of several nodes or of another configuration; no run is complete, no two
            variants share a round, runs cannot be compared, or the time to prepare volumes is unknown.
    """
    if folder.absolute().parent.name == OLD_EXPERIMENTS_FOLDER:
        raise RecordError(f"{folder}: was measured by a version before 0.3; close it with that version, or measure it again")
    if (folder / EXPERIMENT_FILE).exists():
        raise RecordError(f"{folder / EXPERIMENT_FILE}: exists; a finished experiment is not closed")
    plan = read_record(folder / PLAN_FILE, Plan)
    if plan.experiment not in config.experiments() or plan_experiment(config, plan.experiment, plan.design) != plan:
        raise RecordError(
            f"{folder / PLAN_FILE}: does not match the configuration; restore the one that the experiment began with"
        )
    if config.experiment_nodes() > 1:
        raise RecordError(f"{folder}: ran on several nodes, but its runs name only one GPU; run the experiment again")
    planned = plan.runs()
    runs = {name: _read_whole(config, run, folder / RUNS_FOLDER / name) for name, run in planned.items()}
    whole = {name: run for name, run in runs.items() if run is not None}
    order = [planned[name] for name in whole]
    _check_comparable(folder, whole)
    _check_pairs(folder, config, order)
    ran = {run.variant for run in order}
    return finish_experiment(
        folder,
        config,
        plan,
        {name: planned[name] for name in whole},
        stopped=_describe_stop(plan, order),
        prepared=[
            read_record(folder / PREPARED_FOLDER / name / PREPARED_FILE, PreparedFolder)
            for name in config.prepared_folders()
            if name in ran
        ],
        kept=list(whole),
        undone={name: _describe_end(folder / RUNS_FOLDER / name) for name in planned if name not in whole},
        conditions=next(iter(whole.values())).conditions,
        digests=digest_tables(folder, whole),
    )


def _read_whole(config: Config, planned: PlannedRun, folder: Path) -> Run | None:
    """Return a run that is whole and measured what was planned, under whatever conditions; None otherwise."""
    try:
        run = read_run(folder)
    except RecordError:
        return None
    traced = run.profiler != "none"
    files = [folder / EPOCHS_FILE, folder / LOG_FILE, *(place / GPU_FILE for place in process_folders(folder, run.ranks))]
    if traced == (planned.mode == "timed") or not all(file.exists() for file in files):
        return None
    fingerprint = expected_fingerprint(config, planned, run.profiler, run.conditions)
    whole = read_whole_run(folder, fingerprint, config.measurement.quality)
    return whole.run if whole else None


def _check_comparable(folder: Path, whole: dict[str, Run]) -> None:
    """Check that there is a run, and that no other run's conditions, nor another profiler, set it apart."""
    if not whole:
        raise RecordError(f"{folder}: no run is complete; run the experiment again")
    first, *others = whole
    for name in others:
        if differing := differing_conditions(whole[first].conditions, whole[name].conditions):
            raise RecordError(
                f"{folder}: {name} used a different {', '.join(differing)} than {first}, so they cannot be compared; run the "
                "experiment again"
            )
    profilers = sorted({run.profiler for run in whole.values()} - {"none"})
    if len(profilers) > 1:
        raise RecordError(f"{folder}: runs were traced by {' and by '.join(profilers)}; run the experiment again")


def _check_pairs(folder: Path, config: Config, order: list[PlannedRun]) -> None:
    """Check that some two variants that are to be compared have a round in common."""
    measurement = config.measurement
    variants = [(measurement.variants[0], other) for other in measurement.variants[1:]]
    variants += [*measurement.pairs, *pairwise(measurement.ablation)]
    ran = {(run.variant, run.mode, run.round) for run in order if not run.control}
    if variants and not any(
        (other, mode, number) in ran for one, other in variants for name, mode, number in ran if name == one
    ):
        raise RecordError(f"{folder}: no two compared variants have a complete run in the same round; run the experiment again")


def _describe_stop(plan: Plan, order: list[PlannedRun]) -> Stopped | None:
    """Return that rounds were cut off before variants were decided; None for an experiment of a fixed number of rounds."""
    if plan.until is None:
        return None
    most = 1 + max(run.round for run in plan.order if run.mode == "timed")
    whole = [[run in order for run in plan.order if (run.mode, run.round) == ("timed", number)] for number in range(most)]
    return Stopped(rounds=sum(map(all, whole)), most=most, reason="closed", budget_min=plan.budget_min)


def _describe_end(folder: Path) -> str:
    """Return what became of a run that is not whole."""
    if not folder.exists():
        return "not begun"
    try:
        outcome = read_run(folder).outcome
    except RecordError:
        return "cut off"
    return "incomplete" if outcome == "completed" else outcome.replace("_", " ")
