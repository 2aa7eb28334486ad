"""One run of a program that knows nothing of speedproof: started, watched from outside, and its record written."""

import os
import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from speedproof.cluster.gpu_users import GpuUse, counting_gpus
from speedproof.config.model import Config, Variant
from speedproof.config.reading import Reading
from speedproof.config.workload import Workload
from speedproof.profilers.formats import find_run_tracer
from speedproof.profilers.nvtx_library import RangeCost, measure_cost
from speedproof.profilers.nvtx_ranges_file import ProcessRanges
from speedproof.results.files import write_json
from speedproof.results.observations import MOST_CHANGED, Observations
from speedproof.results.ranks import rank_folder
from speedproof.results.run_record import (
    LOG_FILE,
    OBSERVED,
    RUN_FILE,
    TITLE,
    Backend,
    Conditions,
    Mode,
    ObservedRanges,
    Run,
    RunOutcome,
    write_epochs,
)
from speedproof.run.arrivals import find_start_up, find_time_after, judge_arrivals, list_observed
from speedproof.run.command_words import program_command
from speedproof.run.epoch_reports import Marks
from speedproof.run.outside_watch import list_changed_so_far, shorten_home
from speedproof.run.printed_output import LONGEST_LINE
from speedproof.run.printed_times import find_resolution
from speedproof.run.program_ranks import agree_on_ending
from speedproof.run.quality_command import Judge, MeasuredQuality, find_judge, measure_quality
from speedproof.run.read_progress import SOURCES, read_progress
from speedproof.run.watched_program import RECEIVED, Task, Watched, watch_program
from speedproof.run.working_folder import (
    working_folder,
)
from speedproof.util.errors import RecordError, TrainingError
from speedproof.util.numbers import format_count
from speedproof.util.secrets import scrub_secrets
from speedproof.util.signals import StoppedError
from speedproof.util.units import NS_PER_S


@dataclass(frozen=True)
class Request:
    """Which run this is."""

    variant: str
    mode: Mode
    round: int
    seed: int
    profiler: Backend


def run_program(
    config: Config,
    workload: Workload,
    conditions: Conditions,
    request: Request,
    folder: Path,
    data: Path,
    environ: Mapping[str, str],
    output: int,
) -> Run:
    """Run a variant's program in a fresh working folder of its own, and return the run's record, which it leaves in `folder`.

    The program sees `environ` and, unless it runs blind, SPEEDPROOF_RUN (where its marks go), SPEEDPROOF_SEED,
    SPEEDPROOF_VALIDATE_EVERY and, if its variant says so, SPEEDPROOF_EPOCHS. What it prints goes to the file `output`. The
    record says if it did not end well, or did not leave as many epochs as were asked for. Of several ranks this is the first,
    and its marks are the run's; the record also says if another one did not end well.
    """
    folder.mkdir(parents=True, exist_ok=True)
    variant, epochs = config.completed_variants[request.variant], config.epochs_of(request.variant)
    started, marks, judged = _now(), Marks(), None
    with working_folder(workload, variant) as place:
        command = program_command(workload, variant, data, place)
        source = SOURCES[variant.reads.source]
        taking = source.takes_ranges and request.profiler == "none"
        tracer = find_run_tracer(request.profiler)
        cost = measure_cost({**os.environ, **environ, **variant.environment}) if taking and variant.image is None else None
        task = Task(
            config,
            workload,
            variant,
            command,
            request.seed,
            epochs if variant.told_epochs else 0,
            taking_ranges=taking,
            traced_by_torch=tracer is not None and tracer.within,
            data=data,
            blind=variant.blind and request.mode == "timed",
        )
        judge = find_judge(config, workload, variant, place, request.seed, environ) if request.mode == "timed" else None
        with _counting_gpus(config, variant, request.mode, environ) as use:
            seen = watch_program(task, folder, place, output, environ)
        outcome, reason = seen.outcome, seen.reason
        epochs = config.reported_epochs_of(request.variant, request.profiler)
        if outcome == "completed" and (taking or not source.takes_ranges):
            outcome, reason, marks = _read_progress(seen, variant, epochs)
        if outcome == "completed" and judge is not None:
            outcome, reason, judged = _judge(judge)
    if variant.ranks > 1:
        outcome, reason = agree_on_ending(folder, variant.ranks, 0, outcome, reason)
    best = _find_best(config, marks) if variant.evaluation is None else None
    process_s = seen.ended_s - seen.launched_s
    run = Run(
        run=folder.name,
        case=config.workload_name,
        variant=request.variant,
        mode=request.mode,
        profiler=request.profiler,
        round=request.round,
        seed=request.seed,
        epochs=epochs,
        validate_every=config.validate_every_of(request.variant),
        techniques={TITLE: variant.title, **variant.settings},
        workload=config.shared,
        gpu_samples_per_s=config.profiling.gpu_samples_per_s,
        traced=config.profiling.traced if tracer and tracer.takes_settings else [],
        conditions=conditions,
        warnings=[
            *(f"it changed {name}, which later runs see" for name in seen.changed),
            *describe_cut(seen.cut),
        ],
        command=shlex.split(scrub_secrets(variant.command or "")),
        ranks=variant.ranks,
        started=started,
        ended=_now(),
        clock="launcher",
        start_up_s=max(0.0, marks.epochs[0].begins_s - seen.launched_s) if marks.epochs else 0.0,
        cache_fill_s=0.0,
        warm_up_s=None,
        training_s=sum(epoch.train_s + (epoch.validation_s or 0.0) for epoch in marks.epochs),
        resolution_s=find_resolution(marks.times) or None,
        process_s=process_s,
        flop_per_epoch=marks.flop,
        parameters=marks.parameters,
        best_quality=best[1] if best else judged.quality if judged else None,
        best_quality_epoch=(best[0] or None) if best else None,
        best_quality_s=min(process_s, max(0.0, best[2] - seen.launched_s)) if best else None,
        outcome=outcome,
        reason=reason,
        observed=_observe(seen, marks, variant, request.profiler, judged, use.gpus if use else None),
        observed_ranges=None if cost is None else _describe_observed(seen.reports.ranges, cost),
    )
    _write_epochs(folder, marks, run.observed is not None and run.observed.arrivals == "seen", variant.evaluation is not None)
    write_json(folder / RUN_FILE, run)
    return run


