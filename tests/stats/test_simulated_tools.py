"""What docs/simulations.md says of other tools: their rules by hand and by scipy, and what noise makes of them."""

import math

import numpy as np
import pytest
from scipy import stats

from benchmarks.noise import KINDS
from benchmarks.simulate_tools import (
    PAGE,
    TABLE,
    TOOLS,
    conclude,
    decide_by_gap,
    decide_by_noise,
    decide_by_pooled_t,
    decide_by_rank,
    name_faster,
    name_faster_beyond_deviation,
    prove_all_rounds,
    prove_by_looks,
    simulate_in_turn,
    simulate_rounds,
    tabulate,
)
from benchmarks.tables import read_table
from speedproof.stats.sequential import ERROR

PROOFS = 1000
SLACK = 3 * math.sqrt(ERROR * (1 - ERROR) / PROOFS)
# Of mean 1, 1.02 and 1.2, and of a deviation of 0.1 · √(24 / 23) = 0.1022.
SPREAD = np.tile([0.9, 1.1], 12)
TIMES = {"1.00": SPREAD, "1.02": SPREAD + 0.02, "1.20": SPREAD + 0.2}


def kind_of(name):
    return next(kind for kind in KINDS if kind.name == name)


def tool_of(name):
    return next(tool for tool in TOOLS if tool.name == name)


def signs_of(decide, reference, candidate):
    return decide(TIMES[reference][None], TIMES[candidate][None]).item()


def draw_times():
    rng = np.random.default_rng(7)
    return np.exp(0.02 * rng.standard_normal((400, 24))), np.exp(0.02 * rng.standard_normal((400, 24)) - 0.01)


@pytest.mark.parametrize("decide", [decide_by_pooled_t, name_faster_beyond_deviation, decide_by_noise])
def test_a_small_difference_is_none_and_a_large_one_has_its_direction(decide):
    # t = 0.02 / (0.1022 · √(2 / 24)) = 0.68 and 6.8, of 2.02. Ratio 1.02 ± 0.143, and 1.2 ± 0.160. Noise of 10.2 or 8.5 %.
    assert signs_of(decide, "1.02", "1.00") == signs_of(decide, "1.00", "1.02") == 0
    assert signs_of(decide, "1.20", "1.00") == 1
    assert signs_of(decide, "1.00", "1.20") == -1


def test_the_lower_mean_is_always_called_the_faster():
    assert [signs_of(name_faster, "1.02", other) for other in ("1.00", "1.02", "1.20")] == [1, 0, -1]


def test_a_gap_is_one_between_the_least_time_and_the_other_third_quartile():
    # Of 24 values the 18th is the third quartile: 1.1. Half a percent above it is 1.1055.
    def after(least):
        return decide_by_gap(np.linspace(least, 2, 24)[None], TIMES["1.00"][None]).item()

    assert (after(1.1054), after(1.1056)) == (0, 1)
    assert decide_by_gap(TIMES["1.00"][None], np.linspace(1.2, 2, 24)[None]).item() == -1
    beyond = np.append(np.ones(18), np.full(6, 3.0))
    assert decide_by_gap(np.full((1, 24), 1.01), beyond[None]).item() == 1


def test_the_pooled_t_test_is_that_of_scipy():
    reference, candidate = draw_times()
    p = stats.ttest_ind(reference, candidate, axis=1).pvalue
    near = np.abs(p - ERROR) < 0.002  # 2.021 of the table is 2.013 exactly
    assert ((decide_by_pooled_t(reference, candidate) != 0) == (p <= ERROR))[~near].all()
    assert near.sum() < 10


def test_the_u_test_is_that_of_scipy_row_by_row():
    reference, candidate = (times[:40] for times in draw_times())
    expected = [stats.mannwhitneyu(*pair, method="exact").pvalue <= ERROR for pair in zip(reference, candidate, strict=True)]
    assert (decide_by_rank(reference, candidate) != 0).tolist() == expected
    assert 0 < sum(expected) < 40


@pytest.mark.parametrize("name", ["pyperf compare_to", "benchstat"])
def test_a_drift_fools_tests_of_runs_in_turn_and_not_of_interleaved_ones(name):
    tool, kind = tool_of(name), kind_of("drift")
    assert (conclude(tool, simulate_in_turn(kind, PROOFS, 0.04)) == -1).mean() > 0.99
    assert (conclude(tool, simulate_rounds(kind, PROOFS).split()) != 0).mean() < 0.01


@pytest.mark.parametrize("name", ["pyperf compare_to", "benchstat"])
def test_a_test_at_5_percent_errs_as_often_if_noise_is_normal(name):
    falsely = (conclude(tool_of(name), simulate_in_turn(kind_of("normal"), PROOFS)) != 0).mean()
    assert abs(falsely - ERROR) <= SLACK


@pytest.mark.parametrize("name", ["normal", "drift", "autocorrelated", "bursts", "steps"])
def test_this_rule_keeps_its_error_and_the_direction(name):
    equal, faster = (simulate_rounds(kind_of(name), PROOFS, effect) for effect in (0, 0.04))
    assert (prove_by_looks(equal)[0] != 0).mean() <= ERROR + SLACK
    assert (prove_all_rounds(equal) != 0).mean() <= ERROR + SLACK
    assert (prove_by_looks(faster)[0] == 1).mean() > 0.8
    assert (prove_by_looks(faster)[0] == -1).mean() < 0.005


def test_the_page_has_the_tables_of_the_tools():
    written, made = (list_labels(text) for text in (read_table(PAGE, *TABLE), tabulate(40)))
    assert written == made


def list_labels(text):
    return [line.split("|")[:3] for line in text.splitlines() if not line.startswith("Simulated: ")]
