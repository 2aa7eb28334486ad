"""The time left of a proof: by the clock on the wall, until all is likely decided; and its interval as the verdict's."""

import math
import random
from itertools import product
from statistics import fmean, stdev
from types import SimpleNamespace

import pytest

from speedproof.config.model import Measurement
from speedproof.results.experiment import PlannedRun
from speedproof.run.proof.progress import Progress
from speedproof.run.proof.time_left import TimeLeft
from speedproof.run.stopping import RunValue, Watch

FIXED = {"variants": ["a", "b"], "rounds": 6, "metric": "process_s", "profiled": 0}
OPEN = FIXED | {"rounds": 24, "until": "decided", "budget_min": 30}
REPORT_S = 3.0


class Clock:
    now_s = 100.0

    def __call__(self):
        return self.now_s


def measure(**values):
    return Measurement.model_validate(FIXED | values)


def ended(variant, number, cost=1.0, process_s=1.0, kept=False, began="2026-01-01T00:00:00"):
    planned = PlannedRun(variant=variant, mode="timed", round=number, seed=number)
    run = SimpleNamespace(process_s=process_s, started=began, best_quality=None)
    return SimpleNamespace(
        folder=f"{number}-{variant}", planned=planned, run=run, kept=kept, compared=SimpleNamespace(cost=cost, resolution=0.0)
    )


def test_what_happens_between_runs_is_part_of_the_time_left():
    clock = Clock()
    left = TimeLeft(measure(), {"a": 2.0, "b": 1.0}, clock)
    assert left.estimate_s(6) == 6 * 2.0 + 6 * 1.0 + REPORT_S  # by the warm-up
    left.begin()
    clock.now_s += 4.0  # the program took 2 s, copies and checks the rest
    left.end(ended("a", 0, process_s=2.0))
    left.begin()
    # a has 5 runs of 4 s left; b 6, each as long as its warm-up, slowed down as a was.
    assert left.estimate_s(6) == 5 * 4.0 + 6 * 1.0 * 2 + REPORT_S
    clock.now_s += 1.5
    left.end(ended("b", 0, process_s=1.0))
    assert left.estimate_s(6) == 5 * 4.0 + 5 * 1.5 + REPORT_S
    assert left.estimate_s(4) == 3 * 4.0 + 3 * 1.5 + REPORT_S


def test_runs_of_an_earlier_call_count_with_their_own_time():
    left = TimeLeft(measure(), {"a": 2.0, "b": 1.0}, Clock())
    for variant, process_s in (("a", 3.0), ("b", 2.0)):
        left.end(ended(variant, 0, process_s=process_s, kept=True))
    assert left.estimate_s(6) == 5 * 3.0 + 5 * 2.0 + REPORT_S


def test_a_budget_limits_it_and_a_control_and_profiled_runs_are_part_of_it():
    left = TimeLeft(Measurement.model_validate(OPEN | {"budget_min": 0.5}), {"a": 2.0, "b": 1.0}, Clock())
    assert left.estimate_s(24) == 30.0 + REPORT_S
    left = TimeLeft(measure(control=True, profiled=2), {"a": 2.0, "b": 1.0}, Clock())
    assert left.estimate_s(4) == 8 * 2.0 + 4 * 1.0 + 2 * (2.0 + 1.0) + REPORT_S


def watch(logs, orders=(), **values):
    """Return what watches rounds of these log ratios, of 1 s a run."""
    rounds = Watch(Measurement.model_validate(OPEN | values))
    for number, (log, order) in enumerate(zip(logs, orders or ("ab", "ba") * len(logs), strict=False)):
        for name in order:
            rounds.add(ended(name, number).planned, RunValue(math.exp(log) if name == "a" else 1.0), 1.0)
    return rounds


@pytest.mark.parametrize(
    ("logs", "likely"),
    [
        ([0.7], None),  # of one pair nothing is known
        ([0.70, 0.69], 4),
        ([0.70, 0.69, 0.71, 0.70], 4),  # decided
        ([0.336, 0.154, 0.336, 0.154], 6),  # 0.245 ± 6.21 × 0.105 / √4 = 0.33 at four; ± 4.65 × 0.105 / √6 = 0.20 at six
    ],
)
def test_rounds_likely_end_at_the_look_that_decides(logs, likely):
    assert watch(logs).forecast_end() == likely


def test_rounds_whose_gain_rests_on_their_order_go_on_to_the_last():
    orders = ["ab", "ba", "ba", "ab", "ab", "ab", "ba", "ab", "ba", "ba", "ba", "ab"]
    runs = "".join(orders)
    after_a = ["ab" in runs[max(0, 2 * number - 1) : 2 * number + 2] for number in range(12)]  # whether b follows a
    logs = [0.4 if after else 0.01 for after in after_a]
    # 0.30 ± 0.17 at twelve: decided, but for the order.
    assert fmean(logs) - 3.21 * stdev(logs) / math.sqrt(12) > 0
    assert watch(logs, orders).forecast_end() == 24
    assert watch(logs, orders, budget_min=0.5).forecast_end() == 12  # 24 s of 30 are spent, and a look at 16 needs 32


def test_forecasts_of_the_time_left_are_within_a_third_two_times_in_three():
    noise, said, near = random.Random(7), 0, 0
    for deviation, difference in product((0.005, 0.03, 0.1, 0.3), (0.0, 0.05, 0.2)):
        rounds, ends = Watch(Measurement.model_validate(OPEN)), []
        for number in range(24):
            for name in "ab" if number % 2 else "ba":
                cost = math.exp(noise.gauss(difference, deviation)) if name == "a" else 1.0
                rounds.add(ended(name, number).planned, RunValue(cost), 1.0)
            if rounds.stopped:
                break
            ends.append(rounds.forecast_end())
        left = [(likely - done, number + 1 - done) for done, likely in enumerate(ends, start=1) if likely is not None]
        said, near = said + len(left), near + sum(abs(told - true) * 3 <= true for told, true in left)
    assert near >= 0.6 * said > 30


def follow(measurement, costs):
    said = []
    status = SimpleNamespace(say=said.append, go_on_with=lambda text: None)
    progress = Progress(Measurement.model_validate(measurement), {"a": "old", "b": "new"}, {"a": 1.0, "b": 1.0}, status)
    for number, cost in enumerate(costs):
        progress.end_run(ended("a", number, cost, began=f"2026-01-01T00:00:{2 * number:02d}"))
        progress.end_run(ended("b", number, 1.0, began=f"2026-01-01T00:00:{2 * number + 1:02d}"))
    return said


def test_a_ratio_in_progress_is_the_one_that_the_verdict_would_have():
    said = follow(FIXED, [2.0, 2.1, 1.9, 2.0, 4.0])
    # Of five pairs the last one of the more frequent order does not count: what is printed of four stays.
    assert said[4].split(", ")[0] == said[3].split(", ")[0].replace("round 4", "round 5")
    said = follow(OPEN, [2.0, 2.1, 1.9, 2.0, 4.0])
    assert said[4].split(", ")[0] == said[3].split(", ")[0].replace("round 4", "round 5")  # four is the latest look
    assert ("(" in said[2], "(" in said[3]) == (False, True)
    assert said[3].startswith("round 4 of at most 24: old / new 2.00×")
    assert ", about " in said[1] and ", at most " in said[1]
    assert said[3].endswith(", about 3 s left")  # decided: the report is left
