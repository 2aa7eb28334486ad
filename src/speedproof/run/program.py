"""One run of a program that knows nothing of speedproof: started, watched from outside, and its record written."""

import os
import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from speedproof.cluster.gpu_monitor import GpuUse, counting_gpus
from speedproof.config.model import Config, Variant
from speedproof.config.reading import Reading
from speedproof.config.workload import Workload
from speedproof.profilers.formats import find_run_tracer
from speedproof.profilers.nvtx_library import ProcessRanges, RangeCost, measure_cost
from speedproof.results.files import write_json
from speedproof.results.observations import MOST_CHANGED, Observations
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
from speedproof.results.trace_results import ENDING_FILE, Ending, find_first_failure, rank_folder
from speedproof.run.arrivals import find_start_up, find_time_after, judge_arrivals, list_observed
from speedproof.run.command_words import program_command
from speedproof.run.epoch_reports import Marks
from speedproof.run.outside_watch import list_changed_so_far, shorten_home
from speedproof.run.printed_output import LONGEST_LINE
from speedproof.run.printed_times import find_resolution
from speedproof.run.quality_command import Judge, MeasuredQuality, find_judge, measure_quality
from speedproof.run.read_progress import SOURCES, read_progress
from speedproof.run.resumed import ShortRun, describe_resumed, explain_less_work, is_far_shorter
from speedproof.run.watched_program import RunEnd, Task, Watched, cut_to_limit, stopped_by, watch_program
from speedproof.run.working_folder import (
    working_folder,
)
from speedproof.util.child_processes import StoppedError, raising_when_stopped
from speedproof.util.errors import RecordError, TrainingError
from speedproof.util.numbers import format_count
from speedproof.util.secrets import scrub_words
from speedproof.util.units import NS_PER_S

_PAUSE_S = 0.05


def own_rank(variant: Variant, environ: Mapping[str, str]) -> int:
    """Return which of a variant's ranks this process is, as set by torchrun; 0 if there is only one."""
    return int(environ["RANK"]) if variant.ranks > 1 else 0


def agree_on_ending(folder: Path, ranks: int, rank: int, outcome: RunOutcome, reason: str) -> tuple[RunOutcome, str]:
    """Write how this rank ended, and return how the run did: as the first rank that failed, since the others lost a partner.

    Rank 0 awaits the others, or a run would be called whole while one of them fails.
    """
    own = Ending(rank=rank, outcome=outcome, reason=reason, ended_s=time.time())
    write_json(rank_folder(folder, rank) / ENDING_FILE, own)
    if rank == 0 and outcome == "completed":
        try:
            with raising_when_stopped():  # torchrun stops those that are left when one ends badly
                while any(not (rank_folder(folder, other) / ENDING_FILE).exists() for other in range(ranks)):
                    time.sleep(_PAUSE_S)
        except StoppedError as error:
            outcome, reason = "failed", f"received {error} while it waited for the other ranks"
    first = find_first_failure(folder)
    if first is None:
        return outcome, reason
    log = f"{rank_folder(Path(), first.rank)}/{LOG_FILE}"
    return first.outcome, first.reason if first.rank == rank else f"rank {first.rank}: {first.reason} ({log})"


@dataclass(frozen=True)
class Request:
    """Which run this is."""

    variant: str
    mode: Mode
    round: int
    seed: int
    profiler: Backend


@dataclass(frozen=True)
class ProgramRun:
    """One run of a variant's program: which it is, the folder that it fills, its data, and the variables that it sees."""

    config: Config
    workload: Workload
    request: Request
    folder: Path
    data: Path
    environ: Mapping[str, str]

    @property
    def variant(self) -> Variant:
        return self.config.completed_variants[self.request.variant]

    @property
    def variables(self) -> dict[str, str]:
        """Return all variables that processes of the run may see."""
        return {**os.environ, **self.environ, **self.variant.environment}


@dataclass(frozen=True)
class _Found:
    """How a program ended, and what was found of its run."""

    end: RunEnd
    seen: Watched
    marks: Marks
    judged: MeasuredQuality | None
    gpus: int | None  # on which it computed
    cost: RangeCost | None  # of its NVTX ranges, if they were taken


