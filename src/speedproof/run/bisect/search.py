"""The search for the commit that changed the speed, as a function of what measures commits: no process, no clock, no git."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Literal

from speedproof.results.experiment import StopReason
from speedproof.run.paired_rounds import measure_rounds
from speedproof.stats.change_point import ChangePosterior, CommitRun, estimate_step, find_posterior, limit_outliers
from speedproof.stats.estimates import Estimate
from speedproof.stats.sequential import find_latest_look, repeat_interval

SEARCH_ERROR = 0.05  # how likely another commit than the named one may be the one
_RUNS_OF_ENDS = 2  # of each end in a round: as many looks as a proof has, of half the noise
_MOST_ROUNDS = 300
_DOUBTFUL = 0.5  # from this chance of several changes on, none is named
_LEAST_RUNS = 3  # before and after a step that is estimated
_EQUIVALENT = math.log(1.02)
_REGIONS = [(0.0, math.inf), (-math.inf, 0.0), (-_EQUIVALENT, _EQUIVALENT)]
_NEW = 0.15  # by how much worse a place may halve the posterior if its commit has run before: a new one is built first

SearchOutcome = Literal["found", "spread", "no difference", "inconclusive"]
MeasureCommits = Callable[[Sequence[int]], Sequence[float]]  # the log cost of one run of each, in random order


class UnusableCommitError(Exception):
    """A commit that cannot be built, or whose command fails: it is skipped."""

    def __init__(self, place: int, reason: str) -> None:
        super().__init__(reason)
        self.place, self.reason = place, reason


@dataclass(frozen=True)
class SearchResult:
    """What was found. Changes are of log costs: above 0 the later commit is slower."""

    outcome: SearchOutcome
    ends: Estimate
    place: int | None = None  # of the commit, or of the likeliest one
    chance: float | None = None  # that it is this one, if one commit changed the speed
    several: float = 0.0  # how likely several commits changed it
    step: Estimate | None = None
    skipped: dict[int, str] = field(default_factory=dict)  # why, by place
    suspects: list[int] = field(default_factory=list)  # skipped commits right before the one that was found
    runs: list[CommitRun] = field(default_factory=list)
    stopped: StopReason | None = None  # why an inconclusive search ended


class ChangeSearch:
    """A search among so many commits, the first of which is the reference."""

    def __init__(self, commits: int, measure: MeasureCommits, left_s: Callable[[], float]) -> None:
        self._commits, self._measure, self._left_s = commits, measure, left_s
        self._runs: list[CommitRun] = []
        self._rounds = self._begun = 0  # so far, and before the first round of others than the ends
        self._skipped: dict[int, str] = {}
        self._stopped: StopReason | None = None

    def run(self) -> SearchResult:
        """Measure the ends until they differ, then commits between them until one is found.

        Raises :class:`UnusableCommitError` if an end cannot be measured.
        """
        ends = self._measure_ends()
        if ends.interval is None or ends.interval.holds(0):
            equivalent = ends.interval is not None and max(-ends.interval.low, ends.interval.high) <= _EQUIVALENT
            return self._conclude("no difference" if equivalent else "inconclusive", ends)
        self._begun = self._rounds
        while True:
            posterior = find_posterior(limit_outliers(self._runs), self._list_usable())
            chance = posterior.by_place[posterior.likeliest]
            if posterior.several >= 1 - SEARCH_ERROR:
                return self._conclude("spread", ends, posterior)
            sure = chance >= 1 - SEARCH_ERROR and posterior.several < _DOUBTFUL
            if sure and _agrees(self._estimate_step(posterior.likeliest), ends):
                return self._conclude("found", ends, posterior)
            longest = self._rounds - self._begun >= _MOST_ROUNDS
            if longest or self._left_s() <= 0:
                self._stopped = "longest" if longest else "budget"
                return self._conclude("inconclusive", ends, posterior)
            self._run_round(self._choose(posterior))

    def _measure_ends(self) -> Estimate:
        last = self._commits - 1

        def measure() -> float:
            costs = self._measure([0, last] * _RUNS_OF_ENDS)
            self._note([0, last] * _RUNS_OF_ENDS, costs)
            return fmean(costs[1::2]) - fmean(costs[::2])

        rounds = measure_rounds(measure, _REGIONS, max(0.0, self._left_s()))
        self._stopped = rounds.stopped
        pairs = find_latest_look(len(rounds.logs)) or len(rounds.logs)
        return Estimate(fmean(rounds.logs[:pairs]), repeat_interval(rounds.logs))

    def _run_round(self, places: Sequence[int]) -> None:
        try:
            self._note(places, self._measure(places))
        except UnusableCommitError as error:
            if error.place in (0, self._commits - 1):
                raise
            self._skipped[error.place] = error.reason
            self._runs = [run for run in self._runs if run.place != error.place]

    def _note(self, places: Sequence[int], costs: Sequence[float]) -> None:
        self._runs += [CommitRun(place, self._rounds, cost) for place, cost in zip(places, costs, strict=True)]
        self._rounds += 1

    def _estimate_step(self, place: int) -> Estimate:
        """Estimate the step without the rounds of the ends, so that both can be compared; of too few others by all rounds."""
        runs = limit_outliers(self._runs)
        own = [run for run in runs if run.round >= self._begun]
        later = sum(run.place >= place for run in own)
        return estimate_step(own if min(later, len(own) - later) >= _LEAST_RUNS else runs, place)

    def _list_usable(self) -> list[int]:
        return [place for place in range(self._commits) if place not in self._skipped]

    def _choose(self, posterior: ChangePosterior) -> list[int]:
        """Return two commits that split the posterior into thirds, preferably such as have run before."""
        usable, measured = self._list_usable(), {run.place for run in self._runs}
        until = {place: posterior.chance_until(place) for place in usable}

        def find(share: float, places: Sequence[int]) -> tuple[float, int]:
            return min((abs(until[place] - share) + (0.0 if place in measured else _NEW), place) for place in places)

        (_, early), (_, late) = find(1 / 3, usable[:-1]), find(2 / 3, usable[1:])
        if early < late:
            return [early, late]
        number = usable.index(late)
        pairs = [[usable[number - 1], late], [late, usable[min(number + 1, len(usable) - 1)]]]
        return max((pair for pair in pairs if pair[0] < pair[1]), key=lambda pair: until[pair[1]] - until[pair[0]])

    def _conclude(self, outcome: SearchOutcome, ends: Estimate, posterior: ChangePosterior | None = None) -> SearchResult:
        if posterior is None:
            return SearchResult(outcome, ends, skipped=self._skipped, runs=self._runs, stopped=self._stopped)
        place = posterior.likeliest
        before = max(other for other in self._list_usable() if other < place)
        return SearchResult(
            outcome=outcome,
            ends=ends,
            place=place,
            chance=posterior.by_place[place],
            several=posterior.several,
            step=self._estimate_step(place),
            skipped=self._skipped,
            suspects=[other for other in self._skipped if before < other < place],
            runs=self._runs,
            stopped=self._stopped,
        )


def _agrees(step: Estimate, ends: Estimate) -> bool:
    """Return whether a step surely changes the cost, and in the ends' direction."""
    if step.interval is None:
        return False
    return step.interval.low > 0 if ends.centre > 0 else step.interval.high < 0
