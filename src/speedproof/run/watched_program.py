"""A program while it runs: started with its variables, watched from outside, and what was seen of it."""

import os
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from speedproof.cluster.isolation import FAILED_STATUS, isolated_command
from speedproof.config.model import Config, Variant
from speedproof.config.workload import Workload
from speedproof.marks import EPOCHS_VARIABLE, FOLDER_VARIABLE, MARKS_FILE, SEED_VARIABLE, VALIDATE_EVERY_VARIABLE
from speedproof.profilers.flop_hook import FLOP_VARIABLE
from speedproof.profilers.nvtx_library import injecting
from speedproof.profilers.torch_hook import TRACES_VARIABLE
from speedproof.results.run_record import (
    TRACE_FOLDER,
    RunOutcome,
)
from speedproof.run.caches import list_private_folders, overlays_folder, private_place, private_variables
from speedproof.run.command_words import enter_image
from speedproof.run.epoch_reports import Marks, Reports, cut_epochs
from speedproof.run.flop_counts import EAGER, FlopSlice, read_slices
from speedproof.run.known_formats import KNOWN_FILE, PATTERNS, Recognized, recognize_file
from speedproof.run.live_epochs import LiveEpochs
from speedproof.run.marks_pipe import timing_marks
from speedproof.run.outside_watch import Changes, find_changes, list_shared_places, shorten_home
from speedproof.run.printed_output import FoundLines, Relay, relaying
from speedproof.run.program_variables import without_dropped
from speedproof.run.run_limits import RunLimits
from speedproof.run.watched_file import watching_file
from speedproof.run.working_folder import (
    list_entries,
    list_files,
    list_outward_links,
    program_environment,
    providing_marks,
    taking_marks,
)
from speedproof.util.child_processes import Life, StoppedError, raising_when_stopped, run_child
from speedproof.util.environment import LAUNCHED_VARIABLE
from speedproof.util.errors import ConfigError, ProfilingError, RecordError


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
    counting_flop: bool = False  # whether torch counts its FLOP
    data: Path | None = None  # what its workload prepared, which it must see in an image, too
    blind: bool = False  # whether it sees nothing of ours
    hidden: Sequence[str] = ()  # what it does not see though it is there, by real paths, if its variant is isolated
    recognizing: bool = False  # whether its lines are searched for those of known programs
    under_nsys: bool = False  # whether its command begins with the words of nsys
    stop_after: int = 0  # epochs, after which it is ended; 0: it ends by itself
    stop_after_s: float | None = None  # seconds


@dataclass(frozen=True)
class RunEnd:
    """How a run ended: why, in one line; the stop signal, if one ended it; the exit status, if only that explains a failure."""

    outcome: RunOutcome = "completed"
    reason: str = ""
    signal: str | None = None
    status: int | None = None
    timed_out: bool = False

    @property
    def completed(self) -> bool:
        return self.outcome == "completed"


def stopped_by(error: StoppedError) -> RunEnd:
    return RunEnd("stopped", f"received {error}", str(error))


@dataclass
class Watched:
    """What was seen of a program while it ran."""

    end: RunEnd
    life: Life  # its moments, and what it used
    reports: Reports
    changed: list[str] = field(default_factory=list)  # what it changed of what is linked into its working folder
    cut: int = 0  # lines that were read in part, since they were too long
    outside: Changes = field(default_factory=Changes)  # what it changed elsewhere
    created: dict[str, str] = field(default_factory=dict)  # what it created where later runs see it, and its real path
    known_file: Recognized | None = None  # that it wrote, if its progress is searched for
    stopped_s: float | None = None  # when it was ended, if it was, by the machine's monotonic clock
    flop: Sequence[FlopSlice] = ()  # what it computed, if that was counted

    @property
    def process_s(self) -> float:
        """Return how long the program ran, with its children that ended by themselves soon after it."""
        return self.life.gone_s - self.life.began_s

    @property
    def all_changed(self) -> list[str]:
        return [*self.changed, *self.outside.files]


def cut_to_limit(seen: Watched, marks: Marks, epochs: int | None = None) -> tuple[Watched, Marks]:
    """Return what was seen of a program, and its first `epochs`, as if it had ended with the last of these; as it is if it did.

    None stands for all epochs that ended before the program was ended.
    """
    if seen.stopped_s is None:
        return seen, marks
    marks = cut_epochs(marks, epochs, seen.stopped_s)
    ended_s = marks.epochs[-1].end_seen_s if marks.epochs else None
    if ended_s is None:
        return seen, marks
    return replace(seen, life=replace(seen.life, ended_s=ended_s, gone_s=ended_s)), marks


