"""Progress: the step that a proof is at, and for the rounds the ratio so far with its interval and the time left."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from speedproof.config.model import Measurement
from speedproof.results.experiment import EXPERIMENT_FILE, PLAN_FILE, RUNS_FOLDER, Plan, PlannedRun, Stopped
from speedproof.results.files import read_record
from speedproof.results.run_record import RUN_FILE, read_run
from speedproof.run.observer import EndedRun, Observer
from speedproof.run.proof.live_status import Status
from speedproof.run.proof.quality_questions import question_seeds
from speedproof.run.proof.time_left import TimeLeft
from speedproof.run.stopping import RunValue, Watch
from speedproof.stats.estimates import (
    Pair,
    Slack,
    estimate_ratio,
    find_slack,
    keep_balanced,
    list_log_ratios,
    mean_slack,
    widen_ratio,
)
from speedproof.stats.metrics import read_compared
from speedproof.stats.sequential import Design, find_latest_look
from speedproof.util.errors import RecordError, SpeedproofError
from speedproof.util.numbers import format_count, format_ratio


class Progress(Observer):
    """Follows the runs of a proof: prints a sentence after each round, and the current run in between."""

    def __init__(
        self,
        measurement: Measurement,
        called: Mapping[str, str],
        expected_s: Mapping[str, float],
        status: Status,
        judges_quality: bool = False,
    ) -> None:
        """Take what is measured, what variants are called, their expected seconds, and whether quality is judged."""
        self.metric = measurement.metric
        self._measurement, self._called, self._status, self._judges_quality = measurement, called, status, judges_quality
        self._first, *self._others = measurement.variants
        self._each = len(measurement.variants) + measurement.control
        self._most = "at most " if measurement.until else ""
        self._left, self._watch = TimeLeft(measurement, expected_s), Watch(measurement)
        self._done: dict[str, EndedRun] = {}
        self._said = 0
        self._kept: list[str] = []  # what is to be printed of rounds of an earlier call, once a run begins
        self._begun = False

    def begin_run(self, planned: PlannedRun) -> None:
        """Show this run as the current one."""
        if self._done and not self._begun:
            self._status.say(f"resumed with {format_count(len(self._done), 'run')} of an earlier call")
        self._begun = True
        self._print_kept()
        called = self._called[planned.variant]
        if planned.mode != "timed":
            self._status.go_on_with(f"profiling {called}")
            return
        self._left.begin()
        head = f"round {planned.round + 1} of {self._most}{self._measurement.rounds}: running {called}"
        if planned.control:
            head += " (control)"
        left = self._estimate_left()
        self._status.go_on_with(lambda seconds: f"{head}, {seconds:.0f} s; {left.describe(seconds)} left")

    def end_run(self, ended: EndedRun) -> None:
        """Count a timed run; after each round print the ratio so far."""
        if ended.planned.mode != "timed":
            return
        compared = ended.compared
        value = RunValue(compared.cost if compared else None, compared.resolution if compared else 0.0, ended.run.best_quality)
        self._watch.add(ended.planned, value, self._left.end(ended))
        self._done[ended.folder] = ended
        done = self._count_rounds()
        if done > self._said:
            self._said = done
            asks = done == 2 and self._judges_quality
            self._kept += [self._describe(done), *(question_seeds(self._done.values(), self._called) if asks else [])]
            if self._begun or not ended.kept:
                self._print_kept()

    def lose_trace(self, planned: PlannedRun, error: SpeedproofError) -> None:
        """Print why a profiled run failed; the timed runs count without its trace."""
        self._status.say(f"no trace of {self._called[planned.variant]}: {error}; the timed runs are compared without it")

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
        costs = {name: [cost for variant, cost in runs if variant == name] for name in self._measurement.variants}
        return {name: [cost for cost in own if cost is not None] for name, own in costs.items() if None not in own}

    def _count_rounds(self) -> int:
        return len(self._done) // self._each

    def _estimate_left(self) -> "_Left":
        likely = self._watch.forecast_end() if self._most else self._measurement.rounds
        likely_s = None if likely is None else self._left.estimate_s(likely)
        most_s = self._left.estimate_s(self._measurement.rounds) if self._most and not self._watch.stopped else None
        return _Left(likely_s, most_s if likely_s is None or (most_s or 0.0) > likely_s else None)

    def _describe(self, done: int) -> str:
        ratios = "; ".join(filter(None, map(self._describe_ratio, self._others)))
        left = f", {self._estimate_left().describe()} left" if done < self._measurement.rounds else ""
        return f"round {done} of {self._most}{self._measurement.rounds}: {ratios}{left}"

    def _describe_ratio(self, other: str) -> str:
        """Return a ratio with its interval, as the verdict would have them of these rounds."""
        paired = self._pair(other)
        if self._measurement.until:
            paired = paired[: find_latest_look(len(paired))]
        else:
            paired = [paired[number] for number in keep_balanced([first for *_, first in paired])]
        if not paired:
            return ""
        pairs = [pair for pair, *_ in paired]
        design = Design(self._measurement.until is not None, self._measurement.comparisons)
        of_logs = design.interval_of(list_log_ratios(pairs))
        interval = widen_ratio(of_logs.exponential, mean_slack([[[slack for _, slack, _ in paired]]])) if of_logs else None
        centre = estimate_ratio(pairs).centre
        value, shown = format_ratio(centre, *((interval.low, interval.high) if interval else (None, None)))
        names = f"{self._called[self._first]} / {self._called[other]}"
        return f"{names} {value}{f' ({shown})' if interval else ''}"

    def _pair(self, other: str) -> list[tuple[Pair, Slack, bool]]:
        """Return, by round, the costs of the first variant and another, what rounding hides, and if the first came first."""
        one, two = self._times(self._first), self._times(other)
        both = ((one[number], two[number]) for number in sorted(one.keys() & two.keys()))
        return [((own.cost, its.cost), find_slack(own.resolution, its.resolution), own.began < its.began) for own, its in both]

    def _times(self, name: str) -> dict[int, "_Cost"]:
        """Return the cost of each of a variant's runs, by round; only costs above 0."""
        return {
            one.planned.round: _Cost(one.compared.cost, one.compared.resolution, one.run.started)
            for one in self._done.values()
            if one.planned.variant == name and one.compared and one.compared.cost and not one.planned.control
        }


class _Left(NamedTuple):
    """The seconds until all is likely decided, and those until rounds end at the latest, if that is later."""

    likely_s: float | None
    most_s: float | None

    def describe(self, passed_s: float = 0.0) -> str:
        """Return what is left so many seconds later."""
        words = [("about", self.likely_s), ("at most", self.most_s)]
        return ", ".join(f"{word} {_format_roughly(left_s - passed_s)}" for word, left_s in words if left_s is not None)


class _Cost(NamedTuple):
    cost: float
    resolution: float  # its relative rounding error
    began: str


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
