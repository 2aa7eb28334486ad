"""One run of a program that knows nothing of speedproof: started, watched from outside, and its record written."""

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from speedproof.cluster.gpu_users import GpuUse, counting_gpus
from speedproof.cluster.isolation import FAILED_STATUS, isolated_command
from speedproof.config.model import Config, Variant
from speedproof.config.reading import Reading
from speedproof.config.workload import Workload
from speedproof.marks import EPOCHS_VARIABLE, FOLDER_VARIABLE, MARKS_FILE, SEED_VARIABLE, VALIDATE_EVERY_VARIABLE
from speedproof.profilers.nvtx_library import RangeCost, injecting, measure_cost
from speedproof.profilers.nvtx_ranges_file import ProcessRanges
from speedproof.profilers.torch_hook import TRACES_VARIABLE
from speedproof.results.files import write_json
from speedproof.results.observations import MOST_CHANGED, Observations
from speedproof.results.ranks import rank_folder
from speedproof.results.run_record import (
    LOG_FILE,
    OBSERVED,
    RUN_FILE,
    TITLE,
    TRACE_FOLDER,
    Backend,
    Conditions,
    Mode,
    ObservedRanges,
    Run,
    RunOutcome,
    write_epochs,
)
from speedproof.run.arrivals import find_start_up, find_time_after, judge_arrivals, list_observed
from speedproof.run.command_words import enter_image, program_command
from speedproof.run.marks_pipe import timing_marks
from speedproof.run.outside_watch import Changes, find_changes, list_shared_places
from speedproof.run.printed_output import FoundLines
from speedproof.run.printed_times import find_resolution
from speedproof.run.private_folders import list_private_folders, overlays_folder, private_place, private_variables
from speedproof.run.program_ranks import agree_on_ending
from speedproof.run.program_variables import without_dropped
from speedproof.run.pseudo_terminal import Relay, relaying
from speedproof.run.quality_command import Judge, find_judge, measure_quality
from speedproof.run.read_lines import LONGEST_LINE
from speedproof.run.read_marks import Marks
from speedproof.run.read_progress import Reports, read_progress
from speedproof.run.watched_file import watching_file
from speedproof.run.working_folder import (
    list_entries,
    list_files,
    list_outward_links,
    program_environment,
    providing_marks,
    taking_marks,
    working_folder,
)
from speedproof.util.child_processes import Life, run_child
from speedproof.util.environment import LAUNCHED_VARIABLE
from speedproof.util.errors import ConfigError, ProfilingError, RecordError, TrainingError
from speedproof.util.numbers import format_count
from speedproof.util.secrets import scrub_secrets
from speedproof.util.signals import StoppedError, raising_when_stopped
from speedproof.util.units import NS_PER_S

RECEIVED = "received "  # in the record of a run that a signal stopped, before its name


@dataclass(frozen=True)
class Request:
    """Which run this is."""

    variant: str
    mode: Mode
    round: int
    seed: int
    profiler: Backend


@dataclass(frozen=True)
class Task:
    """A variant's program as it is run once: its command and seed, and of how many epochs it is asked, with 0 of no number."""

    config: Config
    workload: Workload
    variant: Variant
    command: list[str]
    seed: int
    epochs: int = 0
    taking_ranges: bool = False  # whether its NVTX ranges are taken that are epochs
    traced_by_torch: bool = False  # whether torch's profiler records in it
    data: Path | None = None  # what its workload prepared, which it must see in an image, too
    blind: bool = False  # whether it sees nothing of ours


