"""A typical epoch, all epochs, and the process: nothing is confirmed that they contradict."""

import math
from types import SimpleNamespace

import pandas as pd
import pytest

from speedproof.report.objection_phrases import describe_objection
from speedproof.results.observations import Observations
from speedproof.stats.direction import check_direction
from speedproof.stats.ratio_checks import Examined

NOISE = [(1.0, 1.01), (1.01, 1.0), (0.99, 1.0), (1.0, 0.99)]


def examine(reference, candidate, centre, outcome="faster"):
    """Two variants, each given by its epochs and its process in seconds."""
    pairs = [tuple(run(*own, by) for own, by in zip((reference, candidate), noise, strict=True)) for noise in NOISE]
    return check_direction(Examined("a", "b", "training_epoch_s", pairs, centre, None, outcome, 0.02))


def run(epochs_s, process_s, by):
    table = pd.DataFrame({"train_s": [by * epoch for epoch in epochs_s], "validation_s": math.nan})
    own = SimpleNamespace(process_s=by * process_s, observed=Observations(), continued=[], resolution_s=None)
    return SimpleNamespace(run=own, epochs=table, derived={})


def test_a_costly_epoch_among_short_ones_is_no_gain():
    # Five epochs of 0.4 s against four of 0.2 s and one of 4 s: 2 s against 4.8 s.
    (found,) = examine(([0.4] * 5, 2.2), ([0.2] * 4 + [4.0], 5.0), 2.0)
    assert (found.variant, found.blocks) == ("b", True)
    assert found.values == pytest.approx({"all_epochs": 2 / 4.8, "process": 2.2 / 5.0}, rel=0.02)
    said = describe_objection(found, {"b": "B"}).replace("\N{NO-BREAK SPACE}", " ")
    assert said.startswith("the typical epoch of B is shorter, but it is 0.41")
    assert said.endswith("× as fast over its whole process")


def test_the_slower_one_of_two_may_be_favoured_too():
    (found,) = examine(([0.2] * 4 + [4.0], 5.0), ([0.4] * 5, 2.2), 0.5, "slower")
    assert found.variant == "a"


def test_epochs_cut_into_parts_are_no_gain():
    # 20 epochs of 0.1 s against 5 of 0.4 s: as much in all, so half of the gain is missing.
    (found,) = examine(([0.4] * 5, 2.2), ([0.1] * 20, 2.2), 4.0)
    assert found.variant == "b"


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