def run_program(asked: ProgramRun, conditions: Conditions, output: int) -> tuple[Run, str | None]:
    """Run a variant's program in a fresh working folder; return the run's record, and the signal that stopped it, if one did.

    Unless it runs blind, the program sees SPEEDPROOF_RUN (where its marks go), SPEEDPROOF_SEED, SPEEDPROOF_VALIDATE_EVERY and,
    for some variants, SPEEDPROOF_EPOCHS. Its output goes to the file `output`. The record shows whether the program failed or
    left another number of epochs than requested. Of several ranks this is the first, and its marks are the run's; the record
    also shows whether another rank failed.
    """
    asked.folder.mkdir(parents=True, exist_ok=True)
    started = _now()
    with working_folder(asked.workload, asked.variant) as place:
        found = _watch(asked, place, output)
    if asked.variant.ranks > 1:
        agreed = agree_on_ending(asked.folder, asked.variant.ranks, 0, found.end.outcome, found.end.reason)
        own_status = found.end.status if agreed[1] == found.end.reason else None
        found = replace(found, end=RunEnd(*agreed, status=own_status))
    run = _describe_run(asked, conditions, started, found)
    seen = run.observed is not None and run.observed.arrivals == "seen"
    _write_epochs(asked.folder, found.marks, seen, asked.variant.evaluation is not None)
    write_json(asked.folder / RUN_FILE, run)
    return run, found.end.signal


def _watch(asked: ProgramRun, place: Path, output: int) -> _Found:
    """Run the program in `place`, then read its progress, and judge what it left."""
    request, variant, source = asked.request, asked.variant, SOURCES[asked.variant.reads.source]
    taking = source.takes_ranges and request.profiler == "none"
    cost = measure_cost(asked.variables) if taking and variant.image is None else None
    task = Task(
        asked.config,
        asked.workload,
        variant,
        program_command(asked.workload, variant, asked.data, place),
        request.seed,
        asked.config.epochs_of(request.variant) if variant.told_epochs else 0,
        taking_ranges=taking,
        traced_by_torch=_is_traced_within(request),
        data=asked.data,
        blind=variant.blind and request.mode == "timed",
        stop_after=variant.stop_after or 0,
    )
    timed = request.mode == "timed"
    judge = find_judge(asked.config, asked.workload, variant, place, request.seed, asked.environ) if timed else None
    launched_ns = time.time_ns()
    with _counting_gpus(asked) as use:
        seen = watch_program(task, asked.folder, place, output, asked.environ)
    end, marks, judged = seen.end, Marks(), None
    if (end.completed or end.timed_out) and (taking or not source.takes_ranges):
        epochs = asked.config.reported_epochs_of(request.variant, request.profiler)
        seen, end, marks = _read_progress(seen, variant, epochs)
    if timed and seen.end.completed and variant.warm_up is not None:
        end = _explain_resumed(
            asked, end, ShortRun(seen.process_s, launched_ns, place, asked.folder / LOG_FILE, asked.variables)
        )
    if end.completed and judge is not None:
        end, judged = _judge(judge)
    return _Found(end, seen, marks, judged, use.gpus if use else None, cost)


def _explain_resumed(asked: ProgramRun, end: RunEnd, run: ShortRun) -> RunEnd:
    """Return how a run ended: failed, if it did far less than its warm-up because it resumed."""
    variant, less = asked.variant, ""
    if not end.completed and variant.warm_up is not None and is_far_shorter(run.run_s, variant.warm_up):
        less = f"{end.reason}{describe_resumed(asked.workload, variant, run)}"
    elif end.completed and variant.reads.source == "process":
        less = explain_less_work(asked.workload, variant, run)
    return replace(end, outcome="failed", reason=less) if less else end


def _is_traced_within(request: Request) -> bool:
    """Return whether the program's own process traces it."""
    tracer = find_run_tracer(request.profiler)
    return tracer is not None and tracer.within