def watch_program(task: Task, folder: Path, place: Path, output: int, environ: Mapping[str, str]) -> Watched:
    """Run a program in `place`, its marks into `folder`, and return what was seen of it.

    A variant with a place of its own runs there, and `place` is what `{run}` names. What it prints goes to the file `output`;
    it sees what is in `environ`. If its NVTX ranges are taken, NVTX loads our library into it; if torch's profiler records in
    it, the trace goes to `folder`, too.

    Raises :class:`ConfigError` where they cannot be taken.
    """
    variant = task.variant
    stands = place if variant.place is None else Path(variant.place)
    before = list_watched(variant, stands, task.workload)
    seen = without_dropped(variant, environ)
    if "PWD" in seen:  # as a shell has it where it starts a program: the caller's leads out of the run's folder
        seen["PWD"] = str(stands)
    outside = {**os.environ, **environ, **variant.environment}
    provided = nullcontext(folder) if task.blind else providing_marks(task.traced_by_torch, task.counting_flop)
    with provided as modules, taking_marks(folder) as reported, injecting(_list_ranges(task), outside) as injected:
        private = private_variables(variant, place, environ)
        environment = {**_list_environment(task, seen, modules, reported), **private, **injected.variables}
        launched_ns = time.time_ns()
        with (
            timing_marks(reported / MARKS_FILE) as arrivals,
            watching_file(place, KNOWN_FILE.file if task.recognizing else variant.reads.file) as file,
            relaying(output, variant.terminal or bool(variant.reads.patterns), folder, task.stop_after > 0) as relay,
        ):
            command = _enclose(task, stands, place, [] if task.blind else [reported, modules])
            live = LiveEpochs(variant.reads, task.stop_after, place, relay.printed, arrivals, file, task.recognizing)
            limits = RunLimits(
                *(task.config.measurement.timeout_s, task.stop_after_s, live.are_enough if task.stop_after else None),
                spared="nsys" if task.under_nsys else "",
            )
            end, life = _run_in(task, command, environment, relay.output, reported / MARKS_FILE, limits)
        ranges = injected.read()
        flop = read_slices(modules) if task.counting_flop else []
        if task.traced_by_torch and end.completed:
            end = _take_trace(modules, folder)
    found, unsearched = _search_printed(relay, task, life.ended_s, limits.ended_s)
    if unsearched and end.completed:
        end = RunEnd("failed", unsearched)
    after = list_watched(variant, stands, task.workload)
    watched = variant.caches is not None and not variant.isolated
    own_places = [*list_own_places(task.workload), folder, place]
    outward = (
        find_changes(variant.watched_folders, launched_ns, own_places, packages=variant.package_folders)
        if watched
        else Changes()
    )
    created = {name: os.path.realpath(stands / name) for name in after.keys() - before.keys() if variant.place is None}
    return Watched(
        end,
        life,
        Reports(folder, place, found.lines, ranges, arrivals, file),
        changed=sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name)),
        cut=found.cut,
        outside=outward,
        created=created | {shorten_home(path): path for path in outward.created},
        stopped_s=limits.ended_s,
        known_file=recognize_file(place, file, stopped=limits.ended_s is not None) if task.recognizing else None,
        flop=flop,
    )


def _list_ranges(task: Task) -> list[str]:
    """Return the names of NVTX ranges that are taken of a program."""
    if not task.taking_ranges:
        return []
    if task.variant.image is not None:
        raise ConfigError(
            f"{task.variant.title}: NVTX ranges cannot be recorded inside an image; read epochs from marks, lines or a file"
        )
    return [task.variant.reads.epoch_range] if task.variant.reads.epoch_range else []


def _enclose(task: Task, stands: Path, place: Path, ours: Sequence[Path]) -> list[str]:
    """Return the words that run a program where it `stands`: in its image, and isolated, as its variant says."""
    folders = [*ours, place, *list_private_folders(task.variant, place)]
    shown = [*folders, *_list_modules(task), *_list_data(task)]
    entered = enter_image(task.config, task.variant, stands, shown)
    return _isolate(task, ["env", f"--chdir={stands}", *entered, *task.command], place, [*folders, stands])


def list_own_places(workload: Workload) -> list[Path]:
    """Return where we write ourselves while a proof goes on: its folder, and its runs' private folders."""
    return [workload.folder.parent, private_place(workload)]


