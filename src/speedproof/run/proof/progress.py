"""Progress: the step that a proof is at, and for the rounds the ratio so far with its interval and the time left."""

import math
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TextIO

from speedproof.results.experiment import EXPERIMENT_FILE, LOOKS, PLAN_FILE, RUNS_FOLDER, Plan, PlannedRun, Stopped
from speedproof.results.files import read_record
from speedproof.results.run_record import RUN_FILE, read_run
from speedproof.run.proof.quality_questions import question_seeds
from speedproof.run.run_experiment import EndedRun, Observer
from speedproof.stats.estimates import Interval, estimate_ratio, find_slack, list_log_ratios, mean_slack, widen_ratio
from speedproof.stats.metrics import read_compared
from speedproof.stats.sequential import repeat_interval
from speedproof.util.errors import RecordError
from speedproof.util.numbers import format_count, format_ratio, format_value
from speedproof.util.text import find_width, fold, plain, printable

EVERY_S = 1.8  # and what a busy machine adds: at least every two seconds
_ERASE = "\r\x1b[K"

Describe = Callable[[float], str]  # makes the text from the seconds since the activity began


class Status:
    """Prints sentences to `stream`, stderr by default, and between them the current activity.

    On a terminal the activity is one line that is rewritten; elsewhere each update is a new line. A thread prints it and
    sleeps in between, so it takes a measured program's core only for a moment every two seconds.
    """

    def __init__(self, quiet: bool = False, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """Take whether to print nothing, the stream, and the clock, in seconds."""
        self._quiet, self._stream, self._clock = quiet, stream or sys.stderr, clock
        self._lock = threading.RLock()  # a signal's handler may say something while its thread does
        self._describe: Describe | None = None
        self._began_s = self._printed_s = clock()
        self._every_s = EVERY_S
        self._live = False  # whether the activity's line is on the terminal
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Status":
        """Begin to print."""
        if not self._quiet:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop printing, and erase the activity's line."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        with self._lock:
            self._write("")

    def say(self, text: str) -> None:
        """Print a sentence."""
        if not self._quiet:
            with self._lock:
                self._write(fold(printable(f"speedproof: {text}"), find_width(self._stream)) + "\n")

    def go_on_with(self, describe: Describe | str, log_every_s: float = EVERY_S) -> None:
        """Set the current activity: a text, or a function of the seconds since now.

        Without a terminal it is printed at most every `log_every_s` seconds.
        """
        with self._lock:
            self._began_s, self._every_s = self._clock(), log_every_s
            self._describe = describe if callable(describe) else lambda seconds: f"{describe}, {seconds:.0f} s"

    def pause(self) -> None:
        """Erase the activity's line, and print none until another activity begins."""
        with self._lock:
            self._describe = None
            self._write("")

    def look(self) -> float:
        """Print the activity if it is due; return the seconds until the next look."""
        with self._lock:
            now_s = self._clock()
            due_s = self._printed_s + (EVERY_S if self._stream.isatty() else self._every_s)
            if self._describe is None or now_s < due_s:
                return min(max(0.0, due_s - now_s) or EVERY_S, EVERY_S)  # another activity may begin before it is due
            line = f"speedproof: {plain(printable(self._describe(now_s - self._began_s)))}"
            if self._stream.isatty():
                width = find_width(self._stream)
                self._write(line[: width - 1] if width else line, live=True)
            else:
                self._write(f"{line}\n")
            return EVERY_S

    def _write(self, text: str, live: bool = False) -> None:
        with suppress(OSError, RuntimeError, ValueError):  # the reader is gone, or a signal came while this was printed
            self._stream.write((_ERASE if self._live else "") + text)
            self._stream.flush()
        self._live, self._printed_s = live, self._clock()

    def _run(self) -> None:
        wait_s = EVERY_S
        while not self._ended.wait(wait_s):
            wait_s = self.look()


class Progress(Observer):
    """Follows the runs of a proof: prints a sentence after each round, and the current run in between."""

    def __init__(
        self,
        expected_s: dict[str, float],
        rounds: int,
        control: bool,
        budget_min: float | None,
        status: Status,
        metric: str | None = None,
        judges_quality: bool = False,
    ) -> None:
        """Take each variant's expected seconds, the limits of rounds and minutes, the metric, and whether quality is judged."""
        self.metric = metric
        self._expected_s, self._rounds, self._status = expected_s, rounds, status
        self._names, self._budget_min, self._judges_quality = list(expected_s), budget_min, judges_quality
        self._each = len(self._names) + control
        self._done: dict[str, EndedRun] = {}
        self._said = 0
        self._kept: list[str] = []  # what is to be printed of rounds of an earlier call, once a run begins
        self._begun = False

    def begin_run(self, planned: PlannedRun) -> None:
        """Show this run as the current one."""
        self._begun = True
        self._print_kept()
        if planned.mode != "timed":
            self._status.go_on_with(f"profiling {planned.variant.upper()}")
            return
        what = f"{planned.variant.upper()}{' (control)' if planned.control else ''}"
        most = "at most " if self._budget_min is not None else ""
        head = f"round {planned.round + 1} of {most}{self._rounds}: running {what}"
        left_s = self._left_s()
        self._status.go_on_with(
            lambda seconds: f"{head}, {seconds:.0f} s; {most or 'about '}{_format_roughly(left_s - seconds)} left"
        )

    def end_run(self, ended: EndedRun) -> None:
        """Count a timed run; after each round print the ratio so far."""
        if ended.planned.mode != "timed":
            return
        self._done[ended.folder] = ended
        done = len(self._done) // self._each
        if done > self._said:
            self._said = done
            questions = question_seeds(self._done.values()) if done == 2 and self._judges_quality else []
            self._kept += [self._describe(done), *questions]
            if self._begun or not ended.kept:
                self._print_kept()

    def conclude(self, stopped: Stopped | None) -> None:
        """Print why nothing was run, if nothing was."""
        if not self._begun:
            decided = "already decided" if stopped and stopped.reason == "decided" else "no more rounds were due"
            self._status.say(f"{decided} after {format_count(self._said, 'round')} of an earlier call; nothing was run")

    def _print_kept(self) -> None:
        for text in self._kept:
            self._status.say(text)
        self._kept = []

    @property
    def seen(self) -> set[str]:
        """Return the folders of the timed runs that were counted."""
        return set(self._done)

    @property
    def said(self) -> dict[str, list[float]]:
        """Return the costs that each variant's runs had when they ended; only of variants whose runs all had one."""
        runs = [
            (one.planned.variant, one.compared.cost if one.compared else None)
            for one in self._done.values()
            if not one.planned.control
        ]
        costs = {name: [cost for variant, cost in runs if variant == name] for name in self._names}
        return {name: [cost for cost in own if cost is not None] for name, own in costs.items() if None not in own}

    def _left_s(self) -> float:
        """Estimate the seconds that the remaining timed runs take from those that ended, at first from the warm-up."""
        if not self._done:
            each_s = sum(self._expected_s.values()) / len(self._expected_s)
        else:
            each_s = sum(one.run.process_s for one in self._done.values()) / len(self._done)
        left_s = each_s * (self._each * self._rounds - len(self._done))
        if self._budget_min is None:
            return left_s
        return min(left_s, max(0.0, 60 * self._budget_min - sum(one.run.process_s for one in self._done.values())))

    def _describe(self, done: int) -> str:
        ratios = "; ".join(filter(None, (self._describe_ratio(name) for name in self._names[1:])))
        most = "at most " if self._budget_min is not None else ""
        left = f", {most or 'about '}{format_value(self._left_s(), 's')} left" if done < self._rounds else ""
        return f"round {done} of {most}{self._rounds}: {ratios}{left}"

    def _describe_ratio(self, other: str) -> str:
        first, second = self._times(self._names[0]), self._times(other)
        both = [(first[number], second[number]) for number in sorted(first.keys() & second.keys())]
        pairs = [(above, below) for (above, _), (below, _) in both]
        if not pairs:
            return ""
        found = estimate_ratio(pairs, len(self._names) - 1)
        centre, interval = found.centre, found.interval
        if self._budget_min is not None:  # an interval that holds at any stop, as in the verdict
            at_look = repeat_interval(list_log_ratios(pairs), len(self._names) - 1)
            interval = Interval(math.exp(at_look.low), math.exp(at_look.high)) if at_look and len(pairs) in LOOKS else None
        if interval:
            interval = widen_ratio(interval, mean_slack([[[find_slack(own, others) for (_, own), (_, others) in both]]]))
        value, shown = format_ratio(centre, *((interval.low, interval.high) if interval else (None, None)))
        return f"{self._names[0].upper()} / {other.upper()} {value}{f' ({shown})' if interval else ''}"

    def _times(self, name: str) -> dict[int, tuple[float, float]]:
        """Return the cost and the relative rounding error of each of a variant's runs, by round; only costs above 0."""
        return {
            one.planned.round: (one.compared.cost, one.compared.resolution)
            for one in self._done.values()
            if one.planned.variant == name and one.compared and one.compared.cost and not one.planned.control
        }


def _format_roughly(seconds: float) -> str:
    """Format an estimate of seconds without false precision."""
    return f"{max(1.0, seconds):.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


class Records:
    """Follows an experiment that another process measures by its run records, and reports them to `progress`.

    The plan is written before the first run, and runs go in its order. So a run counts if it was written after the plan, or if
    it was kept from an earlier attempt, which means that a later run in the order counts.
    """

    def __init__(self, experiment: Path, progress: Progress) -> None:
        """Take the experiment's folder, which may hold an earlier call's plan."""
        self._experiment, self._progress = experiment, progress
        self._earlier_ns = self._written_ns(experiment / PLAN_FILE)

    def look(self) -> None:
        """Report the runs that ended since the last look."""
        began_ns = self._written_ns(self._experiment / PLAN_FILE)
        if began_ns == self._earlier_ns:
            return
        with suppress(RecordError):  # a file may be gone, for example that of a repeated run
            planned = read_record(self._experiment / PLAN_FILE, Plan).runs()
            written = {name: self._written_ns(self._experiment / RUNS_FOLDER / name / RUN_FILE) for name in planned}
            ended = self._written_ns(self._experiment / EXPERIMENT_FILE) >= began_ns
            last = max((number for number, at in enumerate(written.values()) if at >= began_ns), default=-1)
            for number, (name, run) in enumerate(planned.items()):
                if written[name] and (ended or number <= last) and run.mode == "timed" and name not in self._progress.seen:
                    self._tell(name, run)

    def _tell(self, name: str, planned: PlannedRun) -> None:
        folder = self._experiment / RUNS_FOLDER / name
        run = read_run(folder)
        if run.outcome == "completed":
            self._progress.end_run(EndedRun(name, planned, run, read_compared(folder, run, self._progress.metric), kept=False))

    @staticmethod
    def _written_ns(path: Path) -> int:
        try:
            return path.stat().st_mtime_ns
        except OSError:
            return 0
