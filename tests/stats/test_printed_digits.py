"""Ratios of times that programs print with few digits: no interval is narrower than the digits allow. Values by hand."""

import json
import math
from statistics import fmean

import pandas as pd
import pytest

from speedproof.config.model import Measurement
from speedproof.results.comparison import COMPARISON_FILE, read_comparison
from speedproof.results.experiment import PlannedRun
from speedproof.run.stopping import RunValue, Watch
from speedproof.stats.compare import compare_experiments, write_comparison
from speedproof.stats.estimates import Interval, find_slack, mean_slack, widen_ratio
from tests.report.example import CLAIMS, Example, vouch_again, write_example


def test_the_ratio_of_two_rounded_times_lies_between_their_extremes():
    # Both print 0.5 s to a tenth: 0.45 / 0.55 to 0.55 / 0.45.
    low, high = find_slack(0.1, 0.1)
    assert (math.exp(-low), math.exp(high)) == pytest.approx((0.45 / 0.55, 0.55 / 0.45))
    # 2 s in full, 1 s to half a second: 2 / 1.25 to 2 / 0.75 instead of 2.
    low, high = find_slack(0.0, 0.25)
    assert (2 * math.exp(-low), 2 * math.exp(high)) == pytest.approx((1.6, 2 / 0.75))
    assert find_slack(0.0, 0.0) == (0.0, 0.0)


def test_slack_is_averaged_as_the_log_ratios_are():
    # Hosts: (0.1 + 0.3) / 2 = 0.2, and the mean of its experiments 0.4 and 0.8; below and above alike, doubled.
    hosts = [[[(0.1, 0.2), (0.3, 0.6)]], [[(0.4, 0.8)], [(0.8, 1.6)]]]
    assert mean_slack(hosts) == pytest.approx((0.4, 0.8))
    widened = widen_ratio(Interval(1.0, 2.0), (math.log(2), math.log(3)))
    assert (widened.low, widened.high) == pytest.approx((0.5, 6.0))


def test_a_time_that_may_be_nothing_leaves_the_ratio_open():
    widened = widen_ratio(Interval(1.0, 1.0), find_slack(1.0, 0.0))
    assert widened.low < 1e-300 and math.isfinite(widened.low) and widened.high == pytest.approx(2.0)


def write_printed(results, resolution_s, **example):
    """An example of printed epochs."""
    write_example(results, Example(modes=("timed",), **example))
    for path in results.glob("experiments/*/runs/*/run.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"resolution_s": resolution_s}))
    return vouch_again(results)


def find_ratio(comparison, metric):
    return next(ratio for ratio in comparison.ratios if (ratio.metric, ratio.target) == (metric, None))


def epochs_of(results, variant):
    """Each run's epochs, by round."""
    paths = sorted((results / "experiments/experiment-1/runs").glob(f"*-{variant}-*/epochs.csv"))
    return [pd.read_csv(path) for path in paths]


def test_intervals_are_wider_by_the_digits_of_the_times(tmp_path):
    exact = compare_experiments(write_printed(tmp_path / "exact", None), CLAIMS)
    printed = compare_experiments(write_printed(tmp_path / "printed", 0.05), CLAIMS)
    one, other = find_ratio(exact, "training_epoch_s"), find_ratio(printed, "training_epoch_s")
    means = [
        [float(run["train_s"][1:].mean()) for run in epochs_of(tmp_path / "printed", name)] for name in ("baseline", "fast")
    ]
    below = fmean(math.log(a / b * (b + 0.05) / (a - 0.05)) for a, b in zip(*means, strict=True))
    above = fmean(math.log((a + 0.05) / (b - 0.05) * b / a) for a, b in zip(*means, strict=True))
    assert other.centre == one.centre
    assert other.low == pytest.approx(one.low * math.exp(-below))
    assert other.high == pytest.approx(one.high * math.exp(above))
    assert (other.printed.digit_s, other.printed.low, other.printed.high) == (0.1, one.low, one.high)
    assert "half a unit of the last digit" in other.origin.expression
    # Of a sum of epochs each may be off.
    one, other = find_ratio(exact, "all_epochs_s"), find_ratio(printed, "all_epochs_s")
    runs = [epochs_of(tmp_path / "printed", name) for name in ("baseline", "fast")]
    sums = [[run["train_s"].sum() + run["validation_s"].sum() for run in own] for own in runs]
    off = 0.05 * len(runs[0][0])
    above = fmean(math.log((a + off) / (b - off) * b / a) for a, b in zip(*sums, strict=True))
    assert other.high == pytest.approx(one.high * math.exp(above))
    # The process' time is our own.
    assert find_ratio(printed, "process_s") == find_ratio(exact, "process_s")


def test_of_a_rate_the_longer_time_is_the_lower_one(tmp_path):
    printed = compare_experiments(write_printed(tmp_path, 0.05), CLAIMS)
    time, rate = find_ratio(printed, "training_epoch_s"), find_ratio(printed, "samples_per_s")
    assert {time.reference, time.candidate} == {rate.reference, rate.candidate}
    assert (rate.low, rate.high) == pytest.approx((time.low, time.high), rel=1e-6)


def test_digits_that_hide_a_difference_leave_it_open(tmp_path):
    ratio = find_ratio(compare_experiments(write_printed(tmp_path, 0.5), CLAIMS), "training_epoch_s")
    assert (ratio.outcome, ratio.printed.outcome, ratio.needed) == ("inconclusive", "faster", None)


def test_a_comparison_of_other_times_says_nothing_of_digits(tmp_path):
    write_comparison(compare_experiments(write_printed(tmp_path, None), CLAIMS), tmp_path)
    assert '"printed"' not in (tmp_path / COMPARISON_FILE).read_text()
    assert all(ratio.printed is None for ratio in read_comparison(tmp_path / COMPARISON_FILE).ratios)


@pytest.mark.parametrize(("resolution", "reason"), [(0.0, "decided"), (0.05, "decided"), (0.1, "futile")])
def test_a_watch_knows_the_digits_of_its_runs(resolution, reason):
    # 1.2 / 1 to 5 % each is at least 1.2 × 0.95 / 1.05 = 1.086; to 10 % 1.2 × 0.9 / 1.1 = 0.98, which no more rounds change.
    watch = Watch(Measurement(variants=["a", "b"], until="decided", rounds=6))
    for number in range(4):
        for name, value in (("a", 1.2), ("b", 1.0)):
            watch.add(PlannedRun(variant=name, mode="timed", round=number, seed=0), RunValue(value, resolution), 1.0)
    assert watch.stopped.reason == reason
