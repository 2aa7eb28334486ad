"""The posterior over commits, by runs whose levels are known."""

import math

import pytest

from speedproof.stats.change_point import CommitRun, estimate_step, find_posterior, limit_outliers


def make_runs(*rounds):
    """Return runs of rounds, each of pairs of a place and a log cost."""
    return [CommitRun(place, number, cost) for number, round_ in enumerate(rounds) for place, cost in round_]


ENDS = [[(0, 0.00), (4, 0.10)], [(0, 0.01), (4, 0.11)], [(0, 0.01), (4, 0.10)], [(0, 0.00), (4, 0.11)]]


def test_commits_that_did_not_run_share_what_is_known_of_their_gap():
    posterior = find_posterior(make_runs(*ENDS), range(5))
    assert posterior.by_place == pytest.approx(dict.fromkeys((1, 2, 3, 4), 0.25))
    assert posterior.several == 0
    assert posterior.chance_until(2) == pytest.approx(0.5)


def test_the_commit_at_which_levels_part_is_the_likeliest():
    middle = [[(2, 0.00), (3, 0.11)], [(2, 0.01), (3, 0.10)], [(2, 0.00), (3, 0.10)]]
    posterior = find_posterior(make_runs(*ENDS, *middle), range(5))
    assert posterior.likeliest == 3
    assert posterior.by_place[3] > 0.99
    assert posterior.several < 0.1


def test_a_skipped_commit_has_no_chance_of_its_own():
    assert set(find_posterior(make_runs(*ENDS), [0, 1, 4]).by_place) == {1, 4}


def test_a_level_between_the_ends_makes_several_changes_likely():
    middle = [[(1, 0.05), (2, 0.05)], [(2, 0.06), (3, 0.05)], [(1, 0.06), (3, 0.06)]]
    assert find_posterior(make_runs(*ENDS, *middle), range(5)).several > 0.95


def test_what_all_runs_of_a_round_share_is_not_a_change():
    slow = 0.30  # the machine, in the last three rounds
    middle = [[(2, slow), (3, slow + 0.10)], [(2, slow + 0.01), (3, slow + 0.11)], [(2, slow), (3, slow + 0.11)]]
    posterior = find_posterior(make_runs(*ENDS, *middle), range(5))
    assert posterior.likeliest == 3
    assert posterior.by_place[3] > 0.9


def test_a_step_is_estimated_with_its_interval():
    # Means 0.1 and 0.3, each of two values that are 0.1 off: the residual variance is 4 · 0.01 / 2 = 0.02, that of the
    # difference 0.02 (1/2 + 1/2) = 0.02, and Student's quantile at 2 degrees of freedom 4.303.
    runs = make_runs([(0, 0.0), (0, 0.2), (1, 0.2), (1, 0.4)])
    step = estimate_step(runs, 1)
    assert step.centre == pytest.approx(0.2)
    assert step.interval.high - step.centre == pytest.approx(4.303 * math.sqrt(0.02), rel=1e-3)
    assert estimate_step(runs[:1] + runs[2:], 1).interval is None


def test_a_run_far_beyond_the_ends_counts_as_three_deviations_beyond():
    runs = make_runs(*ENDS, [(2, 3.0), (3, 0.05)])
    limited = limit_outliers(runs)
    # Medians 0.005 and 0.105, each run 0.005 away.
    assert limited[-2].log_cost == pytest.approx(0.105 + 3 * 1.4826 * 0.005)
    assert limited[:-2] == runs[:-2]
    assert limited[-1] == runs[-1]
