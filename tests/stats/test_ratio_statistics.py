import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from speedproof.stats.estimates import (
    Interval,
    estimate_level,
    estimate_ratio,
    estimate_ratio_over_hosts,
)

SECONDS = st.floats(min_value=1e-3, max_value=1e4)
PAIRS = st.lists(st.tuples(SECONDS, SECONDS), min_size=2, max_size=12)


def test_interval_of_three_pairs_worked_out_by_hand():
    # Log ratios 0.1, 0.2, 0.3: mean 0.2, deviation 0.1, t(2 degrees, 97.5 %) = 4.302653, half width 4.302653 × 0.1 / √3.
    pairs = [(math.exp(0.1), 1.0), (2 * math.exp(0.2), 2.0), (math.exp(0.3), 1.0)]
    estimate = estimate_ratio(pairs)
    interval = estimate.interval
    assert interval is not None
    assert interval.low == pytest.approx(math.exp(0.2 - 0.248414), rel=1e-5)
    assert interval.high == pytest.approx(math.exp(0.2 + 0.248414), rel=1e-5)
    assert estimate.centre == pytest.approx(math.exp(0.2))


def test_a_single_pair_has_no_interval():
    assert estimate_ratio([(2.0, 1.0)]).centre == pytest.approx(2)
    assert ratio_interval([(2.0, 1.0)]) is None


def ratio_interval(pairs):
    return estimate_ratio(pairs).interval


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
def test_exchanging_the_variants_gives_the_reciprocal(pairs):
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


def test_interval_over_hosts_worked_out_by_hand():
    # Means of the hosts' log ratios 0.1, 0.2 (its experiments' 0.1 and 0.3) and 0.3: as of three pairs above.
    hosts = [[[(math.exp(0.1), 1.0)] * 2], [[(math.exp(0.1), 1.0)] * 5, [(math.exp(0.3), 1.0)]], [[(math.exp(0.3), 1.0)]]]
    estimate = estimate_ratio_over_hosts(hosts)
    assert estimate.centre == pytest.approx(math.exp(0.2))
    assert math.log(estimate.interval.low) == pytest.approx(0.2 - 0.248414, abs=1e-5)
    assert math.log(estimate.interval.high) == pytest.approx(0.2 + 0.248414, abs=1e-5)


@given(st.lists(PAIRS, min_size=3, max_size=6), st.integers(2, 9))
def test_more_pairs_of_one_host_do_not_make_it_speak_louder(hosts, times):
    once = estimate_ratio_over_hosts([[pairs] for pairs in hosts])
    often = estimate_ratio_over_hosts([[hosts[0] * times], *([pairs] for pairs in hosts[1:])])
    assert often.centre == pytest.approx(once.centre)
    assert often.interval.low == pytest.approx(once.interval.low, rel=1e-6)


@given(st.lists(st.tuples(SECONDS, SECONDS, SECONDS, SECONDS), min_size=2, max_size=12))
def test_the_steps_of_an_ablation_multiply_to_its_whole(rounds):
    steps = [estimate_ratio([(times[stage], times[stage + 1]) for times in rounds]).centre for stage in range(3)]
    assert math.prod(steps) == pytest.approx(estimate_ratio([(times[0], times[3]) for times in rounds]).centre)


@given(PAIRS)
def test_the_centre_of_exchanged_variants_is_the_reciprocal(pairs):
    assert estimate_ratio([(below, above) for above, below in pairs]).centre == pytest.approx(1 / estimate_ratio(pairs).centre)


def test_a_level_in_seconds_is_of_logarithms_and_a_share_is_clipped():
    # log 2 ± t(1 degree) × deviation log 4 / √2 / √2: e^(0.693147 ± 12.706205 × 0.693147).
    seconds = estimate_level([[1.0], [4.0]], share=False)
    assert seconds.centre == pytest.approx(2)
    assert seconds.interval.high == pytest.approx(2 * math.exp(12.706205 * 0.693147), rel=1e-5)
    share = estimate_level([[0.9], [0.98]], share=True)
    # 0.94 ± 12.706205 × 0.0565685 / √2
    assert share.centre == pytest.approx(0.94)
    assert (share.interval.low, share.interval.high) == pytest.approx((0.94 - 0.508248, 1.0), abs=1e-5)
    assert estimate_level([[0.0], [2.0]], share=False).interval.low < 0  # a level that may be 0 has no logarithm