def _isolate(task: Task, command: list[str], place: Path, kept: Sequence[Path]) -> list[str]:
    """Return the words that run a command and drop what it writes elsewhere than to `kept`."""
    variant = task.variant
    if not variant.isolated:
        return command
    overlaid = list_overlaid(variant, task.hidden)
    return isolated_command(command, overlays_folder(variant, place), overlaid, kept, task.hidden)


def list_overlaid(variant: Variant, hidden: Iterable[str]) -> list[str]:
    """Return the folders in which an isolated run changes nothing, so that paths in them can be hidden from it."""
    shared = [*list_shared_places(variant.watched_folders, os.environ), *variant.linked.values()]
    return [*shared, *(os.path.dirname(path) for path in hidden)]  # noqa: PTH120 (as text)


def _take_trace(exports: Path, folder: Path) -> RunEnd:
    """Convert what torch's profiler exported to `exports`, into a run's folder; return how that ended."""
    from speedproof.profilers.kineto import convert_largest  # a timed run has no use for what that loads

    try:
        convert_largest(exports, folder / TRACE_FOLDER)
    except ProfilingError as error:
        return RunEnd("failed", str(error))
    return RunEnd()


def list_watched(variant: Variant, stands: Path, workload: Workload) -> dict[str, tuple[int, int]]:
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
        **({FLOP_VARIABLE: str(modules), **EAGER} if task.counting_flop else {}),
    }


def _list_modules(task: Task) -> list[Path]:
    """Return the folders whose modules a program may import; that of a proof, whose programs are the user's, holds none."""
    return [] if task.variant.inherit_environment else task.workload.own_folders


def _search_printed(relay: Relay, task: Task, ended_s: float, stopped_s: float | None) -> tuple[FoundLines, str]:
    """Return the printed lines that are read, until the program was stopped if it was, and in one line why they cannot be."""
    try:
        known = PATTERNS if task.recognizing else ()
        if not (task.variant.reads.patterns or known):
            return FoundLines([], 0), ""
        found = relay.printed.search(task.variant.reads, ended_s, known) if relay.printed else FoundLines([], 0)
    except RecordError as error:
        return FoundLines([], 0), str(error) if task.variant.reads.patterns else ""
    if stopped_s is not None:  # its answer, such as a traceback with its source, does not count
        found = replace(found, lines=[line for line in found.lines if line.at_s <= stopped_s])
    return found, ""


def _run_in(
    task: Task, command: list[str], environment: dict[str, str], output: int, pipe: Path, limits: RunLimits
) -> tuple[RunEnd, Life]:
    """Run the program, and return how it ended, and its life, which a limit may end; `pipe` goes with us."""
    lives, launched_s = list[Life](), time.monotonic()
    launched = "" if task.blind else LAUNCHED_VARIABLE
    try:
        with raising_when_stopped():
            status = run_child(command, output, environment, launched, lives=lives, pipe=pipe, wait=limits.wait)
        end = _explain_status(task, status)
    except RecordError as error:  # epochs that are counted while it runs cannot be
        end = RunEnd("failed", str(error))
    except StoppedError as error:
        end = stopped_by(error)
    if limits.reason == "enough" and end.outcome != "stopped":
        end = RunEnd()
    elif limits.reason == "timeout" and end.outcome != "stopped":
        end = RunEnd(
            "failed", f"did not end within {limits.timeout_s} s (measurement.timeout_s), and was ended", timed_out=True
        )
    ended_s = time.monotonic()
    life = lives[0] if lives else Life(launched_s, ended_s, 0, ended_s)
    if limits.ended_s is None:
        return end, life
    # What comes after the limit is the program's answer to it.
    return end, replace(life, ended_s=limits.ended_s, gone_s=limits.ended_s, left=0, left_cpu_s=0.0)


def _explain_status(task: Task, status: int) -> RunEnd:
    if status == 0:
        return RunEnd()
    program = task.command[0]
    if status == -signal.SIGKILL:
        why = "killed (SIGKILL), as the system does when memory runs out"
    elif status < 0:
        why = f"ended by {signal.Signals(-status).name}"
    elif status == FAILED_STATUS and task.variant.isolated:
        why = "--isolate: an overlay cannot be mounted over your HOME, /tmp or packages (its log says why); leave it out"
    elif status == 127:
        why = f"{program}: no such program; correct the variant's `command`"
    elif status == 126:
        why = f"{program}: cannot be executed; allow it (chmod +x), or name what runs it in the variant's `command`"
    else:
        return RunEnd("failed", f"exit status {status}", status=status)
    return RunEnd("failed", why)
