"""The discarded first run of each variant: whether it works, how long it takes, and which source has its epochs."""

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from secrets import randbelow
from statistics import fmean, median

from pydantic import BaseModel, ConfigDict

from speedproof.cluster.isolation import explain_no_isolation, require_isolation
from speedproof.config.model import Config, Variant
from speedproof.config.reading import Reading
from speedproof.config.workload import Workload
from speedproof.marks import MARKS_FILE
from speedproof.results.observations import MOST_CHANGED, Arrivals, CountedFlop, RunWithout, WarmUpObserved
from speedproof.run.arrivals import judge_arrivals
from speedproof.run.caches import compile_cache, is_private, keep_caches
from speedproof.run.command_words import program_command
from speedproof.run.epoch_reports import Marks
from speedproof.run.noted_reads import noting_reads
from speedproof.run.outside_watch import FIRST_WALK_S, find_changes, is_others, note_others, shorten_home
from speedproof.run.process import last_words, list_allowed
from speedproof.run.program import describe_cut, describe_left, describe_timeout
from speedproof.run.proof.flop_warm_up import FlopWarmUp, describe_counted
from speedproof.run.proof.hidden_variables import name_hidden, name_missing
from speedproof.run.proof.left_files import (
    HiddenFiles,
    LinkedFiles,
    RunsWithout,
    WarmUpFiles,
    find_left_files,
    list_briefly,
    list_changed_before,
    read_access,
)
from speedproof.run.proof.parent_folders import describe_beside, describe_followed, explain_missing, list_beside
from speedproof.run.proof.plausible_times import check_plausible, note_zero
from speedproof.run.proof.profiled_warm_up import try_profiler
from speedproof.run.proof.recognition import choose_reading, needs_recognizing, read_recognized
from speedproof.run.proof.request import ProofRequest
from speedproof.run.proof.stop_after import StopAfter, WarmUpLimit
from speedproof.run.proof.variant_labels import call_variants
from speedproof.run.quality_command import Judge, find_judge, measure_quality
from speedproof.run.read_marks import read_marks
from speedproof.run.read_progress import read_progress
from speedproof.run.resumed import count_steps
from speedproof.run.run_experiment import list_variables
from speedproof.run.tampering import Manifest
from speedproof.run.watched_program import Task, Watched, cut_to_limit, list_own_places, watch_program
from speedproof.run.working_folder import list_fixed, working_folder
from speedproof.util.child_processes import StoppedError
from speedproof.util.errors import RecordError, TrainingError
from speedproof.util.numbers import format_value
from speedproof.util.temporary_folder import removable_folder

# In a proof's folder: what is asked, for a warm-up by the workflow, and what that found.
REQUEST_FILE, WARMED_UP = "request.json", Path("results/warm-up.json")
Begin = Callable[[str | Callable[[float], str]], None]  # takes what begins: a text, or one made from its seconds so far
_LONGER = 1.1  # than its warm-up is a run that is repeated: no check finds fault with less


