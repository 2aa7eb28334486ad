"""The example of docs/statistics.md, computed again from the values that its table shows."""

import math
import re

import pytest

from speedproof.stats.estimates import estimate_ratio, find_slack, list_log_ratios, mean_slack, widen_ratio
from speedproof.stats.sequential import repeat_interval
from tests.workflow.checkout import ROOT

PAGE = (ROOT / "docs/statistics.md").read_text(encoding="utf-8")
HALF_DIGIT_S = 0.0005


@pytest.fixture
def pairs():
    return [(float(a), float(b)) for a, b in re.findall(r"^\| \d \| [AB] [AB] \| (\S+) s \| (\S+) s \|", PAGE, re.M)]


def test_the_interval_of_the_example_is_that_of_its_pairs(pairs):
    assert len(pairs) == 4
    found = estimate_ratio(pairs)
    assert f"| {found.centre:.2f} |" in PAGE and f"| {found.interval.low:.3f}–{found.interval.high:.3f} |" in PAGE
    slack = mean_slack([[[find_slack(HALF_DIGIT_S / a, HALF_DIGIT_S / b) for a, b in pairs]]])
    widened = widen_ratio(found.interval, slack)
    assert f"interval {widened.low:.2f}–{widened.high:.2f}×" in PAGE.replace("\n    ", " ")


def test_the_interval_of_rounds_that_may_end_early_is_the_repeated_one(pairs):
    interval = repeat_interval(list_log_ratios(pairs))
    slack = mean_slack([[[find_slack(HALF_DIGIT_S / a, HALF_DIGIT_S / b) for a, b in pairs]]])
    low, high = math.exp(interval.low - slack[0]), math.exp(interval.high + slack[1])
    assert f"The interval of the same pairs would be {low:.2f}–{high:.2f}×" in " ".join(PAGE.split())
