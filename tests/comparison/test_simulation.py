"""What docs/statistics.md says of intervals and claims, on fewer experiments and with a fixed seed."""

import math

import numpy as np
import pytest

from benchmarks.simulate_intervals import BLOCK_MACHINE, MACHINES, bootstrap_false_claims, simulate

EXPERIMENTS = 1500
# Three standard errors of a share of 5 % of that many.
SLACK = 3 * math.sqrt(0.05 * 0.95 / EXPERIMENTS)


@pytest.fixture
def rng():
    return np.random.default_rng(6)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
@pytest.mark.parametrize("repeats", [3, 5, 10])
def test_no_difference_is_claimed_in_at_most_five_percent(machine, repeats, rng):
    rates = simulate(machine, 1.0, 1, repeats, EXPERIMENTS, rng)
    assert rates.claimed <= 0.05 + SLACK
    assert rates.coverage == pytest.approx(1 - rates.claimed)


def test_blocks_that_differ_do_not_add_false_claims(rng):
    for blocks, repeats in ((2, 5), (3, 3)):
        assert simulate(BLOCK_MACHINE, 1.0, blocks, repeats, EXPERIMENTS, rng).claimed <= 0.05 + SLACK


def test_ten_percent_are_found_from_five_repeats_on(rng):
    rates = simulate(MACHINES[0], 1.1, 1, 5, EXPERIMENTS, rng)
    assert rates.claimed > 0.95
    assert rates.coverage >= 0.95 - SLACK


def test_a_percentile_bootstrap_would_claim_too_much(rng):
    assert bootstrap_false_claims(3, EXPERIMENTS, rng) > 0.2
