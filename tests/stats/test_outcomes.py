"""What an interval says, at every edge."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from speedproof.stats.estimates import Interval, count_needed, judge_interval, judge_within_margin

INF = math.inf
FINITE = st.floats(-1e6, 1e6)
RATIOS = st.floats(0.5, 2)


@pytest.mark.parametrize(
    ("low", "high", "expected", "verdict"),
    [
        (1.7, 2.3, (1.7, 2.3), "reproduced"),
        (1.8, 1.9, (1.7, 2.3), "reproduced"),
        (1.69, 2.0, (1.7, 2.3), "inconclusive"),
        (2.0, 2.31, (1.7, 2.3), "inconclusive"),
        (2.3, 2.4, (1.7, 2.3), "inconclusive"),
        (2.31, 2.4, (1.7, 2.3), "exceeded"),
        (1.5, 1.7, (1.7, 2.3), "inconclusive"),
        (1.5, 1.69, (1.7, 2.3), "not reproduced here"),
        (0.63, 3.32, (1.7, 2.3), "inconclusive"),
        (50, 1e9, (50, INF), "reproduced"),
        (49, 60, (50, INF), "inconclusive"),
        (40, 49, (50, INF), "not reproduced here"),
        (1, 2, (-INF, 5), "reproduced"),
        (6, 7, (-INF, 5), "exceeded"),
    ],
)
def test_an_interval_is_judged_by_both_of_its_ends(low, high, expected, verdict):
    assert judge_interval(Interval(low, high), expected) == verdict


@pytest.mark.parametrize(
    ("low", "high", "expected", "verdict"),
    [
        (12, 14, (12, 14), "reproduced"),
        (10, 11.9, (12, 14), "exceeded"),
        (14.1, 15, (12, 14), "not reproduced here"),
        (11, 13, (12, 14), "inconclusive"),
        (1, 4, (-INF, 5), "reproduced"),
        (6, 7, (-INF, 5), "not reproduced here"),
        (6, 7, (5, INF), "reproduced"),
        (3, 4, (5, INF), "exceeded"),
    ],
)
def test_where_lower_is_better_it_is_mirrored(low, high, expected, verdict):
    assert judge_interval(Interval(low, high), expected, better="lower") == verdict


@given(st.tuples(FINITE, FINITE).map(sorted), st.tuples(FINITE, FINITE).map(sorted))
def test_a_verdict_says_where_every_value_of_the_interval_lies(ends, documented):
    (low, high), (least, most) = ends, documented
    verdict = judge_interval(Interval(low, high), (least, most))
    inside = [least <= end <= most for end in ends]
    assert (verdict == "reproduced") == all(inside)
    assert (verdict == "exceeded") == (low > most)
    assert (verdict == "not reproduced here") == (high < least)
    assert judge_interval(Interval(-high, -low), (-most, -least), better="lower") == verdict


@given(st.tuples(FINITE, FINITE).map(sorted), st.tuples(FINITE, FINITE).map(sorted), st.sampled_from([(0, 0), (0, 1), (1, 1)]))
def test_at_the_edges_themselves_the_documented_end_belongs_to_the_range(ends, documented, shared):
    """Each end of the interval is put on one of the range's ends."""
    least, most = documented
    assume(least < most)
    low, high = (documented[number] for number in shared)
    assert judge_interval(Interval(low, high), (least, most)) == "reproduced"
    beyond = math.nextafter(most, INF)
    assert judge_interval(Interval(beyond, beyond), (least, most)) == "exceeded"
    assert judge_interval(Interval(most, beyond), (least, most)) == "inconclusive"
    below = math.nextafter(least, -INF)
    assert judge_interval(Interval(below, below), (least, most)) == "not reproduced here"
    assert judge_interval(Interval(below, least), (least, most)) == "inconclusive"


@given(st.tuples(FINITE, FINITE).map(sorted), FINITE)
def test_nothing_exceeds_a_range_that_is_open_upwards(ends, least):
    verdict = judge_interval(Interval(*ends), (least, INF))
    assert verdict != "exceeded"
    assert (verdict == "reproduced") == (least <= ends[0])


@given(st.tuples(RATIOS, RATIOS).map(sorted), st.tuples(FINITE, FINITE).map(sorted))
def test_a_wider_interval_never_decides_otherwise(ends, documented):
    narrow, wide = Interval(*ends), Interval(ends[0] - 0.1, ends[1] + 0.1)
    assert judge_interval(wide, tuple(documented)) in ("inconclusive", judge_interval(narrow, tuple(documented)))


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        (1.001, 1.5, "faster"),
        (1.0, 1.5, "inconclusive"),
        (0.5, 1.0, "inconclusive"),
        (0.5, 0.999, "slower"),
        (0.99, 1.01, "equivalent"),
        (1.005, 1.02, "equivalent"),
        (1.005, 1.021, "faster"),
        (0.97, 1.01, "inconclusive"),
        (1 / 1.02, 1.02, "equivalent"),
    ],
)
def test_two_variants_are_the_same_only_within_the_margin(low, high, outcome):
    assert judge_within_margin(Interval(low, high), 0.02) == outcome


@given(st.tuples(RATIOS, RATIOS).map(sorted), st.floats(0.001, 0.5))
def test_of_exchanged_variants_the_reverse_is_said(ends, margin):
    low, high = ends
    edges = (1 / (1 + margin), 1.0, 1 + margin)
    assume(all(abs(end / edge - 1) > 1e-9 for end in ends for edge in edges))  # 1 / (1 / x) may be x's neighbour
    turned = {"faster": "slower", "slower": "faster"}
    outcome = judge_within_margin(Interval(low, high), margin)
    assert judge_within_margin(Interval(1 / high, 1 / low), margin) == turned.get(outcome, outcome)


def test_the_pairs_that_would_decide_worked_out_by_hand():
    # Deviation 0.1 about 0.08: 0.08 > t s / √n. n = 8: 2.365 × 0.1 / 2.828 = 0.0836; n = 10: 2.262 × 0.1 / 3.162 = 0.0715.
    values = [0.08 - 0.1 * math.sqrt(0.75), 0.08 + 0.1 * math.sqrt(0.75)] * 2  # sample deviation of four: × √(4/3)
    assert count_needed(values, lambda interval: interval.low > 0, least=4, step=2) == 10
    assert count_needed([-1.0, 1.0], lambda interval: interval.low > 0, least=4, step=2) is None


def test_pairs_that_would_decide_come_in_twos_and_are_four_or_more():
    def count(values, least, step):
        return count_needed(values, lambda interval: True, least, step)

    assert [count([0.1] * many, 4, 2) for many in (2, 3, 4, 5, 6)] == [4, 4, 6, 6, 8]
    assert [count([0.1] * many, 3, 1) for many in (2, 3)] == [3, 4]