def _observe(
    seen: Watched, marks: Marks, variant: Variant, profiler: Backend, judged: MeasuredQuality | None, gpus: int | None
) -> Observations:
    """Return what was observed of a run; what it used if it is the only process that was started, and no profiler's."""
    life = seen.life if variant.ranks == 1 and profiler == "none" else None
    return Observations(
        left_processes=seen.left if profiler == "none" else 0,  # nsys has helpers of its own
        left_cpu_s=seen.life.left_cpu_s if seen.life and profiler == "none" else None,
        arrivals=judge_arrivals(marks),
        ranks=variant.gpus if variant.own_ranks else 1,
        rates=marks.rates,
        start_up_s=find_start_up(marks, seen.launched_s),
        after_s=find_time_after(marks, seen.gone_s),
        changed=seen.all_changed[:MOST_CHANGED],
        changed_code=seen.outside.code[:MOST_CHANGED],
        warm_up=variant.warm_up,
        quality=judged.quality if judged else None,
        judging_s=judged.seconds if judged else None,
        judged_by=[shorten_home(str(path)) for path in judged.read][:MOST_CHANGED] if judged else [],
        cpu_s=life.cpu_s if life else None,
        read_bytes=life.read_bytes if life else None,
        storage_bytes=life.storage_bytes if life else None,
        gpus=gpus,
        epochs_ended_unix_ns=[] if profiler == "none" else _list_epoch_ends(marks, variant.reads),
    )


def _counting_gpus(
    config: Config, variant: Variant, mode: Mode, environ: Mapping[str, str]
) -> AbstractContextManager[GpuUse | None]:
    if config.measurement.device == "cpu" or variant.ranks > 1 or mode != "timed":
        return nullcontext()
    return counting_gpus({**os.environ, **environ, **variant.environment})


def _list_epoch_ends(marks: Marks, reading: Reading) -> list[int]:
    """Return when each epoch's line or mark came, in nanoseconds since 1970; a file's rows have no moments of their own."""
    if not SOURCES[reading.source].arrives:
        return []
    since_ns = time.time_ns() - time.monotonic_ns()
    return [round(epoch.end_seen_s * NS_PER_S) + since_ns for epoch in marks.epochs if epoch.end_seen_s is not None]


