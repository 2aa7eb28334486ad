import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from speedproof.analysis.statistics import Interval, median_ratio, merged_interval, ratio_interval

SECONDS = st.floats(min_value=1e-3, max_value=1e4)
PAIRS = st.lists(st.tuples(SECONDS, SECONDS), min_size=2, max_size=12)


def test_interval_of_three_pairs_worked_out_by_hand():
    # Log ratios 0.1, 0.2, 0.3: mean 0.2, deviation 0.1, t(2 degrees, 97.5 %) = 4.302653, half width 4.302653 × 0.1 / √3.
    pairs = [(math.exp(0.1), 1.0), (2 * math.exp(0.2), 2.0), (math.exp(0.3), 1.0)]
    interval = ratio_interval(pairs)
    assert interval is not None
    assert interval.low == pytest.approx(math.exp(0.2 - 0.248414), rel=1e-5)
    assert interval.high == pytest.approx(math.exp(0.2 + 0.248414), rel=1e-5)
    assert median_ratio(pairs) == pytest.approx(math.exp(0.2))


def test_fewer_than_two_pairs_have_no_interval():
    assert ratio_interval([]) is None
    assert ratio_interval([(2.0, 1.0)]) is None


def test_an_interval_holds_its_ends_and_nothing_beyond():
    interval = Interval(0.9, 1.1)
    assert interval.holds(0.9) and interval.holds(1.0) and interval.holds(1.1)
    assert not interval.holds(0.89) and not interval.holds(1.11)


@pytest.mark.filterwarnings("ignore:Precision loss")
@given(PAIRS)
def test_interval_equals_scipys_on_the_log_ratios(pairs):
    logs = [math.log(above / below) for above, below in pairs]
    expected = stats.ttest_1samp(logs, 0.0).confidence_interval(0.95)
    interval = ratio_interval(pairs)
    assert interval is not None
    if math.isnan(expected.low):  # scipy gives up on values without any spread
        assert interval.low == interval.high == pytest.approx(math.exp(logs[0]))
    else:
        assert math.log(interval.low) == pytest.approx(expected.low, abs=1e-9)
        assert math.log(interval.high) == pytest.approx(expected.high, abs=1e-9)


@given(PAIRS)
def test_exchanging_the_sides_gives_the_reciprocal(pairs):
    interval, exchanged = ratio_interval(pairs), ratio_interval([(below, above) for above, below in pairs])
    assert interval is not None and exchanged is not None
    assert exchanged.low == pytest.approx(1 / interval.high)
    assert exchanged.high == pytest.approx(1 / interval.low)


@given(PAIRS, st.floats(min_value=0.01, max_value=100))
def test_a_drift_that_slows_both_runs_of_a_pair_changes_nothing(pairs, factor):
    drifted = [(above * factor, below * factor) if number else (above, below) for number, (above, below) in enumerate(pairs)]
    before, after = ratio_interval(pairs), ratio_interval(drifted)
    assert before is not None and after is not None
    assert (after.low, after.high) == pytest.approx((before.low, before.high))


def test_interval_over_blocks_worked_out_by_hand():
    # Means of the blocks' log ratios 0.1 and 0.3: t(1 degree, 97.5 %) = 12.706205, deviation 0.141421, half width 1.270620.
    # All four: mean 0.2, deviation 0.115470, t(3) = 3.182446, half width 0.183739. The wider one holds.
    blocks = [[(math.exp(0.1), 1.0)] * 2, [(math.exp(0.3), 1.0)] * 2]
    interval = merged_interval(blocks)
    assert interval is not None
    assert math.log(interval.low) == pytest.approx(0.2 - 1.270620, abs=1e-5)
    assert math.log(interval.high) == pytest.approx(0.2 + 1.270620, abs=1e-5)


@given(PAIRS)
def test_one_block_or_one_pair_a_block_is_the_plain_interval(pairs):
    assert merged_interval([pairs]) == merged_interval([pairs, []]) == ratio_interval(pairs)
    assert merged_interval([[pair] for pair in pairs]) == ratio_interval(pairs)


@given(st.lists(PAIRS, min_size=2, max_size=4))
def test_the_interval_over_blocks_holds_that_of_all_pairs(blocks):
    merged, plain = merged_interval(blocks), ratio_interval([pair for block in blocks for pair in block])
    assert merged is not None and plain is not None
    assert merged.low <= plain.low <= plain.high <= merged.high
