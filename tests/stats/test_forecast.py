"""How many pairs would decide a proof, and how often that comes true."""

import math
from collections import Counter
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.simulate_forecast import LOOKS, forecast, simulate
from speedproof.stats.estimates import judge_within_margin
from speedproof.stats.measurements import estimate_needed
from speedproof.stats.sequential import Design, Noise

STARTED = datetime(2026, 11, 26, tzinfo=UTC)
# A minute each.
RUN = SimpleNamespace(run=SimpleNamespace(started=STARTED.isoformat(), ended=(STARTED + timedelta(minutes=1)).isoformat()))


def needed(logs):
    """Return what would decide pairs with these log ratios, whose rounds can end at any look."""
    sample = SimpleNamespace(scope="here")
    found = SimpleNamespace(
        logs=logs, sample=sample, slack=(0.0, 0.0), design=Design(repeated=True), runs=[RUN] * 2 * len(logs)
    )
    return estimate_needed(found, lambda interval: judge_within_margin(interval, 0.02) != "inconclusive")


def vary(mean, deviation):
    """Return four values with this mean and sample deviation."""
    half = deviation * math.sqrt(3 / 4)
    return [mean - half, mean + half] * 2


def test_the_forecast_is_by_the_upper_limit_of_the_deviation():
    # The 20 % quantile of chi-squared with 3 degrees of freedom is 1.005, so the limit is 0.04 √(3 / 1.005) = 0.0691. Half
    # widths: 4.65 × 0.0691 / √6 = 0.131, which reaches 0, and 3.88 × 0.0691 / √8 = 0.0948. By 0.04 it would be 6 pairs.
    assert Noise(0.04, 3).limit == pytest.approx(0.0691, abs=1e-4)
    found = needed(vary(0.1, 0.04))
    assert (found.pairs, found.minutes) == (8, pytest.approx(4 * 2))


def test_what_not_even_24_pairs_decide_at_that_limit_has_no_forecast():
    # 2.51 × 0.0691 / √24 = 0.0354; by the measured deviation it would be 0.0205.
    assert needed(vary(0.036, 0.04)).pairs == 24
    assert needed(vary(0.034, 0.04)) is None


@pytest.mark.parametrize("kind", ["normal", "t with 3 degrees of freedom"])
def test_nearly_nine_in_ten_forecasts_come_true(kind):
    counts = Counter()
    for of_look in simulate(kind, 0.1, 4000, np.random.default_rng(4)).values():
        counts += of_look
    assert counts["limit, right"] / counts["limit"] > 0.84
    assert counts["measured, right"] / counts["measured"] < 0.76


def test_the_simulation_forecasts_as_proofs_do():
    rng = np.random.default_rng(7)
    for _ in range(50):
        logs = list(0.1 * (rng.uniform(0, 2) + rng.standard_normal(4)))
        told = forecast(np.array([np.mean(logs)]), np.array([Noise(float(np.std(logs, ddof=1)), 3).limit]), 4)[0]
        found = needed(logs)
        assert told == (found.pairs if found else 0) and told in (0, *LOOKS)