def describe_left(processes: int) -> str:
    """Return that a program left processes behind."""
    return f"it left {processes} of its processes running, which were ended"


def describe_cut(lines: int) -> list[str]:
    """Return that lines were too long to be read to their end, if some were."""
    return [f"{format_count(lines, 'line')} of its output read to {LONGEST_LINE // 1024} KiB only"] if lines else []


def _describe_observed(processes: Sequence[ProcessRanges], cost: RangeCost) -> ObservedRanges:
    return ObservedRanges(
        kept=sum(len(one.records) for one in processes),
        others=sum(one.others for one in processes),
        kept_ns=cost.wanted_ns,
        other_ns=cost.other_ns,
    )


def follow_program(
    config: Config, workload: Workload, request: Request, folder: Path, data: Path, environ: Mapping[str, str], rank: int
) -> None:
    """Run the program of a rank after the first, whose process torchrun started this is; leave log and ending in `rank<k>/`.

    Raises:
        TrainingError: it did not end well.
    """
    variant, epochs = config.completed_variants[request.variant], config.epochs_of(request.variant)
    own_folder = rank_folder(folder, rank)
    own_folder.mkdir(parents=True, exist_ok=True)
    with working_folder(workload, variant) as place, (own_folder / LOG_FILE).open("ab") as log:
        command, tracer = program_command(workload, variant, data, place), find_run_tracer(request.profiler)
        by_torch = tracer is not None and tracer.within
        task = Task(config, workload, variant, command, request.seed, epochs, traced_by_torch=by_torch, data=data)
        seen = watch_program(task, own_folder, place, log.fileno(), environ)
    outcome, reason = agree_on_ending(folder, variant.ranks, rank, seen.outcome, seen.reason)
    if outcome != "completed":
        raise TrainingError(f"{folder.name}: {outcome.replace('_', ' ')}: {reason}")


def _read_progress(seen: Watched, variant: Variant, epochs: int) -> tuple[RunOutcome, str, Marks]:
    """Return how the run ended by what it left of its progress, and this."""
    reading = variant.reads
    try:
        marks = read_progress(seen.reports, reading)
    except RecordError as error:
        return "failed", str(error), Marks()
    found = len(marks.epochs)
    if found == epochs:
        return "completed", "", marks
    if reading.source == "marks" and variant.told_epochs:
        why = f"marked {found} whole epochs of {epochs} (SPEEDPROOF_EPOCHS); see speedproof/marks.py"
    else:
        source = SOURCES[reading.source].title
        why = f"{found} epochs by its {source}, where {epochs} were expected; all runs of a variant must have as many"
    return "failed", why, marks


def _find_best(config: Config, marks: Marks) -> tuple[int, float, float] | None:
    """Return epoch, value and moment of the best quality, the first of equal ones."""
    sign = 1 if config.measurement.quality.better == "higher" else -1
    return max(marks.qualities, key=lambda one: (sign * one[1], -one[2]), default=None)


def _judge(judge: Judge) -> tuple[RunOutcome, str, MeasuredQuality | None]:
    """Return how a run ended by what judges it, in one line why, and what that found."""
    try:
        return "completed", "", measure_quality(judge, list_changed_so_far(judge.variant.package_folders))
    except RecordError as error:
        return "failed", str(error), None
    except StoppedError as error:
        return "stopped", f"{RECEIVED}{error}", None


def _write_epochs(folder: Path, marks: Marks, seen: bool, judged: bool) -> None:
    """Write a run's epochs: by our clock too if it has `seen` them; if `judged` by a command, reported qualities beside."""
    observed = list_observed(marks)
    beside = judged and any(epoch.quality is not None for epoch in marks.epochs)
    rows: list[dict[str, float | None]] = [
        {
            "epoch": number,
            "train_s": epoch.train_s,
            "validation_s": epoch.validation_s,
            "loss": None,
            "quality": None if judged else epoch.quality,
            **({"quality_reported": epoch.quality} if beside else {}),
            "steps": None,
            "samples_per_s": epoch.samples / epoch.train_s if epoch.samples is not None and epoch.train_s else None,
            "peak_memory_mib": None,
            **({OBSERVED: observed[number - 1]} if seen else {}),
        }
        for number, epoch in enumerate(marks.epochs, start=1)
    ]
    write_epochs(folder, rows)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
