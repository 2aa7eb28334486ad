"""An average epoch, all epochs, and the process: nothing is confirmed that they contradict."""

import math
from types import SimpleNamespace

import pandas as pd
import pytest

from speedproof.report.objection_phrases import describe_objection
from speedproof.results.observations import Observations
from speedproof.stats.direction import check_direction, check_validation
from speedproof.stats.ratio_checks import Examined

NOISE = [(1.0, 1.01), (1.01, 1.0), (0.99, 1.0), (1.0, 0.99)]


def examine(reference, candidate, centre, outcome="faster", metric="training_epoch_s", rates=False):
    """Two variants, each given by its epochs and its process in seconds."""
    pairs = [tuple(run(*own, by, rates) for own, by in zip((reference, candidate), noise, strict=True)) for noise in NOISE]
    return check_direction(Examined("a", "b", metric, pairs, centre, None, outcome, 0.02))


def say(found):
    return describe_objection(found, {"b": "B"}).replace("\N{NO-BREAK SPACE}", " ")


def run(epochs_s, process_s, by, rates):
    table = pd.DataFrame({"train_s": [by * epoch for epoch in epochs_s], "validation_s": math.nan})
    own = SimpleNamespace(process_s=by * process_s, observed=Observations(rates=rates), continued=[], resolution_s=None)
    return SimpleNamespace(run=own, epochs=table, derived={}, comparisons=1, until_decided=False)


def test_a_costly_epoch_among_short_ones_is_no_gain():
    # Five epochs of 0.4 s against one of 4 s, which counts in no average, and four of 0.2 s: 2 s against 4.8 s.
    (found,) = examine(([0.4] * 5, 2.2), ([4.0] + [0.2] * 4, 5.0), 2.0)
    assert (found.variant, found.blocks) == ("b", True)
    # The noise of the pairs' logarithms is -0.00995, 0.00995, -0.01005 and 0.01005: its mean 0, its deviation 0.01155.
    width = math.exp(3.1824 * 0.01155 / 2)
    assert found.values == pytest.approx(
        {
            "epoch": 2.0,
            "all_epochs": 2 / 4.8, "all_epochs_low": 2 / 4.8 / width, "all_epochs_high": 2 / 4.8 * width,
            "process": 2.2 / 5.0, "process_low": 2.2 / 5.0 / width, "process_high": 2.2 / 5.0 * width,
        },
        rel=0.001,
    )  # fmt: skip
    assert say(found) == (
        "B is 2.00× as fast by its average epoch, but 0.417× (0.409–0.424×) over all epochs and 0.440× (0.432–0.448×) as a "
        "whole process"
    )


def test_compiled_steps_that_do_not_pay_for_their_compilation():
    # 100 steps of 11.1 ms against 100 of 10 ms, of which the first takes 2 s: 1.61 s against 3.49 s in all.
    (found,) = examine(([0.0111] * 100, 1.61), ([2.0] + [0.01] * 99, 3.49), 1.11)
    assert say(found).startswith("B is 1.11× as fast by its average epoch, but 0.3")
    assert " 0.461× (0.453–0.470×) as a whole process" in say(found)
    # The same by a rate, above 1 if the reference's is higher; of printed lines nothing is summed.
    (found,) = examine(([0.0111] * 100, 1.61), ([0.01] * 20, 3.49), 1 / 1.11, "slower", "samples_per_s", rates=True)
    assert (found.variant, found.blocks) == ("b", True)
    assert say(found) == "B is 1.11× as fast by its rate, but 0.461× (0.453–0.470×) as a whole process"


def test_programs_that_run_for_a_fixed_time_and_print_rates():
    # 2 s each, and the faster one 1 % longer.
    assert examine(([0.02] * 20, 2.0), ([0.01] * 18, 2.02), 0.5, "slower", "samples_per_s", rates=True) == []


def test_a_first_epoch_is_no_average():
    assert examine(([0.4] * 5, 2.2), ([0.2] + [4.0] * 4, 17.0), 2.0, metric="first_epoch_s") == []


def test_the_slower_one_of_two_may_be_favoured_too():
    (found,) = examine(([0.2] * 4 + [4.0], 5.0), ([0.4] * 5, 2.2), 0.5, "slower")
    assert found.variant == "a"


def test_epochs_cut_into_parts_are_no_gain():
    # 20 epochs of 0.1 s against 5 of 0.4 s: as much in all, so half of the gain is missing.
    (found,) = examine(([0.4] * 5, 2.2), ([0.1] * 20, 2.2), 4.0)
    assert found.variant == "b"
    assert say(found).startswith("B ran 20 epochs and the other 5: it is 4.00× as fast by its average epoch, but 1.00× (0.98")


def test_other_numbers_of_epochs_need_a_process_that_shows_the_gain():
    # 10 epochs of 0.2 s against 5 of 0.4 s; of the processes one takes 3.4 s and three 1.2 s, against 2.2 s.
    runs = [(run([0.4] * 5, 2.2, 1, False), run([0.2] * 10, process_s, 1, False)) for process_s in (3.4, 1.2, 1.2, 1.2)]
    (found,) = check_direction(Examined("a", "b", "training_epoch_s", runs, 2.0, None, "faster", 0.02))
    # The geometric mean of 3.4 and three times 1.2 is 1.557: 1.41 times as fast, and not significantly so.
    assert found.values["process"] == pytest.approx(2.2 / 1.557, rel=0.001)
    assert (found.blocks, found.values["process_low"] < 1) == (True, True)


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        (([0.4] * 5, 2.2), ([0.2] * 5, 1.2)),
        (([0.4] * 5, 8.0), ([0.2] * 5, 7.0)),  # both take long to start
        (([0.4] * 10, 4.2), ([0.2] * 5, 1.2)),  # fewer epochs, and the whole shows it
        (([30.0, *[0.4] * 5], 60.0), ([35.0, *[0.2] * 5], 55.0)),  # prints one iteration of ten, and the first one compiles
    ],
)
def test_an_honest_gain_is_not_contested(reference, candidate):
    assert examine(reference, candidate, 2.0) == []


def test_a_ratio_that_shows_nothing_is_not_checked():
    assert examine(([0.4] * 5, 2.2), ([0.2] * 4 + [4.0], 5.0), 1.0, "equivalent") == []


def validate(*seconds):
    """Two variants with six epochs each: their training and validation in seconds."""
    pairs = []
    for noise in NOISE:
        pair = []
        for (train_s, validation_s), by in zip(seconds, noise, strict=True):
            one = run([train_s] * 6, 6 * (train_s + validation_s), by, rates=False)
            one.epochs["validation_s"] = by * validation_s
            pair.append(one)
        pairs.append(tuple(pair))
    return check_validation(Examined("a", "b", "training_epoch_s", pairs, seconds[0][0] / seconds[1][0], None, "faster", 0.02))


def test_training_that_is_moved_into_the_validation_is_no_gain():
    (found,) = validate((0.12, 0.03), (0.06, 0.09))  # saves six times 60 ms, and takes them there
    assert (found.kind, found.variant, found.blocks) == ("outside", "b", True)
    assert say(found) == (
        "by its own reports, the epochs of B take 0.360 s less, but its process takes longer elsewhere: 0.360 s in its "
        "validations, so its whole process is 1.00× as fast"
    )


@pytest.mark.parametrize("validation_s", [0.0, 0.03, 0.05])  # faster, the same, and longer by a third of what training saves
def test_a_validation_that_takes_little_of_the_gain_is_none_of_it(validation_s):
    assert validate((0.12, 0.03), (0.06, validation_s)) == []
