"""What docs/simulations.md shows of the order of runs, of fewer proofs: noise at regular times, and what one run leaves."""

import math

import numpy as np
import pytest

from benchmarks.noise import KINDS, Kind
from benchmarks.simulate_orders import (
    CHOSEN,
    DESIGNS,
    EARLIER,
    EFFECT,
    PAGE,
    TABLE,
    compare_rules_of_several,
    differ_by_rank,
    differ_by_rank_at,
    measure,
    prove,
    simulate_several,
    tabulate,
)
from benchmarks.tables import read_table
from speedproof.stats.sequential import ERROR

PROOFS = 1000
SLACK = 3 * math.sqrt(ERROR * (1 - ERROR) / PROOFS)


def kind_of(name):
    return next(kind for kind in KINDS if kind.name == name)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.promised], ids=lambda kind: kind.name)
def test_equal_variants_are_rarely_called_different_whatever_the_noise(kind):
    found = prove(kind, PROOFS)
    assert found.claimed <= ERROR + SLACK
    assert found.contested <= 0.01


@pytest.mark.parametrize("period", [4, 8])
def test_one_order_for_all_proofs_met_noise_of_its_own_period(period):
    kind = kind_of(f"slow every {period} runs")
    assert measure(kind, DESIGNS[EARLIER], PROOFS).looks > 0.08 > ERROR + SLACK > measure(kind, DESIGNS[CHOSEN], PROOFS).looks


def test_a_candidate_that_profits_from_the_reference_is_mostly_found():
    found = prove(kind_of("candidate faster after the reference"), 300)
    assert found.claimed < 0.3 and found.contested > 0.7
    found = prove(kind_of("faster after the reference"), 300)
    assert found.claimed < 0.05 and found.contested > 0.7


def test_differences_are_found_and_not_contested():
    found = prove(kind_of("normal"), 300, 0.04)
    assert found.claimed > 0.97 and found.contested < 0.03


def test_a_u_test_is_that_of_the_rounds_that_a_proof_had():
    # Of 4 and 4 values, none of which lies among the others, U is 0: a chance of 2 / 70. One step further it is 4 / 70.
    apart, mixed = [[1.0, 2, 3, 4], [5.0, 6, 7, 8]], [[1.0, 2, 3, 5], [4.0, 6, 7, 8]]
    first, second = np.array([apart[0], mixed[0]]), np.array([apart[1], mixed[1]])
    assert differ_by_rank(first, second).tolist() == [True, False]
    # Of 3 and 3, U of 0 has a chance of 2 / 20.
    assert differ_by_rank_at(first, second, np.array([3, 4])).tolist() == [False, False]
    assert differ_by_rank_at(first, second, np.array([4, 3])).tolist() == [True, False]


def test_values_that_are_equal_have_shared_ranks():
    # U is 0.5 where 8 is expected, and its variance 16 / 12 · (9 - 6 / 56) = 11.86: z = (7.5 - 0.5) / √11.86 = 2.03.
    first, second = np.array([[1.0, 2, 3, 4]]), np.array([[4.0, 5, 6, 7]])
    assert differ_by_rank(first, second).tolist() == [True]
    assert differ_by_rank(np.array([[1.0, 2, 4, 4]]), second).tolist() == [False]


def test_a_u_test_of_several_commands_errs_more_often_than_joint_intervals():
    found = compare_rules_of_several(kind_of("normal"), 3, PROOFS)
    assert found.rule <= ERROR + SLACK < found.ranks_all
    assert compare_rules_of_several(kind_of("normal"), 3, PROOFS, EFFECT).rule > 0.97


def test_several_commands_run_in_the_order_of_the_plan():
    # Each run takes longer than the one before it, whichever command it is: balanced over four rounds, none is the slower.
    climbing = Kind("climbing", lambda rng, runs: np.tile(np.arange(runs.shape[1], dtype=float), (len(runs), 1)))
    times = simulate_several(climbing, 3, 5, np.random.default_rng(1))
    assert times.shape == (5, 4, 24)
    assert all(sorted(times[proof].ravel()) == list(range(96)) for proof in range(5))
    assert {tuple(row) for row in times[:, :, :4].mean(axis=2)} == {(7.5, 7.5, 7.5, 7.5)}
    faster = simulate_several(climbing, 3, 5, np.random.default_rng(1), 0.5)
    assert (times - faster).mean(axis=(0, 2)).tolist() == [0, 0.5, 0, 0]


def test_the_page_has_the_tables():
    written, made = (list_first_cells(text) for text in (read_table(PAGE, *TABLE), tabulate(10)))
    assert written == made


def list_first_cells(text):
    return [line.split("|")[:2] for line in text.splitlines() if not line.startswith("Simulated: ")]
