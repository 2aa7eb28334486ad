"""When the timed rounds of an experiment end: once all compared variants are decided, or before its budget is overrun."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from speedproof.config.model import Measurement
from speedproof.results.experiment import LOOKS, PlannedRun, RunPlace, Stopped, place_runs
from speedproof.stats.estimates import LEAST_PAIRS, Interval, Slack, bounded_exp, find_slack, mean_slack, widen_logs
from speedproof.stats.order_profit import estimate_profit, order_round
from speedproof.stats.outcomes import judge_within_margin
from speedproof.stats.power import count_rounds, pool_noise
from speedproof.stats.sequential import repeat_interval

STOPPED_SINCE = {"decided": "all variants are decided", "budget": "the budget is spent", "longest": "stopped"}  # for the log
Value = float | None  # the cost that a run is compared by: a time, or one over a rate


class Watch:
    """What the timed rounds of an experiment say so far, and whether they go on.

    It receives all runs in the plan's order, kept ones as well as new ones, so that an interrupted experiment stops where it
    would have stopped.
    """

    def __init__(self, measurement: Measurement) -> None:
        self._measurement = measurement
        self.metric = measurement.metric
        self._size = len(measurement.all_variants()) + measurement.control
        self._values: list[dict[str, Value]] = []  # of each round that is whole, each variant's
        self._resolutions: list[dict[str, float]] = []  # the same of their digits, as a share of the value
        self._lasted_s: list[float] = []
        self._order: list[PlannedRun] = []  # all timed runs so far
        self._round: list[tuple[PlannedRun, Value, float, float]] = []
        self.stopped: Stopped | None = None

    def add(self, planned: PlannedRun, value: Value, seconds: float, resolution: float = 0.0) -> None:
        """Note what a timed run is compared by, and how long the run took; after a round's last one, decide whether to go on.

        `resolution` is by which share the value may be off, since it was printed with few digits.
        """
        if self._measurement.until is None:
            return
        self._order.append(planned)
        self._round.append((planned, value, seconds, resolution))
        if len(self._round) < self._size:
            return
        self._values.append({run.variant: own for run, own, *_ in self._round if not run.control})
        self._resolutions.append({run.variant: own for run, *_, own in self._round if not run.control})
        self._lasted_s.append(sum(lasted for _, _, lasted, _ in self._round))
        self._round = []
        self.stopped = self._look()

    def _look(self) -> Stopped | None:
        measurement, rounds = self._measurement, len(self._values)
        slacks = {pair: self._find_slack(*pair) for pair in measurement.compared()}
        decided = all_decided(self._values, slacks, measurement.equivalence_margin, measurement.claimed)
        if decided and not any(self._rests_on_order(*pair) for pair in slacks):
            return self._stop("decided")
        if rounds == measurement.rounds:
            return self._stop("longest")
        overrun = measurement.budget_min is not None and overruns(self._lasted_s, measurement.budget_min)
        return self._stop("budget") if overrun else None

    def _rests_on_order(self, one: str, other: str) -> bool:
        """Return whether most of a gain seems to be one of runs that follow the other variant; more rounds tell.

        The check of the order at the end is a test, which a few rounds seldom fail: benchmarks/simulate_orders.py.
        """
        logs = _list_logs(self._values, one, other)
        if abs(fmean(logs)) <= math.log1p(self._measurement.equivalence_margin):
            return False
        names, sign = ((other, one), 1.0) if fmean(logs) > 0 else ((one, other), -1.0)
        places: dict[tuple[int, str], RunPlace] = {
            (run.round, run.variant): place
            for run, place in zip(self._order, place_runs(self._order), strict=True)
            if not run.control
        }
        profit = estimate_profit(
            [
                order_round(names, (places[number, names[0]], places[number, names[1]]), sign * log)
                for number, log in enumerate(logs)
            ]
        )
        return profit is not None and profit.is_most

    def _find_slack(self, one: str, other: str) -> Slack:
        return mean_slack([[[find_slack(values[one], values[other]) for values in self._resolutions]]])

    def _stop(self, reason: str) -> Stopped:
        asked = self._measurement
        return Stopped.model_validate(
            {
                "rounds": len(self._values),
                "most": asked.rounds,
                "reason": reason,
                "budget_min": asked.budget_min,
                "fixed": count_fixed(self._values, asked.compared(), asked.equivalence_margin),
            }
        )


def count_fixed(rounds: Sequence[Mapping[str, Value]], compared: Sequence[tuple[str, str]], difference: float) -> int | None:
    """Return how many rounds find a difference in every pair nine times in ten, by the noise of the first four; None: unknown.

    It is the number that a plan would have fixed after a pilot of four rounds.
    """
    counts = []
    for one, other in compared:
        pilot = _list_logs(rounds[:LEAST_PAIRS], one, other)
        noise = pool_noise([pilot]) if len(pilot) == LEAST_PAIRS else None
        counts.append(count_rounds(difference, noise.limit) if noise else None)
    return max((count for count in counts if count), default=None) if None not in counts else None


def _list_logs(rounds: Sequence[Mapping[str, Value]], one: str, other: str) -> list[float]:
    pairs = [(values[one], values[other]) for values in rounds]
    return [math.log(above / below) for above, below in pairs if above and below]


def all_decided(
    rounds: Sequence[Mapping[str, Value]],
    compared: Mapping[tuple[str, str], Slack],
    margin: float,
    claimed: float | None = None,
) -> bool:
    """Return whether now is a look, and each pair's repeated interval says faster, slower or equivalent.

    `rounds` holds each variant's value, by its name, of each round so far; `compared` has the pairs, each with what the digits
    of its values let it be off, by which its interval is widened. If a ratio is claimed, the interval must only lie wholly on
    one side of it.
    """
    if len(rounds) not in LOOKS:
        return False
    for (one, other), slack in compared.items():
        logs = _list_logs(rounds, one, other)
        of_logs = repeat_interval(logs) if len(logs) == len(rounds) else None
        if of_logs is None:
            return False
        widened = widen_logs(of_logs, slack)
        interval = Interval(bounded_exp(widened.low), bounded_exp(widened.high))
        if claimed is None and judge_within_margin(interval, margin) == "inconclusive":
            return False
        if claimed is not None and interval.low < claimed < interval.high:
            return False
    return True


def overruns(lasted_s: Sequence[float], budget_min: float) -> bool:
    """Return whether one more round, as long as the longest so far, would go beyond the budget."""
    return sum(lasted_s) + max(lasted_s) > 60 * budget_min