@dataclass
class Watched:
    """What was seen of a program while it ran. Moments are seconds of the machine's monotonic clock."""

    outcome: RunOutcome
    reason: str
    launched_s: float
    ended_s: float
    reports: Reports = field(default_factory=Reports)
    changed: list[str] = field(default_factory=list)  # what it changed of what is linked into its working folder
    left: int = 0  # processes of it that still ran when it had ended, and were ended
    gone_s: float = 0.0  # when its last process had ended
    cut: int = 0  # lines that were read in part, since they were too long
    life: Life | None = None  # what it used
    outside: Changes = field(default_factory=Changes)  # what it changed elsewhere

    @property
    def all_changed(self) -> list[str]:
        """Return the files that it changed where later runs see them."""
        return [*self.changed, *self.outside.files]


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
    started, marks, quality = _now(), Marks(), None
    with working_folder(workload, variant) as place:
        command = program_command(workload, variant, data, place)
        taking = variant.reads.source == "ranges" and request.profiler == "none"
        cost = measure_cost({**os.environ, **environ, **variant.environment}) if taking and variant.image is None else None
        task = Task(
            config,
            workload,
            variant,
            command,
            request.seed,
            epochs if variant.told_epochs else 0,
            taking_ranges=taking,
            traced_by_torch=request.profiler == "kineto",
            data=data,
            blind=variant.blind and request.mode == "timed",
        )
        judge = find_judge(config, workload, variant, place, request.seed, environ) if request.mode == "timed" else None
        with _counting_gpus(config, variant, request.mode, environ) as use:
            seen = watch_program(task, folder, place, output, environ)
        outcome, reason = seen.outcome, seen.reason
        epochs = config.reported_epochs_of(request.variant, request.profiler)
        if outcome == "completed" and (taking or variant.reads.source != "ranges"):
            outcome, reason, marks = _read_progress(folder, place, seen, variant, epochs)
        if outcome == "completed" and judge is not None:
            outcome, reason, quality = _judge(judge)
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
        traced=config.profiling.traced if request.profiler == "nsys" else [],
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
        best_quality=best[1] if best else quality,
        best_quality_epoch=(best[0] or None) if best else None,
        best_quality_s=min(process_s, max(0.0, best[2] - seen.launched_s)) if best else None,
        outcome=outcome,
        reason=reason,
        observed=_observe(seen, marks, variant, request.profiler, quality, use.gpus if use else None),
        observed_ranges=None if cost is None else _describe_observed(seen.reports.ranges, cost),
    )
    _write_epochs(folder, marks, run.observed is not None and run.observed.arrivals == "seen", variant.evaluation is not None)
    write_json(folder / RUN_FILE, run)
    return run


