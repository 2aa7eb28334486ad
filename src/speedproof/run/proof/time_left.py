"""How long the rounds of a proof still take, by the clock on the wall: runs, and all that is done between them."""

import time
from collections.abc import Callable, Mapping
from statistics import fmean

from speedproof.config.model import Measurement
from speedproof.run.observer import EndedRun

_LATEST = 4  # runs of a variant that tell how long the next one takes
_REPORT_S = 3.0  # from the last run to the verdict


class TimeLeft:
    """Estimates the seconds until the verdict, of runs that ended; before the first one of a variant, of its warm-up."""

    def __init__(
        self, measurement: Measurement, expected_s: Mapping[str, float], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Take each variant's expected seconds, and the clock."""
        self._measurement, self._expected_s, self._clock = measurement, expected_s, clock
        self._lasted_s: dict[str, list[float]] = {name: [] for name in expected_s}
        self._measured_s = 0.0  # of programs
        self._since_s: float | None = None  # when the latest run ended, or the first one began

    def begin(self) -> None:
        """Note that a run is about to start."""
        if self._since_s is None:
            self._since_s = self._clock()

    def end(self, ended: EndedRun) -> float:
        """Note that a timed run ended, and return how long it took: all the time since the one before."""
        now_s = self._clock()
        lasted_s = ended.run.process_s if self._since_s is None or ended.kept else now_s - self._since_s
        self._lasted_s[ended.planned.variant].append(lasted_s)
        self._measured_s += ended.run.process_s
        if self._since_s is not None:
            self._since_s = now_s
        return lasted_s

    def estimate_s(self, rounds: int) -> float:
        """Return the seconds until the verdict after so many rounds and the profiled runs, within the budget."""
        left_s = sum(self._count_left(name, rounds) * self._estimate_run_s(name) for name in self._expected_s)
        if (budget_min := self._measurement.budget_min) is not None:
            left_s = min(left_s, max(0.0, 60 * budget_min - sum(map(sum, self._lasted_s.values()))))
        return left_s + self._measurement.profiled * sum(map(self._estimate_run_s, self._expected_s)) + _REPORT_S

    @property
    def _slowdown(self) -> float:
        """Return how many seconds pass in one of a program's."""
        passed_s = sum(map(sum, self._lasted_s.values()))
        return max(1.0, passed_s / self._measured_s) if self._measured_s else 1.0

    def _count_left(self, name: str, rounds: int) -> int:
        each = 1 + (self._measurement.control and name == self._measurement.variants[0])
        return max(0, each * rounds - len(self._lasted_s[name]))

    def _estimate_run_s(self, name: str) -> float:
        if own := self._lasted_s[name]:
            return fmean(own[-_LATEST:])
        return self._expected_s[name] * self._slowdown
