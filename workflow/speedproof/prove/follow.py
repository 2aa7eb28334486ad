"""What is said while the workflow runs: rounds, the running ratio with its interval, and how long it will take."""

import math
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from speedproof.common.errors import RecordError
from speedproof.common.numbers import format_ratio, format_value
from speedproof.records.block import LOOKS
from speedproof.records.run import Run, read_epochs, read_run
from speedproof.verdicts.metrics import compared_s
from speedproof.verdicts.repeated import repeat_interval
from speedproof.verdicts.statistics import Interval, estimate_ratio, list_log_ratios

Say = Callable[[str], None]
_DONE = re.compile(r"run \d+ of \d+, (\S+): (?:kept|[\d.]+ s)")  # as a block says it


class Progress:
    """Reads the runs of a proof as they end, and says a line for each whole round.

    Those that its block says to be done or kept count: of an earlier call's others may lie there that are done anew.
    """

    def __init__(
        self, results: Path, names: list[str], rounds: int, runs_each: int, budget_min: float | None, say: Say
    ) -> None:
        """Take where results go, the sides, the most rounds and how many runs each has, and the minutes that they may take."""
        self._runs, self._log = results / "blocks/block-1/runs", results / "logs/block-1.log"
        self._log.unlink(missing_ok=True)  # an earlier call's
        self._names, self._rounds, self._each, self._say = names, rounds, runs_each, say
        self._budget_min = budget_min
        self._known: dict[str, tuple[Run, float | None]] = {}
        self._said = 0

    def look(self) -> None:
        """Read what ended since the last look; say how it stands after a round."""
        told = self._log.read_text(encoding="utf-8", errors="replace") if self._log.is_file() else ""
        for name in _DONE.findall(told):
            if name not in self._known:
                with suppress(RecordError):
                    run = read_run(self._runs / name)
                    if run.outcome == "completed" and run.arm == "timed":
                        self._known[name] = run, compared_s(run, read_epochs(self._runs / name))
        done = len(self._known) // self._each
        if done > self._said:
            self._said = done
            self._say(self._describe(done))

    def _describe(self, done: int) -> str:
        taken_s = [run.process_s for run, _ in self._known.values()]
        left_s = sum(taken_s) / len(taken_s) * self._each * (self._rounds - done)
        ratios = "; ".join(filter(None, (self._describe_ratio(name) for name in self._names[1:])))
        most = ""
        if self._budget_min is not None:
            most, left_s = "at most ", min(left_s, max(0.0, 60 * self._budget_min - sum(taken_s)))
        left = f", {most or 'about '}{format_value(left_s, 's')} of runs left" if done < self._rounds else ""
        return f"round {done} of {most}{self._rounds}: {ratios}{left}"

    def _describe_ratio(self, other: str) -> str:
        first, second = self._times(self._names[0]), self._times(other)
        pairs = [(first[repeat], second[repeat]) for repeat in sorted(first.keys() & second.keys())]
        if not pairs:
            return ""
        found = estimate_ratio(pairs)
        centre, interval = found.centre, found.interval
        if self._budget_min is not None:  # who may stop at any look says what holds then, as the verdict will
            at_look = repeat_interval(list_log_ratios(pairs))
            interval = Interval(math.exp(at_look.low), math.exp(at_look.high)) if at_look and len(pairs) in LOOKS else None
        value, shown = format_ratio(centre, *((interval.low, interval.high) if interval else (None, None)))
        return f"{self._names[0].upper()} / {other.upper()} {value}{f' ({shown})' if interval else ''}"

    def _times(self, name: str) -> dict[int, float]:
        """Return what each of a side's runs is compared by, by repeat; of those where it is more than nothing."""
        return {
            run.repeat: value
            for folder, (run, value) in self._known.items()
            if run.variant == name and value and "-control" not in folder
        }
