"""What runs before a run: a gain that rests on it is contested, an honest one is not."""

import math
import random
from types import SimpleNamespace

import pytest

from speedproof.report.objection_phrases import describe_objection
from speedproof.results.experiment import PlannedRun, place_runs
from speedproof.results.observations import Observations
from speedproof.run.plan import order_in_block
from speedproof.stats.carried_over import check_order, find_trend
from speedproof.stats.order_profit import OrderedRound, estimate_profit
from speedproof.stats.ratio_checks import Examined

NOISE = random.Random(0)


def examine(take_s, rounds=12, metric="process_s", outcome="faster", observed=Observations()):  # noqa: B008
    """Check rounds of two variants; `take_s` gives a run's value by its variant, the variant before it, and its round."""
    order = [
        PlannedRun(variant=name, mode="timed", round=number, seed=number)
        for number in range(rounds)
        for name, _ in order_in_block([("a", False), ("b", False)], "2/timed", number)
    ]
    values, runs = {}, {}
    for planned, place in zip(order, place_runs(order), strict=True):
        key = planned.round, planned.variant
        values[key] = take_s(planned.variant, place.follows, planned.round) * (1 + NOISE.uniform(-0.002, 0.002))
        runs[key] = SimpleNamespace(place=place, run=SimpleNamespace(observed=observed, techniques={}))
    both = [((number, "a"), (number, "b")) for number in range(rounds)]
    pairs = [(values[one], values[other]) for one, other in both]
    centre = math.exp(sum(math.log(one / other) for one, other in pairs) / rounds)
    of_runs = [(runs[one], runs[other]) for one, other in both]
    return check_order(Examined("a", "b", metric, of_runs, centre, None, outcome, 0.02, values=pairs))


def test_a_candidate_that_is_faster_only_after_the_reference_is_contested():
    (found,) = examine(lambda name, before, _: 1.0 if (name, before) == ("b", "a") else 1.1)
    assert (found.kind, found.variant, found.blocks) == ("order", "b", True)
    assert found.values == pytest.approx({"after_own": 1.0, "after_other": 1.1}, abs=0.01)
    said = describe_objection(found, {"a": "A", "b": "B"}).replace("\N{NO-BREAK SPACE}", " ")
    assert said.startswith("B is faster only after a run of the other: 1.1")


def test_so_is_a_reference_that_is_slower_only_after_the_candidate():
    (found,) = examine(lambda name, before, _: 1.1 if (name, before) == ("a", "b") else 1.0)
    assert (found.variant, found.blocks) == ("b", True)


def test_so_is_a_reference_that_is_the_faster_one_of_two():
    (found,) = examine(lambda name, before, _: 1.0 if (name, before) == ("a", "b") else 1.1, outcome="slower")
    assert (found.variant, found.blocks) == ("a", True)


def test_a_rate_is_better_if_it_is_higher():
    # Twelve rounds of a rate, in whose ratio the names are exchanged: `a` is the better one.
    (found,) = examine(lambda name, before, _: 1.1 if (name, before) == ("a", "b") else 1.0, metric="samples_per_s")
    assert (found.variant, found.blocks) == ("a", True)


def test_what_is_little_of_a_gain_is_a_condition():
    # Twice as fast by itself, and 10 % more after the other.
    (found,) = examine(lambda name, before, _: 1.0 if name == "a" else 0.45 if before == "a" else 0.5)
    assert (found.kind, found.blocks) == ("order", False)
    assert found.values == pytest.approx({"after_own": 2.0, "after_other": 1 / 0.45}, rel=0.02)


@pytest.mark.parametrize(
    "honest",
    [
        lambda name, before, number: 1.1 if name == "a" else 1.0,
        lambda name, before, number: (1.1 if name == "a" else 1.0) * (1.05 if before == name else 1.0),  # alike for both
    ],
)
def test_an_honest_gain_is_not_contested(honest):
    assert examine(honest) == []


def test_nothing_is_checked_of_few_rounds_no_difference_or_an_older_version():
    def profits(name, before, _):
        return 1.0 if (name, before) == ("b", "a") else 1.1

    assert examine(profits, rounds=7) == []
    assert examine(profits, outcome="inconclusive") == []
    assert examine(profits, observed=None) == []


def test_a_trend_is_named_and_changes_no_outcome():
    # 5 % from the first of twelve rounds to the last.
    (found,) = examine(lambda name, before, number: (1.1 if name == "a" else 1.0) * 1.05 ** (number / 11))
    assert (found.kind, found.variant, found.blocks) == ("trend", None, False)
    assert found.values["change"] == pytest.approx(0.05, abs=0.003)
    (found,) = examine(lambda name, before, number: 1.1 if name == "a" else 1.05 ** (-number / 11))
    assert (found.variant, found.values["change"] < 0) == ("b", True)
    said = describe_objection(found, {"b": "B"})
    assert said.startswith("in the last round, B measured ")
    assert said.endswith(" less than in the first; the order of the runs balances this")


def test_a_trend_within_noise_is_none():
    assert find_trend([1.0, 3.0, 2.0, 4.0, 3.0, 2.0, 1.0, 4.0]) == 0.0
    assert find_trend([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.1]) == pytest.approx(7.058, abs=0.001)


def test_the_gain_without_what_ran_before_is_told_apart_from_the_place_in_the_round():
    # By hand: 0.1 by itself, 0.02 less if first, 0.05 more after the other, 0.03 more if the other follows.
    rounds = [
        OrderedRound(0.1 - (0.02 if first else -0.02) + 0.05 * after + 0.03 * followed, first, after, followed)
        for first, after, followed in [(True, True, True), (True, False, True), (False, True, True), (False, True, False)] * 2
    ]
    profit = estimate_profit(rounds)
    assert (profit.own, profit.more, profit.significant, profit.is_most) == (
        pytest.approx(0.1),
        pytest.approx(0.08),
        True,
        False,
    )
    assert estimate_profit([one for one in rounds if one.first] * 2) is None  # nothing tells the place from the rest
