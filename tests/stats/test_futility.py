"""When rounds that are left would hardly decide: the chance that they do, and what giving up costs."""

import math

import numpy as np
import pytest
from scipy import stats

from benchmarks.simulate_candidates import claim_after, claim_at_looks, make_logs
from benchmarks.simulate_futility import COUNTS_FROM, MARGIN, chance_at_last, simulate
from speedproof.stats.sequential import CRITICAL, Question

DIFFERS = [(-MARGIN, MARGIN), (0.0, math.inf), (-math.inf, 0.0)]
NOISY = [0.3, -0.1, 0.2, -0.2, 0.1, 0.0, 0.25, -0.15]


def test_the_answer_is_the_region_that_holds_the_whole_interval():
    # Logs 0.1 ± 0.01: ± 6.21 × 0.011547 / 2 = 0.03585.
    quiet = [0.11, 0.09] * 2
    assert Question(quiet, DIFFERS).answer == 1
    assert Question([-value for value in quiet], DIFFERS).answer == 2
    assert Question(quiet, [(0.07, math.inf), (-math.inf, 0.07)]).answer is None
    assert Question(quiet, DIFFERS, slack=(0.07, 0.0)).answer is None
    assert Question(quiet[:3], DIFFERS).answer is None


def test_the_chance_is_that_of_the_predictive_distribution_as_simulated():
    values, rng = np.array(NOISY), np.random.default_rng(5)
    count, look, draws = len(values), 24, 400_000
    # A deviation and a mean that are as likely as any by these values, then the values to come.
    deviations = values.std(ddof=1) * np.sqrt((count - 1) / rng.chisquare(count - 1, draws))
    means = values.mean() + deviations / math.sqrt(count) * rng.standard_normal(draws)
    later = means + deviations / math.sqrt(look - count) * rng.standard_normal(draws)
    final = (count * values.mean() + (look - count) * later) / look
    # The interval of the lower 80 % limit of the deviation, which makes a decision likelier.
    lower = values.std(ddof=1) * math.sqrt((count - 1) / stats.chi2.ppf(0.8, count - 1))
    chance = np.mean(np.abs(final) > CRITICAL[look] * lower / math.sqrt(look))
    assert Question(NOISY, DIFFERS).chance_at(look) == pytest.approx(chance, abs=0.004)


def test_the_simulation_gives_up_what_the_rule_gives_up():
    logs = 0.01 + 0.05 * np.random.default_rng(6).standard_normal((20, 12))
    found = chance_at_last(logs.mean(axis=1), logs.std(axis=1, ddof=1), 12)
    assert found == pytest.approx([Question(row.tolist(), DIFFERS).chance_at(24) for row in logs], rel=1e-9)


def test_digits_that_hide_a_difference_leave_no_chance():
    assert Question([0.1] * 4, DIFFERS, slack=(0.2, 0.2)).chance_at(24) == 0
    assert Question([0.1] * 4, DIFFERS, slack=(0.05, 0.05)).chance_at(24) == 1


@pytest.mark.parametrize(("noise", "effect"), [(0.02, 0.01), (0.05, 0.02), (0.1, 0.05), (0.3, 0.1), (0.3, 0.2)])
def test_few_proofs_that_would_decide_rightly_are_given_up_and_no_false_claim_is_added(noise, effect):
    found = simulate(noise, effect, 10_000, np.random.default_rng(11))
    assert found.right > COUNTS_FROM
    assert found.given_up < 0.01
    assert found.wrong[1] <= found.wrong[0]


def test_proofs_without_an_effect_end_early_and_claim_less():
    found = simulate(0.1, 0.0, 10_000, np.random.default_rng(12))
    assert found.ended > 0.7 and found.rounds[1] < found.rounds[0] - 3
    assert found.wrong[1] <= found.wrong[0] <= 0.055


def test_the_number_of_rounds_that_would_decide_is_that_of_a_paired_t_test():
    # Mean 0.05, deviation 0.1757: Student's interval of n excludes 0 from t(n - 1) × 0.1757 / √n < 0.05 on.
    count = Question(NOISY, DIFFERS).count_fixed()
    mean, deviation = np.mean(NOISY), np.std(NOISY, ddof=1)
    assert stats.t.ppf(0.975, count - 1) * deviation / math.sqrt(count) <= mean
    assert stats.t.ppf(0.975, count - 3) * deviation / math.sqrt(count - 2) > mean
    assert Question([0.3, -0.3] * 4, DIFFERS).count_fixed() is None  # about 0, and too noisy to be equivalent below 1000


@pytest.mark.parametrize("candidates", [3, 25])
def test_joint_intervals_keep_the_chance_of_any_false_claim(candidates):
    logs = make_logs(candidates, 0.02, 2000, np.random.default_rng(13))
    tolerance = 4 * math.sqrt(0.05 * 0.95 / 2000)
    assert claim_at_looks(logs, candidates).mean() <= 0.05
    assert claim_after(logs, 4, candidates).mean() <= 0.05 + tolerance
    assert claim_after(logs, 4, 1).mean() > 0.1
