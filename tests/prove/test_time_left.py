"""The time left of a proof: by the clock on the wall, until all is likely decided; and its interval as the verdict's."""

from types import SimpleNamespace

import pytest

from speedproof.config.model import Measurement
from speedproof.results.experiment import PlannedRun
from speedproof.run.proof.progress import Progress
from speedproof.run.proof.time_left import TimeLeft, find_likely_end

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


@pytest.mark.parametrize(
    ("logs", "likely"),
    [
        ([0.7], None),  # of one pair nothing is known
        ([0.70, 0.69], 4),
        # Mean 0.245, deviation 0.105: ± 6.21 × 0.105 / 2 = 0.33 at four. Its upper limit is 0.105 √(3 / 1.005) = 0.182:
        # ± 3.88 × 0.182 / √8 = 0.25 at eight, ± 3.47 × 0.182 / √10 = 0.20 at ten. By 0.105 it would be six.
        ([0.336, 0.154, 0.336, 0.154], 10),
        ([0.5, -0.5, 0.5, -0.5], None),
    ],
)
def test_rounds_likely_end_at_the_look_that_decides(logs, likely):
    assert find_likely_end(len(logs), [logs], Measurement.model_validate(OPEN)) == likely
    assert find_likely_end(len(logs), [logs], measure()) == 6


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
    assert ", about " in said[3] and ", at most " in said[3]
