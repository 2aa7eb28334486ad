"""The search, by costs that a test states: no process, no clock."""

import math
import random

import pytest

from speedproof.run.bisect.search import ChangeSearch, UnusableCommitError


class Program:
    """Commits whose runs cost what `levels` say, with noise."""

    def __init__(self, levels, noise=0.01, unusable=()):
        self.levels, self.noise, self.unusable = levels, noise, unusable
        self.random = random.Random(7)
        self.asked = []

    def measure(self, places):
        for place in places:
            if place in self.unusable:
                raise UnusableCommitError(place, "does not build")
        self.asked.append(list(places))
        return [self.levels[place] + self.random.gauss(0, self.noise) for place in places]

    def search(self, left_s=lambda: 1e6):
        return ChangeSearch(len(self.levels), self.measure, left_s).run()


def step_at(place, commits=20, size=0.1):
    return [0.0] * place + [size] * (commits - place)


@pytest.mark.parametrize("place", [1, 7, 19])
def test_the_commit_that_changed_the_cost_is_found(place):
    program = Program(step_at(place))
    found = program.search()
    assert (found.outcome, found.place) == ("found", place)
    assert found.chance >= 0.95
    assert found.step.interval.holds(0.1)
    assert found.ends.interval.low > 0
    assert len(found.runs) == sum(map(len, program.asked)) < 40


def test_a_commit_that_made_it_faster_is_found_too():
    found = Program(step_at(5, size=-0.1)).search()
    assert (found.outcome, found.place) == ("found", 5)
    assert found.step.centre < 0


def test_ends_run_first_and_twice_each_in_a_round():
    program = Program(step_at(5))
    program.search()
    assert program.asked[0] == [0, 19, 0, 19]
    assert all(early < late for early, late in (pair for pair in program.asked if len(pair) == 2))


def test_equal_ends_are_no_difference_and_nothing_between_them_runs():
    program = Program([0.0] * 20)
    found = program.search()
    assert (found.outcome, found.place, found.step) == ("no difference", None, None)
    assert {place for asked in program.asked for place in asked} == {0, 19}


def test_noise_leaves_it_inconclusive():
    assert Program(step_at(5, size=0.02), noise=0.5).search().outcome == "inconclusive"


def test_a_change_in_two_halves_is_no_single_commit():
    found = Program([0.0] * 7 + [0.1] * 6 + [0.2] * 7).search()
    assert found.outcome == "spread"
    assert found.several >= 0.95


def test_skipped_commits_are_named_and_suspected_if_they_are_right_before_it():
    program = Program(step_at(7), unusable={5, 6, 12})
    found = program.search()
    assert (found.outcome, found.place) == ("found", 7)
    assert found.suspects == [place for place in found.skipped if place in (5, 6)] != []
    assert set(found.skipped.values()) == {"does not build"}


def test_all_between_the_ends_may_be_skipped():
    found = Program(step_at(2, commits=4), unusable={1, 2}).search()
    assert (found.outcome, found.place, found.suspects) == ("found", 3, [1, 2])


def test_an_end_that_cannot_run_ends_the_search():
    with pytest.raises(UnusableCommitError, match="does not build"):
        Program(step_at(5), unusable={19}).search()


def test_the_budget_ends_it_with_the_likeliest_commit():
    left = iter([1e6, 1e6, 0.0])
    found = Program(step_at(7), noise=0.05).search(lambda: next(left))
    assert found.outcome == "inconclusive"
    assert 0 < found.chance < 0.95
    assert math.isclose(found.ends.centre, 0.1, abs_tol=0.05)