class WarmUp(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    reading: Reading
    epochs: dict[str, int]  # of each variant
    units: dict[str, list[str]]  # in which each variant prints its epochs' times, if it does
    arrivals: dict[str, Arrivals]  # whether our clock sees each variant's epochs end, and if not, why
    process_s: dict[str, float]
    notes: dict[str, str]  # of variants of which more is to be said
    copy_s: float  # to make a run's working folder
    observed: dict[str, WarmUpObserved]  # of each variant
    qualities: dict[str, float | None]  # the last one that each variant reports, or that its judge measured; None: none
    unwatched: list[str]  # folders that are too large to be watched whole for what runs change
    stop_after: int | None = None  # epochs, after which each run is ended
    recognized: str | None = None  # whose lines are read, if no source was named


@dataclass(frozen=True)
class _Setting:
    config: Config
    workload: Workload
    request: ProofRequest
    folder: Path  # for what programs print
    stop: StopAfter  # when they are ended

    @property
    def called(self) -> dict[str, str]:
        """Return what each variant is called."""
        return call_variants(self.request)


@dataclass(frozen=True)
class _Tried:
    seen: Watched
    marked: bool
    copy_s: float
    marks: Marks
    arrivals: Arrivals
    notes: list[str]  # of it more is to be said
    observed: WarmUpObserved
    files: WarmUpFiles
    quality: float | None


def warm_up(out: Path, config: Config, workload: Workload, request: ProofRequest, begin: Begin = lambda _: None) -> WarmUp:
    """Run each variant once, its output into `out`/warm-up, and choose one source for all; `begin` receives what begins.

    If timed runs are blind, each runs again: the first run may find cold caches, so it does not compare with them.

    Raises:
        TrainingError: a program failed, did not leave its declared files, or its trace is unusable.
    """
    if request.isolate:
        require_isolation()
    setting = _Setting(config, workload, request, out / "warm-up", request.stop)
    for variant in config.completed_variants.values():
        if variant.kept_caches is not None:  # of an earlier warm-up
            shutil.rmtree(variant.kept_caches, ignore_errors=True)
    unwatched = _walk_first(config, workload)
    manifest = Manifest(list_fixed(workload, config.completed_variants.values()))
    tried = _try_all(setting, manifest, begin)
    reading, recognized = choose_reading(request, {name: (one.seen, one.marked) for name, one in tried.items()})
    if recognized:
        read = {name: read_recognized(one.seen, reading) for name, one in tried.items()}
        tried = {name: _take(one, read[name], request.stop.epochs) for name, one in tried.items()}
    if any(one.seen.stopped_s for one in tried.values()):
        count = _count_common(setting, reading, tried)
        setting = replace(setting, stop=StopAfter(epochs=count))
        tried = {name: _take(one, one.marks, count) for name, one in tried.items()}
    without = _run_without_left(setting, reading, tried, begin)
    manifest.check("in another run without what warm-ups left")
    watched_s = {}
    for name in tried if request.blind else []:
        begin(f"warm-up: running {setting.called[name]} again, watched")
        watched_s[name] = _try_variant(setting, name).observed.process_s
    for name in tried if request.profiled else []:
        begin(f"warm-up: profiling {setting.called[name]}")
        try_profiler(config, workload, name, setting.folder, setting.stop.epochs or 0, needs_recognizing(request))
    counting = FlopWarmUp(config, workload, request, reading, setting.folder, setting.stop.epochs or 0)
    flop = {name: counting.count(name, begin) for name in tried if request.flops}
    found = _summarize(setting, reading, tried, without, watched_s, flop)
    return found.model_copy(update={"unwatched": unwatched, "recognized": recognized})


def _summarize(
    setting: _Setting,
    reading: Reading,
    tried: Mapping[str, _Tried],
    without: Mapping[str, RunsWithout],
    watched_s: Mapping[str, float],
    flop: Mapping[str, CountedFlop],
) -> WarmUp:
    """Return what all runs found; `watched_s` holds the seconds of the repeated runs, if timed runs are blind."""
    variants = setting.config.completed_variants
    notes = {
        name: [*one.notes, *name_missing(variants[name]), *without[name].notes, *describe_counted(flop.get(name))]
        for name, one in tried.items()
    }
    return WarmUp(
        reading=reading,
        epochs={name: len(one.marks.epochs) if reading.source != "process" else 0 for name, one in tried.items()},
        units={name: [] if one.marks.rates else sorted({time.unit for time in one.marks.times}) for name, one in tried.items()},
        arrivals={name: one.arrivals for name, one in tried.items()},
        process_s={name: one.observed.process_s for name, one in tried.items()},
        notes={name: "; ".join(own) for name, own in notes.items() if own},
        copy_s=max(one.copy_s for one in tried.values()),
        observed={
            name: _name_kept(one.observed).model_copy(
                update={"watched_s": watched_s.get(name), "flop": flop.get(name), **without[name].as_observed()}
            )
            for name, one in tried.items()
        },
        qualities={name: one.quality for name, one in tried.items()},
        unwatched=[],
        stop_after=setting.stop.epochs if any(one.seen.stopped_s for one in tried.values()) else None,
    )


def _count_common(setting: _Setting, reading: Reading, tried: Mapping[str, _Tried]) -> int:
    """Return how many epochs all variants finished before they were ended.

    Raises:
        TrainingError: one finished none, or reports none.
    """
    counts = {name: len(one.marks.epochs) if reading.source != "process" else 0 for name, one in tried.items()}
    least = min(counts, key=lambda name: counts[name])
    if counts[least] == 0:
        title = setting.config.completed_variants[least].title
        hint = "name where its epochs are read (--epoch-s, --epoch, --rate, --file), or mark them"
        if reading.source != "process":
            hint = "allow more time"
        raise TrainingError(
            f"{title}: finished no epoch that is read before --stop-after {setting.request.stop_after}; {hint}; full output: "
            f"{setting.folder / f'{least}.txt'}"
        )
    return counts[least]


def _take(tried: _Tried, marks: Marks, epochs: int | None) -> _Tried:
    """Return what was found of a warm-up if `marks` are read of it, and as if it had ended with its first `epochs`."""
    seen, marks = cut_to_limit(tried.seen, marks, epochs)
    kept = {name: getattr(tried.observed, name) for name in ("began_unix_ns", "steps")}
    fresh = _observe(tried.observed.changed, seen, marks, tried.observed.kept_caches).model_copy(update=kept)
    quality = marks.last_quality if marks.qualities else tried.quality
    return replace(tried, seen=seen, marks=marks, arrivals=judge_arrivals(marks), observed=fresh, quality=quality)


def _try_all(setting: _Setting, manifest: Manifest, begin: Begin) -> dict[str, _Tried]:
    """Run each variant once, and check after each that nothing fixed was changed; the caches that it left are from then on."""
    names, variants, request = setting.config.measurement.variants, setting.config.completed_variants, setting.request
    limit = WarmUpLimit(
        None if setting.stop else request.budget, len(names) + request.control, request.named_reading() is not None
    )
    tried: dict[str, _Tried] = {}
    # The first variant last: what it leaves for others, they do not find in their warm-ups.
    for name in reversed(names):
        begin(partial(limit.describe, setting.called[name], [one.observed.process_s for one in tried.values()]))
        tried[name] = _try_variant(setting, name, [one.files for one in tried.values()])
        if (kept := variants[name].kept_caches) is not None:
            manifest.add(Path(kept))
        manifest.check(f"in the warm-up of {variants[name].title}")
    return {name: tried[name] for name in names}


def _name_kept(observed: WarmUpObserved) -> WarmUpObserved:
    """Leave out the changed files that are another program's: gone by now, or seen to be its since."""
    kept = [name for name in observed.changed if not name.startswith(("/", "~")) or Path(name).expanduser().exists()]
    return observed.model_copy(update={"changed": [name for name in kept if not is_others(name)][:MOST_CHANGED]})


def _walk_first(config: Config, workload: Workload) -> list[str]:
    """Get to know the folders that runs may change; return those that are too large to be watched whole."""
    folders = {tuple(variant.watched_folders) for variant in config.completed_variants.values()}
    now_ns = time.time_ns()
    walks = [find_changes(one, now_ns, list_own_places(workload), FIRST_WALK_S) for one in folders]
    return sorted({name for walk in walks for name in walk.unwatched})


def _try_variant(setting: _Setting, name: str, before: Sequence[WarmUpFiles] = ()) -> _Tried:
    workload, request = setting.workload, setting.request
    setting.folder.mkdir(parents=True, exist_ok=True)
    log_file, variant = setting.folder / f"{name}.txt", setting.config.completed_variants[name]
    begun_s = time.monotonic()
    with removable_folder() as run, working_folder(workload, variant) as place:
        copy_s, begun_ns = time.monotonic() - begun_s, time.time_ns()
        linked = LinkedFiles(variant, place if variant.place is None else Path(variant.place), workload)
        with noting_reads(map(Path, list_changed_before(before))) as read:
            seen, judge = _run_once(setting, variant, log_file, run, place)
        files = _note_files(seen, linked, before, read)
        cached = keep_caches(variant, place)
        shared = [*describe_followed(variant, place), *describe_beside(list_beside(place, variant))]
        _check_end(setting, variant, seen, place, log_file)
        try:
            marked, seen, marks = _read_first(seen, request)
            if judge is not None:
                quality: float | None = measure_quality(judge).quality
            else:
                quality = marks.last_quality
        except StoppedError:
            raise KeyboardInterrupt from None
        except RecordError as error:
            raise TrainingError(f"{variant.title}: {error}; full output: {log_file}") from None
    if request.margin is not None and judge is None and not marks.qualities:
        raise TrainingError(
            f"{variant.title}: reports no quality, but --margin needs one; report it with speedproof.marks, print it "
            "(--quality), or measure it (--quality-command)"
        )
    notes = [*([describe_left(seen.life.left)] if seen.life.left else []), *describe_cut(seen.cut), *shared, *note_zero(marks)]
    observed = _observe(files.changed, seen, marks, cached).model_copy(
        update={"began_unix_ns": begun_ns, "steps": count_steps(log_file)}
    )
    return _Tried(seen, marked, copy_s, marks, judge_arrivals(marks), notes, observed, files, quality)


def _check_end(setting: _Setting, variant: Variant, seen: Watched, place: Path, log_file: Path) -> None:
    """Raise :class:`TrainingError` if a program failed, with its last words and the hidden variables that it mentions."""
    end = seen.end
    if end.outcome == "stopped":  # with us, and nothing is wrong with it
        raise KeyboardInterrupt
    if end.completed:
        return
    if end.timed_out:
        epochs = 0
        with suppress(RecordError):
            epochs = len(_read_first(seen, setting.request)[2].epochs)
        raise TrainingError(f"{variant.title}: {describe_timeout(end.reason, epochs)}; full output: {log_file}")
    last = last_words(log_file)
    asks = "; it waits for typed input, and there is none: pass the input as arguments or in a file"
    why = f"{end.reason}{f' ({last})' if last else ''}{asks if last.startswith('EOFError') else ''}"
    missing = explain_missing(setting.workload, variant, place, log_file)
    why += f"; full output: {log_file}{name_hidden(log_file, setting.request)}{missing}"
    raise TrainingError(f"{variant.title}: {why}")


def _read_first(seen: Watched, request: ProofRequest) -> tuple[bool, Watched, Marks]:
    """Return whether a program marks its epochs, and what it reports of them; check that its printed times can be.

    Of a program that was ended before its own end, what was seen ends with the last epoch.
    """
    marked = bool(read_marks(seen.reports.folder / MARKS_FILE).epochs)
    if marked and request.blind and request.named_reading() is None:
        raise RecordError("marks its epochs, which blind runs cannot; print their times (--epoch-s), or drop --blind")
    reading = request.named_reading() or request.reading("marks" if marked else "process")
    seen, marks = cut_to_limit(seen, read_progress(seen.reports, reading), request.stop.epochs)
    check_plausible(marks, seen.process_s, request, cumulative=reading.cumulative, asked=reading.unit)
    return marked, seen, marks


def _note_files(seen: Watched, linked: LinkedFiles, before: Sequence[WarmUpFiles], read: Sequence[Path]) -> WarmUpFiles:
    """Return what a warm-up did to files, and which of those that earlier ones changed it read."""
    by_us = {shorten_home(path) for path in list_changed_before(before)}  # noting their reads changes their status, too
    outside = [name for name in seen.outside.files if name not in by_us]
    changes = linked.compare(seen.changed, {path for one in before for path in one.linked.created})
    return WarmUpFiles(
        [*seen.changed, *outside],
        seen.created,
        [name for name in seen.outside.vanished if not linked.holds(os.path.expanduser(name))],  # noqa: PTH111
        changes,
        {name: at_ns for name in outside if name.startswith("/") and (at_ns := read_access(name)) is not None},
        {str(path) for path in read},
    )


def _run_once(
    setting: _Setting, variant: Variant, log_file: Path, run: Path, place: Path, hidden: Sequence[str] = ()
) -> tuple[Watched, Judge | None]:
    """Run a variant in `place`, its marks into `run`; return what was seen, and what can judge what it left."""
    config, workload = setting.config, setting.workload
    with log_file.open("wb") as output, compile_cache(variant) as cache:
        environ = list_allowed(list_variables(workload, variant, timed=True) | cache)
        command = program_command(workload, variant, None, place)
        # Of any round, so that a program does not know this run by it.
        seed = config.measurement.seed + randbelow(max(1, config.measurement.rounds))
        takes_ranges = setting.request.epoch_range is not None
        task = Task(
            *(config, workload, variant, command, seed),
            taking_ranges=takes_ranges,
            hidden=hidden,
            recognizing=needs_recognizing(setting.request),
            stop_after=setting.stop.epochs or 0,
            stop_after_s=setting.stop.seconds,
        )
        judge = find_judge(config, workload, variant, place, seed, environ)
        return watch_program(task, run, place, output.fileno(), environ), judge


def _run_without_left(setting: _Setting, reading: Reading, tried: Mapping[str, _Tried], begin: Begin) -> dict[str, RunsWithout]:
    """Run each variant once more without what its warm-up and those before it created elsewhere, if they did."""
    warmed = list(reversed(setting.config.measurement.variants))
    found: dict[str, RunsWithout] = {}
    for position, name in enumerate(warmed):
        before = [tried[one].files for one in warmed[:position]]
        left = find_left_files(setting.config.completed_variants[name], tried[name].files, before)
        found[name] = one = RunsWithout(not_hidden=left.not_hidden, spoilt=left.spoilt)
        for hidden in (one for one in left.hidden if not all(map(is_others, one.paths))):
            while_ran = f"which appeared while {'it' if hidden.own else 'the other' if len(warmed) == 2 else 'others'} ran"
            why, run = _explain_no_hiding(setting.request), None
            if not why:
                paths = list_briefly(list(hidden.paths))
                begin(f"warm-up: running {setting.called[name]} again, to check whether it depends on {paths}, {while_ran}")
                run = _time_without(setting, reading, name, hidden, tried[name].observed, begin)
            if not (names := [name for name in hidden.paths if not is_others(name)]):
                continue
            without = f"without {list_briefly(names)}, {while_ran}"
            note = f"not run {without}: {why}" if why else f"fails {without}"
            one.notes.append(f"{format_value(run.process_s, 's')} in a check {without}" if run else note)
            if run:
                one.runs.append(run.model_copy(update={"names": names[:MOST_CHANGED]}))
            elif hidden.own:
                one.own_not_hidden += names
            elif not why:
                one.not_hidden = [*names, *one.not_hidden]
    return found


def _explain_no_hiding(request: ProofRequest) -> str:
    """Return why a run cannot be isolated, as --isolate does; nothing if it can."""
    if request.container or request.epoch_range:
        return f"--isolate cannot be combined with {'--container' if request.container else '--epoch-range'}"
    why = explain_no_isolation()
    return f"--isolate does not work here ({why})" if why else ""


def _time_without(
    setting: _Setting, reading: Reading, name: str, hidden: HiddenFiles, warm_up: WarmUpObserved, begin: Begin
) -> RunWithout | None:
    """Return how long an isolated variant takes without what is hidden; None if it does not run so.

    If that is longer than its warm-up was, it runs twice, and the shorter times count: one may have been disturbed.
    """
    variant = setting.config.completed_variants[name]
    isolated = variant.model_copy(update={"isolated": True, "caches": variant.caches if is_private(variant) else "cold"})
    log_file = setting.folder / f"{name}-without.txt"
    times = _run_isolated(setting, isolated, reading, log_file, hidden)
    if times is None:
        return None
    process_s, epoch_s = times
    own_s, before_s = (process_s, warm_up.process_s) if epoch_s is None else (epoch_s, warm_up.epoch_s)
    if before_s and own_s > _LONGER * before_s and not all(map(is_others, hidden.paths)):
        begin(f"warm-up: repeating the check of {setting.called[name]}, which took longer than its warm-up")
        if again := _run_isolated(setting, isolated, reading, log_file, hidden):
            process_s = min(process_s, again[0])
            epoch_s = epoch_s if epoch_s is None or again[1] is None else min(epoch_s, again[1])
    return RunWithout(process_s=process_s, epoch_s=epoch_s, names=list(hidden.paths)[:MOST_CHANGED], own=hidden.own)


def _run_isolated(
    setting: _Setting, variant: Variant, reading: Reading, log_file: Path, hidden: HiddenFiles
) -> tuple[float, float | None] | None:
    """Return how long a variant and its average epoch take without what is hidden; None if it does not run so."""
    with removable_folder() as run, working_folder(setting.workload, variant) as place:
        launched_ns = time.time_ns()
        seen, _ = _run_once(setting, variant, log_file, run, place, list(hidden.paths.values()))
        note_others(variant.watched_folders, launched_ns, [*list_own_places(setting.workload), run, place])
        if seen.end.outcome == "stopped":
            raise KeyboardInterrupt
        if not seen.end.completed:
            return None
        try:
            seen, marks = cut_to_limit(seen, read_progress(seen.reports, reading), setting.stop.epochs)
        except StoppedError:
            raise KeyboardInterrupt from None
        except RecordError:
            return None
    steady_s = marks.steady_s
    return seen.process_s, fmean(steady_s) if steady_s else None


def _observe(changed: Sequence[str], seen: Watched, marks: Marks, cached: int) -> WarmUpObserved:
    epochs_s = [epoch.train_s for epoch in marks.epochs]
    steady_s = marks.steady_s
    return WarmUpObserved(
        process_s=seen.process_s,
        epoch_s=fmean(steady_s) if steady_s else None,
        typical_epoch_s=median(steady_s) if steady_s else None,
        # The first may compile, or read from a disk what later ones find in memory.
        shortest_epoch_s=min(epochs_s) if len(epochs_s) > 1 else None,
        changed=list(changed),
        changed_code=seen.outside.code[:MOST_CHANGED],
        kept_caches=cached,
    )
