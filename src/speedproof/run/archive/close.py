"""Closing a block that was interrupted and cannot go on, as where its GPU is gone: its record, of the runs that are whole."""

from itertools import pairwise
from pathlib import Path

from speedproof.config.model import Config
from speedproof.results.block import (
    BLOCK_FILE,
    PLAN_FILE,
    PREPARED_FILE,
    PREPARED_FOLDER,
    RUNS_FOLDER,
    Block,
    Plan,
    PlannedRun,
    PreparedFolder,
    Stopped,
)
from speedproof.results.files import read_record, write_sealed
from speedproof.results.ranks import process_folders
from speedproof.results.run_record import EPOCHS_FILE, GPU_FILE, LOG_FILE, Run, read_run
from speedproof.run.plan import plan_block
from speedproof.run.resume import digest_tables, expected_fingerprint, is_whole
from speedproof.stats.comparability import differing_conditions
from speedproof.util.errors import RecordError


def close_block(folder: Path, config: Config) -> Block:
    """Write `block.json` of an interrupted block, of the runs that are whole; what is left of others stays where it is.

    A run counts as whole by the rule that keeps one when a block goes on. The order was drawn before the first run, so that
    stopping early does not choose among results.

    Raises:
        RecordError: the block is finished, of several nodes or of another configuration; no run is whole, no two sides share
            a repeat, or runs cannot be compared with each other; or what prepared volumes took is not known.
    """
    if (folder / BLOCK_FILE).exists():
        raise RecordError(f"{folder / BLOCK_FILE}: exists; a finished block is not closed")
    plan = read_record(folder / PLAN_FILE, Plan)
    if plan.block not in config.blocks() or plan_block(config, plan.block) != plan:
        raise RecordError(f"{folder / PLAN_FILE}: not what the configuration plans; put back the one that the block began with")
    if config.block_nodes() > 1:
        raise RecordError(f"{folder}: ran on several nodes, of which its runs name one GPU only; run the block again")
    planned = plan.runs()
    runs = {name: _read_whole(config, run, folder / RUNS_FOLDER / name) for name, run in planned.items()}
    whole = {name: run for name, run in runs.items() if run is not None}
    order = [planned[name] for name in whole]
    _check_comparable(folder, whole)
    _check_pairs(folder, config, order)
    ran = {run.variant for run in order}
    block = Block(
        block=plan.block,
        variants=config.measurement.variants,
        pairs=config.measurement.pairs,
        ladder=plan.ladder,
        quality=plan.quality,
        same_margin=plan.same_margin,
        stopped=_describe_stop(plan, order),
        order=order,
        runs=list(whole),
        prepared=[
            read_record(folder / PREPARED_FOLDER / name / PREPARED_FILE, PreparedFolder)
            for name in config.prepared_folders()
            if name in ran
        ],
        kept=list(whole),
        undone={name: _describe_end(folder / RUNS_FOLDER / name) for name in planned if name not in whole},
        conditions=next(iter(whole.values())).conditions,
        digests=digest_tables(folder, list(whole)),
    )
    write_sealed(folder / BLOCK_FILE, block)
    return block


def _read_whole(config: Config, planned: PlannedRun, folder: Path) -> Run | None:
    """Return a run that is whole and measured what was planned, under whatever conditions; None otherwise."""
    try:
        run = read_run(folder)
    except RecordError:
        return None
    traced = run.profiler != "none"
    files = [folder / EPOCHS_FILE, folder / LOG_FILE, *(place / GPU_FILE for place in process_folders(folder, run.ranks))]
    if traced == (planned.arm == "timed") or not all(file.exists() for file in files):
        return None
    fingerprint = expected_fingerprint(config, planned, run.profiler, run.conditions)
    return run if is_whole(folder, fingerprint, config.measurement.quality) else None


def _check_comparable(folder: Path, whole: dict[str, Run]) -> None:
    """Check that there is a run, and that no other run's conditions, nor another profiler, set it apart."""
    if not whole:
        raise RecordError(f"{folder}: no run is whole; run the block again")
    first, *others = whole
    for name in others:
        if differing := differing_conditions(whole[first].conditions, whole[name].conditions):
            raise RecordError(
                f"{folder}: {name} ran under another {', '.join(differing)} than {first}, so they cannot be compared; run the "
                "block again"
            )
    profilers = sorted({run.profiler for run in whole.values()} - {"none"})
    if len(profilers) > 1:
        raise RecordError(f"{folder}: runs were traced by {' and by '.join(profilers)}; run the block again")


def _check_pairs(folder: Path, config: Config, order: list[PlannedRun]) -> None:
    """Check that some two sides that are to be compared have a repeat in common."""
    measurement = config.measurement
    sides = [(measurement.variants[0], other) for other in measurement.variants[1:]]
    sides += [*measurement.pairs, *pairwise(measurement.ladder)]
    ran = {(run.variant, run.arm, run.repeat) for run in order if not run.control}
    if sides and not any((other, arm, repeat) in ran for one, other in sides for name, arm, repeat in ran if name == one):
        raise RecordError(f"{folder}: no two sides that are compared have a whole run of the same repeat; run the block again")


def _describe_stop(plan: Plan, order: list[PlannedRun]) -> Stopped | None:
    """Return that rounds which would have gone on until sides are decided were cut off; None of a block of fixed length."""
    if plan.until is None:
        return None
    most = 1 + max(run.repeat for run in plan.order if run.arm == "timed")
    whole = [[run in order for run in plan.order if (run.arm, run.repeat) == ("timed", repeat)] for repeat in range(most)]
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