def _describe_run(asked: ProgramRun, conditions: Conditions, started: str, found: _Found) -> Run:
    config, request, variant, marks = asked.config, asked.request, asked.variant, found.marks
    begun_s, tracer = found.seen.life.began_s, find_run_tracer(request.profiler)
    return Run(
        run=asked.folder.name,
        case=config.workload_name,
        variant=request.variant,
        mode=request.mode,
        profiler=request.profiler,
        round=request.round,
        seed=request.seed,
        epochs=config.reported_epochs_of(request.variant, request.profiler),
        validate_every=config.validate_every_of(request.variant),
        techniques={TITLE: variant.title, **variant.settings},
        workload=config.shared,
        gpu_samples_per_s=config.profiling.gpu_samples_per_s,
        traced=config.profiling.traced if tracer and tracer.takes_settings else [],
        conditions=conditions,
        warnings=[
            *(f"it changed {name}, which later runs see" for name in found.seen.changed),
            *describe_cut(found.seen.cut),
        ],
        command=scrub_words(shlex.split(variant.command or "")),
        ranks=variant.ranks,
        started=started,
        ended=_now(),
        clock="launcher",
        start_up_s=max(0.0, marks.epochs[0].begins_s - begun_s) if marks.epochs else 0.0,
        cache_fill_s=0.0,
        warm_up_s=None,
        training_s=sum(epoch.train_s + (epoch.validation_s or 0.0) for epoch in marks.epochs),
        resolution_s=find_resolution(marks.times) or None,
        process_s=found.seen.process_s,
        flop_per_epoch=marks.flop,
        parameters=marks.parameters,
        outcome=found.end.outcome,
        reason=found.end.reason,
        exit_status=found.end.status,
        observed=_observe(found, variant, request.profiler),
        observed_ranges=None if found.cost is None else _describe_observed(found.seen.reports.ranges, found.cost),
        **_describe_quality(asked, found),
    )


def _describe_quality(asked: ProgramRun, found: _Found) -> dict[str, Any]:
    """Return the best quality that the program reported, or the one that was measured."""
    best = _find_best(asked.config, found.marks) if asked.variant.evaluation is None else None
    if best is None:
        measured = found.judged.quality if found.judged else None
        return {"best_quality": measured, "best_quality_epoch": None, "best_quality_s": None}
    epoch, value, at_s = best
    reached_s = min(found.seen.process_s, max(0.0, at_s - found.seen.life.began_s))
    return {"best_quality": value, "best_quality_epoch": epoch or None, "best_quality_s": reached_s}


def _observe(found: _Found, variant: Variant, profiler: Backend) -> Observations:
    """Return what was observed of a run; what it used if it is the only process that was started, and no profiler's."""
    seen, marks, judged = found.seen, found.marks, found.judged
    timed = profiler == "none"  # a profiler has processes of its own
    life = seen.life if variant.ranks == 1 and timed else None
    return Observations(
        left_processes=seen.life.left if timed else 0,
        left_cpu_s=seen.life.left_cpu_s if timed else None,
        arrivals=judge_arrivals(marks),
        ranks=variant.gpus if variant.own_ranks else 1,
        rates=marks.rates,
        start_up_s=find_start_up(marks, seen.life.began_s),
        after_s=find_time_after(marks, seen.life.gone_s),
        changed=seen.all_changed[:MOST_CHANGED],
        changed_code=seen.outside.code[:MOST_CHANGED],
        warm_up=variant.warm_up,
        qualities=1 if judged else len(marks.qualities),
        quality=judged.quality if judged else None,
        judging_s=judged.seconds if judged else None,
        judged_by=[shorten_home(str(path)) for path in judged.read][:MOST_CHANGED] if judged else [],
        cpu_s=life.cpu_s if life else None,
        read_bytes=life.read_bytes if life else None,
        storage_bytes=life.storage_bytes if life else None,
        gpus=found.gpus,
        epochs_ended_unix_ns=_list_epoch_ends(marks, variant.reads) if timed else [],
    )


