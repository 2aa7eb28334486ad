import math

import numpy as np
import pytest
from scipy import stats

from benchmarks.simulate_stopping import ERROR as SPENT
from benchmarks.simulate_stopping import LOOKS, find_critical, miss_rate
from speedproof.results import experiment as records
from speedproof.stats.sequential import CRITICAL, ERROR, JOINT_CRITICAL, MOST_PAIRS, critical_values, repeat_interval

PATHS = 60_000


def test_experiments_may_end_at_these_looks():
    assert tuple(CRITICAL) == records.LOOKS


def test_the_first_look_is_students_quantile():
    assert CRITICAL[4] == pytest.approx(stats.t.ppf(1 - 0.05 * 4 / 24 / 2, df=3), abs=0.03)


def test_a_smaller_simulation_finds_the_same_table_within_its_error():
    assert (tuple(CRITICAL), ERROR) == (LOOKS, SPENT)
    found = find_critical(PATHS, np.random.default_rng(7))
    for look, value in CRITICAL.items():
        # At each look 1/120 to 1/60 of the paths leave: the quantile's error is that of so many over the density there.
        assert found[look] == pytest.approx(value, rel=0.04), look


def test_the_truth_is_missed_as_rarely_as_was_spent():
    for look, rate in miss_rate(CRITICAL, PATHS, np.random.default_rng(8)).items():
        spent = ERROR * look / MOST_PAIRS
        assert rate == pytest.approx(spent, abs=4 * math.sqrt(spent / PATHS) + 0.0002), look


@pytest.mark.parametrize("comparisons", [2, 3, 10, 25, 40])
def test_each_of_several_joint_intervals_misses_as_rarely_as_its_share(comparisons):
    rates = miss_rate(critical_values(comparisons), PATHS, np.random.default_rng(comparisons))
    spent = ERROR / comparisons
    assert rates[MOST_PAIRS] <= spent + 4 * math.sqrt(spent / PATHS)
    if comparisons in JOINT_CRITICAL:  # beyond the table they are only never too narrow
        assert rates[MOST_PAIRS] >= spent - 4 * math.sqrt(spent / PATHS)
    # The first look is Student's quantile of what it spends.
    assert critical_values(comparisons)[4] == pytest.approx(stats.t.ppf(1 - spent * 4 / 24 / 2, df=3), rel=0.01)


def test_between_two_numbers_of_the_table_the_larger_one_counts():
    assert critical_values(11) == critical_values(12) and critical_values(1) == CRITICAL
    assert critical_values(26)[24] > critical_values(25)[24]


def test_one_who_looks_with_students_quantile_each_time_misses_far_more():
    plain = {look: float(stats.t.ppf(0.975, look - 1)) for look in LOOKS}
    assert miss_rate(plain, PATHS, np.random.default_rng(9))[MOST_PAIRS] > 0.15


def test_the_interval_is_that_of_the_latest_look():
    assert repeat_interval([0.1, 0.2, 0.1]) is None
    # Mean 0.2, deviation 0.1 × √(4/3), four pairs.
    values = [0.1, 0.3, 0.1, 0.3]
    interval = repeat_interval(values)
    assert interval is not None
    assert interval.high - 0.2 == pytest.approx(CRITICAL[4] * 0.1 * math.sqrt(4 / 3) / 2)
    assert repeat_interval([*values, 9.0]) == interval
    assert repeat_interval([*values, 0.1, 0.3]) != interval
    with pytest.raises(ValueError, match="25 pairs"):
        repeat_interval([0.1] * 25)