def _observe(
    seen: Watched, marks: Marks, variant: Variant, profiler: Backend, quality: float | None, gpus: int | None
) -> Observations:
    """Return what was observed of a run; what it used if it is the only process that was started, and no profiler's."""
    life = seen.life if variant.ranks == 1 and profiler == "none" else None
    return Observations(
        left_processes=seen.left if profiler == "none" else 0,  # nsys has helpers of its own
        arrivals=judge_arrivals(marks, seen.reports, variant.reads),
        rates=marks.rates,
        start_up_s=find_start_up(marks, seen.launched_s),
        after_s=find_time_after(marks, seen.gone_s),
        changed=seen.all_changed[:MOST_CHANGED],
        changed_code=seen.outside.code[:MOST_CHANGED],
        warm_up=variant.warm_up,
        quality=quality,
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
    if reading.source not in ("lines", "marks"):
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
        command, traced = program_command(workload, variant, data, place), request.profiler == "kineto"
        task = Task(config, workload, variant, command, request.seed, epochs, traced_by_torch=traced, data=data)
        seen = watch_program(task, own_folder, place, log.fileno(), environ)
    outcome, reason = agree_on_ending(folder, variant.ranks, rank, seen.outcome, seen.reason)
    if outcome != "completed":
        raise TrainingError(f"{folder.name}: {outcome.replace('_', ' ')}: {reason}")


def watch_program(task: Task, folder: Path, place: Path, output: int, environ: Mapping[str, str]) -> Watched:
    """Run a program in `place`, its marks into `folder`, and return what was seen of it.

    A variant with a place of its own runs there, and `place` is what `{run}` names. What it prints goes to the file `output`;
    it sees what is in `environ`. If its NVTX ranges are taken, NVTX loads our library into it; if torch's profiler records in
    it, the trace goes to `folder`, too.

    Raises :class:`ConfigError` where they cannot be taken.
    """
    config, workload, variant = task.config, task.workload, task.variant
    stands = place if variant.place is None else Path(variant.place)
    before = _list_watched(variant, stands, workload)
    if task.taking_ranges and variant.image is not None:
        raise ConfigError(
            f"{variant.title}: NVTX ranges are not taken inside an image; read its epochs of marks, lines or a file"
        )
    names = [variant.reads.epoch_range] if task.taking_ranges and variant.reads.epoch_range else []
    outside = {**os.environ, **environ, **variant.environment}
    seen = without_dropped(variant, environ)
    if "PWD" in seen:  # as a shell has it where it starts a program: the caller's leads out of the run's folder
        seen["PWD"] = str(stands)
    provided = nullcontext(folder) if task.blind else providing_marks(task.traced_by_torch)
    with provided as modules, taking_marks(folder) as reported, injecting(names, outside) as injected:
        private = private_variables(variant, place, environ)
        environment = {**_list_environment(task, seen, modules, reported), **private, **injected.variables}
        launched_s, launched_ns = time.monotonic(), time.time_ns()
        with (
            timing_marks(reported / MARKS_FILE) as arrivals,
            watching_file(place, variant.reads.file) as file,
            relaying(output, bool(variant.reads.patterns), folder) as relay,
        ):
            ours = [] if task.blind else [reported, modules]
            folders = [*ours, place, *list_private_folders(variant, place)]
            shown = [*folders, *_list_modules(task), *_list_data(task)]
            entered = enter_image(config, variant, stands, shown)
            moved = _isolate(["env", f"--chdir={stands}", *entered, *task.command], variant, place, [*folders, stands])
            lives: list[Life] = []
            outcome, reason = _run_in(task, moved, environment, relay.output, lives, reported / MARKS_FILE)
            ended_s = time.monotonic()
            life = lives[0] if lives else Life(launched_s, ended_s, 0, ended_s)
        ranges = injected.read()
        if task.traced_by_torch and outcome == "completed":
            outcome, reason = _take_trace(modules, folder)
    found, unsearched = _search_printed(relay, variant.reads, life.ended_s)
    if unsearched and outcome == "completed":
        outcome, reason = "failed", unsearched
    after = _list_watched(variant, stands, workload)
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    reports = Reports(found.lines, ranges, arrivals, file)
    own_places = [*list_own_places(workload), folder, place]
    watched = variant.caches is not None and not variant.isolated
    outward = find_changes(variant.package_folders, launched_ns, own_places) if watched else Changes()
    return Watched(
        outcome, reason, life.began_s, life.ended_s, reports, changed, life.left, life.gone_s, found.cut, life, outward
    )


def list_own_places(workload: Workload) -> list[Path]:
    """Return where we write ourselves while a proof goes on: its folder, and its runs' private folders."""
    return [workload.folder.parent, private_place(workload)]


def _isolate(command: list[str], variant: Variant, place: Path, kept: Sequence[Path]) -> list[str]:
    """Return the words that run a command and drop what it writes elsewhere than to `kept`."""
    if not variant.isolated:
        return command
    shared = [*list_shared_places(variant.package_folders, os.environ), *variant.linked.values()]
    return isolated_command(command, overlays_folder(place), shared, kept)


def _take_trace(exports: Path, folder: Path) -> tuple[RunOutcome, str]:
    """Convert what torch's profiler exported to `exports`, into a run's folder; return how that ended and, in one line, why."""
    from speedproof.profilers.kineto import convert_largest  # a timed run has no use for what that loads

    try:
        convert_largest(exports, folder / TRACE_FOLDER)
    except ProfilingError as error:
        return "failed", str(error)
    return "completed", ""


def _list_watched(variant: Variant, stands: Path, workload: Workload) -> dict[str, tuple[int, int]]:
    """Return the state of each file that a later run would see as this one leaves it."""
    return list_files(stands, list_outward_links(stands) if variant.place is None else list_entries(stands, workload.folder))


def _list_data(task: Task) -> list[Path]:
    """Return where a variant in an image finds its data: their folder, and what links lead to out of it."""
    if task.data is None or task.variant.image is None:
        return []
    data = task.data.resolve()
    return [data, *((data / link).resolve() for link in list_outward_links(data))]


def _list_environment(task: Task, seen: Mapping[str, str], modules: Path, reported: Path) -> dict[str, str]:
    """Return all variables of a program: what it has `seen`, and ours unless it is blind.

    It imports the module of its marks from the folder `modules`, and they go to `reported`.
    """
    given, libraries = task.variant.environment, _list_modules(task)
    hidden = [] if libraries else task.workload.own_folders
    if task.blind:
        return {**program_environment(seen, [], hidden), **given}
    return {
        **program_environment(seen, [modules, *libraries], hidden),
        **given,
        FOLDER_VARIABLE: str(reported),
        SEED_VARIABLE: str(task.seed),
        VALIDATE_EVERY_VARIABLE: str(task.config.measurement.validate_every or task.variant.validate_every),
        **({EPOCHS_VARIABLE: str(task.epochs)} if task.epochs else {}),
        **({TRACES_VARIABLE: str(modules)} if task.traced_by_torch else {}),
    }


def _list_modules(task: Task) -> list[Path]:
    """Return the folders whose modules a program may import; that of a proof, whose programs are the user's, holds none."""
    return [] if task.variant.inherit_environment else task.workload.own_folders


def _search_printed(relay: Relay, reading: Reading, ended_s: float) -> tuple[FoundLines, str]:
    """Return the printed lines that are read, and in one line why they cannot be."""
    try:
        return (relay.printed.search(reading, ended_s) if relay.printed else FoundLines([], 0)), ""
    except RecordError as error:
        return FoundLines([], 0), str(error)


def _run_in(
    task: Task, command: list[str], environment: dict[str, str], output: int, lives: list[Life], pipe: Path
) -> tuple[RunOutcome, str]:
    """Run the program, and return how it ended and, in one line, why; to `lives` its own is added, and `pipe` goes with us."""
    program, limit_s = command[command.index("env") + 2], task.config.measurement.timeout_s
    launched = "" if task.blind else LAUNCHED_VARIABLE
    try:
        with raising_when_stopped():
            status = run_child(command, output, environment, launched, limit_s=limit_s, lives=lives, pipe=pipe)
    except subprocess.TimeoutExpired:
        return "failed", f"did not end within {limit_s} s (measurement.timeout_s), and was killed"
    except StoppedError as error:
        return "stopped", f"{RECEIVED}{error}"
    if status == -signal.SIGKILL:
        return "failed", "killed (SIGKILL), as the system does when memory runs out"
    if status < 0:
        return "failed", f"ended by {signal.Signals(-status).name}"
    if status == FAILED_STATUS and task.variant.isolated:
        return (
            "failed",
            "--isolate: an overlay cannot be mounted over your HOME, /tmp or packages (its log says why); leave it out",
        )
    if status == 127:
        return "failed", f"{program}: no such program; correct the variant's `command`"
    if status == 126:
        return "failed", f"{program}: cannot be executed; allow it (chmod +x), or name what runs it in the variant's `command`"
    return ("completed", "") if status == 0 else ("failed", f"exit status {status}")


def _read_progress(folder: Path, place: Path, seen: Watched, variant: Variant, epochs: int) -> tuple[RunOutcome, str, Marks]:
    """Return how the run ended by what it left of its progress, and this."""
    reading = variant.reads
    try:
        marks = read_progress(folder, place, seen.reports, reading)
    except RecordError as error:
        return "failed", str(error), Marks()
    found = len(marks.epochs)
    if found == epochs:
        return "completed", "", marks
    if reading.source == "marks" and variant.told_epochs:
        why = f"marked {found} whole epochs of {epochs} (SPEEDPROOF_EPOCHS); see speedproof/marks.py"
    else:
        why = f"{found} epochs by its {reading.source}, where {epochs} were expected; all runs of a variant must have as many"
    return "failed", why, marks


def _find_best(config: Config, marks: Marks) -> tuple[int, float, float] | None:
    """Return epoch, value and moment of the best quality, the first of equal ones."""
    sign = 1 if config.measurement.quality.better == "higher" else -1
    return max(marks.qualities, key=lambda one: (sign * one[1], -one[2]), default=None)


def _judge(judge: Judge) -> tuple[RunOutcome, str, float | None]:
    """Return how a run ended by what judges it, in one line why, and its quality."""
    try:
        return "completed", "", measure_quality(judge)
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
