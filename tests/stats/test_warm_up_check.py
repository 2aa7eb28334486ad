"""Timed runs against the runs before them: a warm-up of the same looks, and a run that saw us. Values by hand."""

import math
from types import SimpleNamespace

import pandas as pd
import pytest

from speedproof.report.objection_phrases import describe_objection
from speedproof.results.observations import Observations, WarmUpObserved
from speedproof.stats.ratio_checks import Examined
from speedproof.stats.warm_up_check import check_slower_later, check_warm_up, check_watched, predict_run, warm_up_excess_s


def runs(timed_s, epoch_s=0.1, typical_s=None, **warm_up):
    """Runs of a variant, whose warm-up took so long, a typical epoch of it `typical_s`."""
    observed = Observations(warm_up=WarmUpObserved(epoch_s=typical_s, **warm_up) if warm_up else None)
    epochs = pd.DataFrame({"epoch": [1, 2, 3], "train_s": [epoch_s] * 3})
    return [
        SimpleNamespace(run=SimpleNamespace(observed=observed, process_s=one, continued=[], techniques={}), epochs=epochs)
        for one in timed_s
    ]


def examine(references, candidates, metric="process_s"):
    pairs = list(zip(references, candidates, strict=True))
    return Examined("a", "b", metric, pairs, 1.0, None, "faster", 0.02)


def say(objections):
    return [(one.kind, one.blocks, describe_objection(one, {"a": "A", "b": "B"}).replace("\xa0", " ")) for one in objections]


@pytest.mark.parametrize(
    ("warm_up_s", "timed_s", "of_epochs", "excess_s"),
    [
        (1.0, [0.3, 0.3, 0.3], False, 0.7),
        (0.54, [0.3, 0.3, 0.3], False, 0.0),  # no more than 0.25 s, as a cold import takes
        (0.8, [0.3, 0.3, 0.3], False, 0.5),
        (0.8, [0.3, 0.3, 0.3], True, 0.5),
        (4.3, [3.0, 3.0, 3.0], False, 0.0),  # torch with cold caches: no more than half of the time
        (1.0, [0.2, 0.3, 0.5], True, 0.0),  # timed runs differ by 0.3 s, and three times that is tolerated
        (0.2, [0.3, 0.3, 0.3], True, 0.0),
    ],
)
def test_a_first_run_may_be_longer_by_what_honest_programs_take(warm_up_s, timed_s, of_epochs, excess_s):
    assert warm_up_excess_s(warm_up_s, timed_s, of_epochs) == pytest.approx(excess_s)


def test_a_candidate_that_is_faster_in_timed_runs_only_is_inconclusive():
    reference, candidate = runs([1.0] * 4, process_s=1.0), runs([0.3] * 4, process_s=1.0)
    assert say(check_warm_up(examine(reference, candidate))) == [
        ("warm-up differs", True, "B ran 1.00 s in the warm-up and 0.300 s when timed")
    ]


def test_epochs_are_compared_by_the_shortest_of_the_warm_up():
    reference = runs([1.0] * 4, epoch_s=0.2, process_s=1.0, shortest_epoch_s=0.2)
    candidate = runs([1.0] * 4, epoch_s=0.1, process_s=1.0, shortest_epoch_s=0.2)
    assert say(check_warm_up(examine(reference, candidate, "training_epoch_s"))) == [
        ("warm-up differs", True, "an epoch of B took 0.200 s in the warm-up and 0.100 s when timed")
    ]
    compiling = runs([1.0] * 4, epoch_s=0.1, process_s=9.0, shortest_epoch_s=0.11)
    assert check_warm_up(examine(reference, compiling, "training_epoch_s")) == []


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        (runs([10.0] * 4, process_s=10.0), runs([2.0] * 4, process_s=5.0)),  # the gain is 8 s, and 5 s of it were there at once
        (runs([1.0] * 4, process_s=1.0), runs([2.0] * 4, process_s=9.0)),  # slower: nothing is claimed for it
        (runs([1.0] * 4, process_s=2.0), runs([0.5] * 4, process_s=1.2)),  # the machine was half as fast in the warm-up
        (runs([1.0] * 4), runs([0.3] * 4)),  # a record of before it was written
    ],
)
def test_honest_programs_are_not_accused(reference, candidate):
    assert check_warm_up(examine(reference, candidate)) == []
    assert check_watched(examine(reference, candidate)) == []


@pytest.mark.parametrize(
    ("reference_s", "candidate_s", "slower", "said"),
    [
        (1.9, 0.9, "a", "A ran 0.900 s in the warm-up and 1.90 s when timed"),
        (0.9, 1.9, "b", "B ran 0.900 s in the warm-up and 1.90 s when timed"),  # what is said of it is not so, either
    ],
)
def test_a_variant_that_is_slower_in_timed_runs_only_is_inconclusive(reference_s, candidate_s, slower, said):
    found = check_slower_later(examine(runs([reference_s] * 4, process_s=0.9), runs([candidate_s] * 4, process_s=0.9)))
    assert say(found) == [("warm-up differs", True, said)] and found[0].variant == slower


