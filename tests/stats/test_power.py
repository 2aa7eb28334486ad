import math

import numpy as np
import pytest
from scipy import stats

from speedproof.stats.sequential import POWER, Noise, count_rounds, find_power, pool_noise


def test_noise_is_about_each_experiments_own_mean():
    # Deviations from the means 0.2 and 0.5: 0.1, -0.1; 0.1, 0, -0.1. Squares 0.04, degrees 1 + 2.
    noise = pool_noise([[0.3, 0.1], [0.6, 0.5, 0.4], [9.0]])
    assert (noise.deviation, noise.degrees) == (pytest.approx(math.sqrt(0.04 / 3)), 3)
    assert pool_noise([[0.1], []]) is None


def test_the_upper_limit_of_a_four_round_pilot_worked_out_by_a_table():
    # The 20 % quantile of chi-squared at 3 degrees is 1.005 in tables: 0.01 × √(3 / 1.005).
    assert Noise(0.01, 3).limit == pytest.approx(0.01 * math.sqrt(3 / 1.005), rel=1e-3)


def test_of_the_pilots_four_in_five_have_a_limit_above_the_truth():
    pilots = np.random.default_rng(3).normal(0, 0.02, (20_000, 4))
    factor = Noise(1.0, 3).limit
    above = np.mean(factor * pilots.std(axis=1, ddof=1) > 0.02)
    assert above == pytest.approx(0.80, abs=4 * math.sqrt(0.16 / 20_000))


def test_power_is_what_simulated_experiments_find():
    for rounds, difference, deviation in ((4, 0.05, 0.02), (10, 0.02, 0.02), (6, 0.10, 0.06)):
        logs = np.random.default_rng(4).normal(math.log1p(difference), deviation, (40_000, rounds))
        edge = stats.t.ppf(0.975, rounds - 1) * logs.std(axis=1, ddof=1) / math.sqrt(rounds)
        found = np.mean(logs.mean(axis=1) > edge)
        assert find_power(rounds, difference, deviation) == pytest.approx(found, abs=4 * math.sqrt(0.25 / 40_000))


def test_the_rounds_are_the_fewest_even_ones_that_have_the_power():
    # In tables of the paired t test a shift of one deviation takes 13 pairs for a power of 0.9 at 5 %; even: 14.
    assert count_rounds(math.expm1(0.02), 0.02) == 14
    for difference in (0.02, 0.05, 0.10):
        for deviation in (0.003, 0.02, 0.05):
            count = count_rounds(difference, deviation)
            assert find_power(count, difference, deviation) >= POWER
            assert count == 4 or find_power(count - 2, difference, deviation) < POWER
    assert count_rounds(0.02, 1.0) is None
    assert count_rounds(0.02, 0.0) == 4
