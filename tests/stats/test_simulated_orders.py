"""What docs/simulations.md shows of the order of runs, of fewer proofs: noise at regular times, and what one run leaves."""

import math

import pytest

from benchmarks.simulate_orders import CHOSEN, DESIGNS, KINDS, PAGE, TABLE, measure, prove, tabulate
from benchmarks.tables import read_table
from speedproof.stats.sequential import ERROR

PROOFS = 1000
SLACK = 3 * math.sqrt(ERROR * (1 - ERROR) / PROOFS)
OLD = "until now: one order"


def kind_of(name):
    return next(kind for kind in KINDS if kind.name == name)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.carries_over], ids=lambda kind: kind.name)
def test_equal_variants_are_rarely_called_different_whatever_the_noise(kind):
    found = prove(kind, PROOFS)
    assert found.claimed <= ERROR + SLACK
    assert found.contested <= 0.01


@pytest.mark.parametrize("period", [4, 8])
def test_one_order_for_all_proofs_met_noise_of_its_own_period(period):
    kind = kind_of(f"slow every {period} runs")
    assert measure(kind, DESIGNS[OLD], PROOFS).looks > 0.08 > ERROR + SLACK > measure(kind, DESIGNS[CHOSEN], PROOFS).looks


def test_a_candidate_that_profits_from_the_reference_is_mostly_found():
    found = prove(kind_of("candidate faster after the reference"), 300)
    assert found.claimed < 0.3 and found.contested > 0.7
    found = prove(kind_of("faster after the reference"), 300)
    assert found.claimed < 0.05 and found.contested > 0.7


def test_differences_are_found_and_not_contested():
    found = prove(kind_of("normal"), 300, 0.04)
    assert found.claimed > 0.97 and found.contested < 0.03


def test_the_page_has_the_tables():
    written = read_table(PAGE, *TABLE)
    made = tabulate(40)
    assert [line.split("|")[:2] for line in made.splitlines()] == [line.split("|")[:2] for line in written.splitlines()]