def test_typical_epochs_are_compared_if_both_have_some():
    reference = runs([1.0] * 4, epoch_s=0.2, typical_s=0.1, process_s=1.0)
    candidate = runs([1.0] * 4, epoch_s=0.1, typical_s=0.1, process_s=1.0)
    assert say(check_slower_later(examine(reference, candidate, "training_epoch_s"))) == [
        ("warm-up differs", True, "an epoch of A took 0.100 s in the warm-up and 0.200 s when timed")
    ]
    assert check_slower_later(examine(reference, candidate)) == []  # its processes took as long as before
    # Epochs get longer from the first on, as where data grow: the shortest is not what a typical one is compared with.
    growing = runs([1.0] * 4, epoch_s=0.2, typical_s=0.2, shortest_epoch_s=0.1, process_s=1.0)
    assert check_slower_later(examine(growing, candidate, "training_epoch_s")) == []


def test_of_more_than_four_runs_one_may_have_come_before_what_slows_the_others():
    candidate = runs([0.9] * 5, process_s=0.9)
    assert len(check_slower_later(examine(runs([0.9, 1.9, 1.9, 1.9, 1.9], process_s=0.9), candidate))) == 1
    assert check_slower_later(examine(runs([0.9, 1.4, 1.9, 1.9, 1.9], process_s=0.9), candidate)) == []


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        (runs([1.9] * 4, process_s=1.5), runs([0.9] * 4, process_s=0.9)),  # 0.4 s of a gain of 1 s
        (runs([1.0] * 4, process_s=0.88), runs([0.9] * 4, process_s=0.9)),  # 14 % longer
        (runs([1.9, 1.9, 2.5, 1.9], process_s=0.9), runs([0.9] * 4, process_s=0.9)),  # they differ by 0.6 s
        (runs([1.8] * 4, process_s=0.9), runs([1.0] * 4, process_s=0.5)),  # the machine is half as fast since then
        (runs([1.9] * 4), runs([0.9] * 4)),  # a record of before it was written
    ],
)
def test_a_slower_variant_may_take_longer_than_its_warm_up_by_what_honest_ones_do(reference, candidate):
    assert check_slower_later(examine(reference, candidate)) == []


def test_between_which_lengths_a_watched_run_goes_unnoticed():
    # Equal runs: 10 % to each side. Of logs 0, 0.1, 0.2, 0.3: mean 0.15, deviation 0.129099, t(3, 99.5 %) = 5.840909, so that
    # the half width is 5.840909 × 0.129099 × √(5/4) = 0.843064.
    interval = predict_run([2.0] * 4)
    assert (interval.low, interval.high) == pytest.approx((2 / 1.1, 2.2))
    interval = predict_run([2.0] * 4, math.log(2))  # of a machine that may be twice as fast or slow
    assert (interval.low, interval.high) == pytest.approx((1 / 1.1, 4.4))
    interval = predict_run([1.0, 1.105170918, 1.221402758, 1.349858808])
    assert (interval.low, interval.high) == pytest.approx((0.500041, 2.699493), rel=1e-5)


def test_a_program_that_does_less_when_it_is_watched_is_named():
    reference = runs([1.0] * 4, process_s=1.0, watched_s=1.0)
    candidate = runs([0.5] * 4, process_s=0.3, watched_s=0.3)
    assert say(check_watched(examine(reference, candidate))) == [
        (
            "watched run",
            False,
            "no sign that A behaves differently when watched: it took 1.00 s, and its blind runs predict 0.545–1.83 s",
        ),
        (
            "watched run differs",
            False,
            "B behaves differently when watched: it took 0.300 s, but its blind runs predict 0.455–0.550 s",
        ),
    ]


def test_a_machine_that_was_quieter_then_accuses_nobody():
    reference, candidate = runs([1.0] * 4, process_s=1.0, watched_s=0.7), runs([0.5] * 4, process_s=0.3, watched_s=0.35)
    assert {one.kind for one in check_watched(examine(reference, candidate))} == {"watched run"}


def test_a_program_that_does_less_when_nobody_watches_is_inconclusive():
    reference = runs([1.0] * 4, process_s=1.0, watched_s=1.0)
    candidate = runs([0.5] * 4, process_s=1.0, watched_s=1.0)
    assert [(one.kind, one.blocks) for one in check_watched(examine(reference, candidate))] == [
        ("watched run", False),
        ("watched run differs", True),
    ]
