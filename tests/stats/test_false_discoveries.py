import numpy as np
import pytest
from scipy import stats

from benchmarks.simulate_campaigns import TRIES, decide_by_looks, place_gains, run_campaigns
from speedproof.stats.estimates import two_sided_quantile
from speedproof.stats.false_discoveries import count_comparisons


@pytest.mark.parametrize(("kept", "comparisons"), [(0, 25), (1, 25), (2, 13), (5, 5), (25, 1), (40, 1)])
def test_each_kept_change_adds_the_error_of_one(kept, comparisons):
    # 5 % of 50 tries is 0.1 % each, which is what lies below an interval of 5 % / 25: 2.5 % / 25.
    assert count_comparisons(50, kept) == comparisons


def test_a_campaign_of_one_try_is_a_one_sided_test_at_five_percent_or_less():
    assert count_comparisons(1, 0) == 1
    assert two_sided_quantile(23, 0.05) == pytest.approx(2.069, abs=1e-3)  # table of Student's t


def test_of_campaigns_in_which_nothing_helps_one_in_twenty_keeps_a_change():
    rng = np.random.default_rng(5)
    kept, _ = run_campaigns(decide_by_looks, 0.1, np.zeros((400, TRIES)), 400, rng)
    assert stats.binomtest(int(kept.any(axis=1).sum()), 400, 0.05, alternative="greater").pvalue > 0.01


def test_large_gains_are_kept_and_few_of_the_kept_are_false():
    rng = np.random.default_rng(6)
    gains = place_gains(0.10, 10, 200, rng)
    assert ((gains > 0).sum(axis=1) == 10).all()
    kept, _ = run_campaigns(decide_by_looks, 0.02, gains, 200, rng)
    assert kept[gains > 0].mean() > 0.99
    assert kept[gains == 0].sum() / kept.sum() < 0.05
