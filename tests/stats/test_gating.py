"""What a gate makes of a judged claim, and how small a slowdown it can decide."""

import math
import random
from statistics import NormalDist, fmean, stdev

import pytest

from benchmarks.simulate_gate import judge_gate
from speedproof.stats.estimates import estimate_mean
from speedproof.stats.gating import GateLimits, decide_gate, detect_effect, read_deviation
from speedproof.stats.sequential import CRITICAL, Noise

ALLOWED, WANTED = GateLimits(0.03), GateLimits(0.03, 0.05)


def test_the_limits_are_ratios_of_base_to_head():
    assert ALLOWED.claimed == ALLOWED.slowest == pytest.approx(100 / 103)
    assert WANTED.claimed == pytest.approx(1.05)


@pytest.mark.parametrize(
    ("found", "high", "limits", "outcome"),
    [
        ("claim holds", 1.01, ALLOWED, "passed"),
        ("claim fails", 0.96, ALLOWED, "regression"),
        ("inconclusive", 1.01, ALLOWED, "inconclusive"),
        ("quality not established", 1.01, ALLOWED, "inconclusive"),
        ("worse quality", 1.01, ALLOWED, "worse quality"),
        ("claim holds", 1.09, WANTED, "passed"),
        ("claim fails", 1.01, WANTED, "no improvement"),
        ("claim fails", 0.98, WANTED, "no improvement"),
        ("claim fails", 0.96, WANTED, "regression"),
        ("inconclusive", 1.06, WANTED, "inconclusive"),
    ],
)
def test_the_outcome_follows_from_the_claim_and_the_interval(found, high, limits, outcome):
    assert decide_gate(found, high, limits) == outcome


def test_of_many_pairs_the_detectable_effect_is_that_of_normal_noise():
    """With a thousand pairs Student's interval is the normal one: (1.960 + 1.282) standard errors."""
    noise = Noise(0.02, 10**7)  # so well known that its limit is the noise itself
    expected = math.expm1((NormalDist().inv_cdf(0.975) + NormalDist().inv_cdf(0.9)) * 0.02 / math.sqrt(1000))
    assert detect_effect(noise, 1000, repeated=False) == math.ceil(expected * 10_000) / 10_000 == 0.0021


@pytest.mark.parametrize("pairs", [4, 12, 24])
def test_nine_gates_in_ten_pass_at_the_detectable_effect(pairs):
    noise, drawn = Noise(0.01, 10**7), random.Random(1)
    limit = -math.log1p(detect_effect(noise, pairs))  # rounded up to two digits, so it passes a little more often
    passed = 0
    for _ in range(4000):
        logs = [drawn.gauss(0, 0.01) for _ in range(pairs)]
        passed += fmean(logs) - CRITICAL[pairs] * stdev(logs) / math.sqrt(pairs) >= limit
    assert 0.88 < passed / 4000 < 0.94


def test_the_deviation_is_read_back_from_the_interval():
    logs = [0.01, -0.02, 0.005, 0.013]
    interval = estimate_mean(logs).interval
    assert read_deviation(math.exp(interval.low), math.exp(interval.high), 4) == pytest.approx(stdev(logs))


def test_a_simulated_gate_is_judged_by_the_rule_of_real_ones():
    """At four pairs of deviation 0.001155 the interval is ± 6.21 · 0.001155 / 2 = 0.0036; the limit is -0.0296."""
    around = [0.001, -0.001] * 12
    assert judge_gate(around) == (True, 4)
    assert judge_gate([log - 0.035 for log in around]) == (False, 4)
    assert judge_gate([log - 0.0296 for log in around])[0] is None