def _counting_gpus(asked: ProgramRun) -> AbstractContextManager[GpuUse | None]:
    if asked.config.measurement.device == "cpu" or asked.variant.ranks > 1 or asked.request.mode != "timed":
        return nullcontext()
    return counting_gpus(asked.variables)


def _list_epoch_ends(marks: Marks, reading: Reading) -> list[int]:
    """Return when each epoch's line or mark came, in nanoseconds since 1970; a file's rows have no moments of their own."""
    if not SOURCES[reading.source].arrives:
        return []
    since_ns = time.time_ns() - time.monotonic_ns()
    return [round(epoch.end_seen_s * NS_PER_S) + since_ns for epoch in marks.epochs if epoch.end_seen_s is not None]


def describe_left(processes: int) -> str:
    return f"it left {processes} of its processes running, which were killed"


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


def follow_program(asked: ProgramRun, rank: int) -> None:
    """Run the program of a rank after the first, whose process torchrun started this is; leave log and ending in `rank<k>/`.

    Raises:
        TrainingError: it did not end well.
    """
    variant, request = asked.variant, asked.request
    own_folder = rank_folder(asked.folder, rank)
    own_folder.mkdir(parents=True, exist_ok=True)
    with working_folder(asked.workload, variant) as place, (own_folder / LOG_FILE).open("ab") as log:
        command, traced = program_command(asked.workload, variant, asked.data, place), _is_traced_within(request)
        epochs = asked.config.epochs_of(request.variant)
        task = Task(
            asked.config, asked.workload, variant, command, request.seed, epochs, traced_by_torch=traced, data=asked.data
        )
        end = watch_program(task, own_folder, place, log.fileno(), asked.environ).end
    outcome, reason = agree_on_ending(asked.folder, variant.ranks, rank, end.outcome, end.reason)
    if outcome != "completed":
        raise TrainingError(f"{asked.folder.name}: {outcome.replace('_', ' ')}: {reason}")


def describe_timeout(why: str, epochs: int) -> str:
    """Return why a run did not end in time, and how the epochs that it finished can be measured."""
    if not epochs:
        return f"{why}; it had finished no epoch"
    return f"{why}; it had finished {format_count(epochs, 'epoch')}: --stop-after {epochs} measures as many"


def _read_progress(seen: Watched, variant: Variant, epochs: int) -> tuple[Watched, RunEnd, Marks]:
    """Return what was seen of the run, how it ended by what it left of its progress, and this."""
    source = SOURCES[variant.reads.source]
    try:
        marks = read_progress(seen.reports, variant.reads)
    except RecordError as error:
        return seen, seen.end if seen.end.timed_out else RunEnd("failed", str(error)), Marks()
    seen, marks = cut_to_limit(seen, marks, variant.stop_after)
    found = len(marks.epochs)
    if seen.end.timed_out:
        return seen, replace(seen.end, reason=describe_timeout(seen.end.reason, found)), marks
    if found == epochs:
        return seen, RunEnd(), marks
    if source.name == "marks" and variant.told_epochs:
        why = f"marked {found} whole epochs of {epochs} (SPEEDPROOF_EPOCHS); see speedproof/marks.py"
    else:
        why = f"{found} epochs by its {source.title}, where {epochs} were expected; all runs of a variant must have as many"
    return seen, RunEnd("failed", why), marks


def _find_best(config: Config, marks: Marks) -> tuple[int, float, float] | None:
    """Return epoch, value and moment of the best quality, the first of equal ones."""
    sign = 1 if config.measurement.quality.better == "higher" else -1
    return max(marks.qualities, key=lambda one: (sign * one[1], -one[2]), default=None)


def _judge(judge: Judge) -> tuple[RunEnd, MeasuredQuality | None]:
    """Return how a run ended by what judges it, and what that found."""
    try:
        return RunEnd(), measure_quality(judge, list_changed_so_far(judge.variant.watched_folders))
    except RecordError as error:
        return RunEnd("failed", str(error)), None
    except StoppedError as error:
        return stopped_by(error), None


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
