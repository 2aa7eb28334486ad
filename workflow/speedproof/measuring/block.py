"""Running a block: every planned run in a fresh process, profiled ones under the profiler, then the block's record."""

import logging
import shutil
from dataclasses import dataclass
from pathlib import Path

from speedproof.config.model import Config
from speedproof.errors import RecordError
from speedproof.measuring.plan import plan_block
from speedproof.measuring.process import run_process
from speedproof.measuring.tracing import run_under_nsys
from speedproof.profiling.backend import Selection, select_backend
from speedproof.records.block import BLOCK_FILE, PLAN_FILE, RUNS_FOLDER, Block, Plan, PlannedRun
from speedproof.records.checkpoint import find_checkpoint
from speedproof.records.files import sha256_of, write_json
from speedproof.records.run import RUN_FILE, TRACE_FOLDER, Backend, Conditions, Run, fingerprint_of, read_run
from speedproof.records.trace import TRACE_FILE

log = logging.getLogger("speedproof")

# What later steps read of a run, and so what a block vouches for.
VOUCHED = ("*.json", "*.csv", "trace/*", "stats/*")


@dataclass(frozen=True)
class Job:
    """What a block needs to know, and the folder it fills."""

    config: Config
    config_file: Path
    dataset_file: Path
    block: str
    folder: Path
    profiles: Path | None = None  # where profilers write while a run lasts; None: into its folder


def run_block(job: Job, conditions: Conditions) -> Block:
    """Run what is missing of a block and write `block.json`, last.

    The order is written to `plan.json` before the first run. A run that an interrupted attempt left whole is kept if all
    that decides what it measured is the same, the GPU above all; by the same rule a timed run that left a checkpoint
    (measurement.checkpoint_every) goes on from it. Any other is repeated.

    Raises:
        TrainingError: a run did not end well; the block has no `block.json` then.
        ProfilingError: a run could not be traced.
    """
    plan = plan_block(job.config, job.block)
    (job.folder / BLOCK_FILE).unlink(missing_ok=True)
    write_json(job.folder / PLAN_FILE, plan)
    profiler = _choose_profiler(job.config, plan)
    names = plan.folders()
    _remove_other_runs(job.folder / RUNS_FOLDER, names)
    kept = []
    for number, (name, planned) in enumerate(zip(names, plan.order, strict=True), start=1):
        folder = job.folder / RUNS_FOLDER / name
        selection = None if planned.arm == "timed" else profiler
        tracer: Backend = selection.backend if selection else "none"
        fingerprint = expected_fingerprint(job.config, planned, tracer, conditions)
        if _is_whole(folder, fingerprint):
            kept.append(name)
            log.info("run %d of %d, %s: kept", number, len(names), name)
            continue
        checkpointed = planned.arm == "timed" and job.config.measurement.checkpoint_every is not None
        if not (checkpointed and find_checkpoint(folder, fingerprint)):
            shutil.rmtree(folder, ignore_errors=True)
        command = train_command(job, planned, tracer, folder, fingerprint if checkpointed else None)
        run = _do_run(command, folder, selection, job)
        dice = "no Dice" if run.best_dice is None else f"best Dice {run.best_dice:.4f}"
        breaks = "".join(f", continued from epoch {part.first_epoch} ({part.reason})" for part in run.continued)
        log.info("run %d of %d, %s: %.1f s, %s%s", number, len(names), name, run.process_s, dice, breaks)
    digests = digest_tables(job.folder, names)
    block = Block(
        block=job.block,
        variants=job.config.measurement.variants,
        ladder=plan.ladder,
        quality=plan.quality,
        order=plan.order,
        runs=names,
        kept=kept,
        conditions=conditions,
        digests=digests,
    )
    write_json(job.folder / BLOCK_FILE, block)
    return block


def expected_fingerprint(config: Config, planned: PlannedRun, profiler: Backend, conditions: Conditions) -> str:
    """Return the fingerprint that a run of this plan would have under these conditions."""
    settings = {
        "case": config.case,
        "variant": planned.variant,
        "arm": planned.arm,
        "profiler": profiler,
        "seed": planned.seed,
        "epochs": config.epochs_of(planned.variant),
        "validate_every": config.validate_every_of(planned.variant),
        "techniques": config.variants[planned.variant].model_dump(mode="json"),
        "workload": config.workload.model_dump(mode="json"),
    }
    return fingerprint_of(settings, conditions)


def digest_tables(folder: Path, runs: list[str]) -> dict[str, str]:
    """Return the SHA-256 of every file of the runs that a later step reads, by path relative to the block's folder."""
    found = [path for run in runs for pattern in VOUCHED for path in (folder / RUNS_FOLDER / run).glob(pattern)]
    return {path.relative_to(folder).as_posix(): sha256_of(path) for path in sorted(found) if path.is_file()}


def train_command(job: Job, planned: PlannedRun, profiler: Backend, folder: Path, fingerprint: str | None = None) -> list[str]:
    """Return the arguments, after `python -m`, of one run's process; with a fingerprint it keeps checkpoints."""
    return [
        "speedproof",
        "train",
        f"--config={job.config_file}",
        f"--dataset={job.dataset_file}",
        f"--variant={planned.variant}",
        f"--arm={planned.arm}",
        f"--repeat={planned.repeat}",
        f"--seed={planned.seed}",
        f"--profiler={profiler}",
        *([f"--fingerprint={fingerprint}"] if fingerprint else []),
        f"--out={folder}",
    ]


def _choose_profiler(config: Config, plan: Plan) -> Selection | None:
    """Return what traces the profiled runs of a plan; None where it has none."""
    if all(planned.arm == "timed" for planned in plan.order):
        return None
    selection = select_backend(config.profiling)
    log.info("profiler: %s %s (%s)", selection.backend, selection.version, selection.reason)
    return selection


def _do_run(command: list[str], folder: Path, selection: Selection | None, job: Job) -> Run:
    folder.mkdir(parents=True, exist_ok=True)
    if selection and selection.nsys:
        run_under_nsys(command, folder, selection.nsys, job.config.profiling.trace, job.profiles)
    else:
        run_process(command, folder)
    return read_run(folder)


def _is_whole(folder: Path, fingerprint: str) -> bool:
    """Return whether a run ended well, was traced if it should have been, and measured what is asked for now."""
    try:
        run = read_run(folder) if (folder / RUN_FILE).exists() else None
    except RecordError:
        return False
    traced = run is not None and (run.profiler == "none" or (folder / TRACE_FOLDER / TRACE_FILE).exists())
    return run is not None and traced and run.outcome == "completed" and run.fingerprint == fingerprint


def _remove_other_runs(runs: Path, names: list[str]) -> None:
    """Remove the folders of runs that are not in the plan: an earlier configuration's."""
    for folder in runs.iterdir() if runs.exists() else []:
        if folder.name not in names:
            shutil.rmtree(folder)
