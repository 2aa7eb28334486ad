"""What the faster variant of a ratio had more of, or read less: said if it is much, and so in every pair."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest

from speedproof.report.objection_phrases import describe_objection
from speedproof.results.observations import Observations
from speedproof.results.quality import Quality
from speedproof.stats.ratio_checks import Examined
from speedproof.stats.same_work import check_same_work, check_work

MIB = 2**20


def make_run(observed=None, qualities=(), margin=None, judged_above=None):
    return SimpleNamespace(
        run=SimpleNamespace(process_s=10.0, observed=observed, techniques={}, best_quality=max(qualities, default=None)),
        epochs=pd.DataFrame({"quality": [math.nan, *qualities]}),
        quality=Quality(margin=margin, judged_above=judged_above),
    )


def pair_up(first, second):
    """Pairs of runs of which this was observed, the reference's first."""
    return [(make_run(one), make_run(another)) for one, another in zip(first, second, strict=True)]


def examine(first, second, centre=2.0, metric="training_epoch_s"):
    return Examined(
        reference="a", candidate="b", metric=metric, centre=centre, pairs=pair_up(first, second),
        interval=None, outcome="inconclusive", equivalence_margin=0.02,
    )  # fmt: skip


def find(first, second, centre=2.0, metric="training_epoch_s"):
    """What is said of observed `a` and `b`."""
    found = check_same_work(examine(first, second, centre, metric))
    return [(one.kind, one.variant, one.blocks, one.values) for one in found]


def using(*cpu_s):
    return [Observations(cpu_s=seconds) for seconds in cpu_s]


def reading(*mib):
    return [Observations(read_bytes=number * MIB) for number in mib]


def test_eight_cores_against_one_are_a_condition_in_both_numbers():
    # 10 s each: 78, 80, 79 and 79 s of the processor are 7.9 cores on average.
    assert find(using(10, 10, 10, 10), using(78, 80, 79, 79)) == [("cores", "b", False, {"own": 7.9, "other": 1.0})]
    assert find(using(78, 80, 79, 79), using(10, 10, 10, 10), centre=0.5)[0][1] == "a"
    assert find(using(10, 10), using(79, 79), centre=0.5, metric="samples_per_s")[0][1] == "b"  # of a rate less is slower


@pytest.mark.parametrize(
    ("first", "second", "centre"),
    [
        (using(10, 10), using(79, 79), 0.5),  # more cores, and slower
        (using(10, 10), using(14, 14), 2.0),  # less than one and a half
        (using(4.1, 4.4), using(8.7, 8.5), 2.0),  # one thread, on a machine that was busier before
        (using(10, 10, 18), using(19, 19, 16), 2.0),  # not in every pair
        (using(10, 10), [Observations(), *using(79)], 2.0),  # not known of each
        (using(10, 10), [None, None], 2.0),  # a record of before it was observed
        (reading(300, 300), reading(250, 250), 2.0),
        (reading(60, 60), reading(4, 4), 2.0),  # what programs import differs by as much
        (reading(300, 300), reading(100, 310), 2.0),
        (reading(100, 100), reading(300, 300), 2.0),  # reads more, and is faster
    ],
)
def test_a_small_an_opposite_or_an_unknown_difference_is_none(first, second, centre):
    assert find(first, second, centre) == []


def test_all_reported_qualities_count_and_not_only_those_of_epochs():
    rows = {"qualities": [0.5] * 5, "margin": 0.01}
    pair = make_run(Observations(qualities=5), **rows), make_run(Observations(qualities=100), **rows)
    (condition,) = check_same_work(replace(examine([], []), pairs=[pair]))
    assert (condition.kind, condition.values) == ("qualities", {"own": 100.0, "other": 5.0})
    measured = make_run(Observations(qualities=5), **rows), make_run(Observations(qualities=1), **rows)
    assert check_same_work(replace(examine([], []), pairs=[measured])) == []


def test_who_reads_a_third_and_who_takes_more_gpus_is_said():
    assert find(reading(300, 330), reading(100, 110)) == [("bytes read", "b", False, {"own": 105 * MIB, "other": 315 * MIB})]
    gpus = [[Observations(gpus=number)] * 2 for number in (1, 2)]
    assert find(*gpus) == [("gpus", "b", False, {"own": 2, "other": 1})]


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (using(10), using(79), "python b.py uses 7.9 cores, the other 1.0"),
        (reading(600), reading(250), "python b.py reads 250\N{NO-BREAK SPACE}MiB, the other 600\N{NO-BREAK SPACE}MiB"),
        ([Observations(gpus=1)], [Observations(gpus=2)], "python b.py computes on 2 GPUs, the other on 1"),
    ],
)
def test_a_condition_names_both_numbers(first, second, said):
    (condition,) = check_same_work(examine(first, second))
    assert describe_objection(condition, {"b": "python b.py"}) == said


@pytest.mark.parametrize(
    ("rule", "counts", "found"),
    [
        ({"margin": 0.01}, [(5, 1000), (5, 1000)], {"own": 1000.0, "other": 5.0}),
        ({"margin": 0.01}, [(5, 10), (6, 14)], {"own": 12.0, "other": 5.5}),
        ({"margin": 0.01}, [(5, 10), (6, 11)], None),  # not in every pair
        ({"margin": 0.01}, [(10, 5), (10, 5)], None),  # the slower one is judged more often: that does not help the faster one
        ({"margin": 0.01}, [(0, 5), (0, 5)], None),  # no quality to compare with
        ({}, [(5, 1000), (5, 1000)], None),  # nothing is judged
        ({"margin": 0.01, "judged_above": 0.5}, [(5, 1000), (5, 1000)], None),  # it is too low to be judged
        ({"margin": 0.01, "judged_above": 0.4}, [(5, 1000), (5, 1000)], {"own": 1000.0, "other": 5.0}),
    ],
)
def test_the_best_of_more_qualities_is_a_condition(rule, counts, found):
    pairs = [tuple(make_run(qualities=[0.5] * number, **rule) for number in pair) for pair in counts]
    conditions = check_same_work(replace(examine([], []), pairs=pairs))
    assert [(one.kind, one.variant, one.blocks, one.values) for one in conditions] == (
        [("qualities", "b", False, found)] if found else []
    )
    for one in conditions:
        said = describe_objection(one, {"b": "python b.py"})
        assert said.endswith(
            f"reports {found['own']:g} qualities per run, the other {found['other']:g}: the best of more is better by chance"
        )


@pytest.mark.parametrize(("rates", "counts"), [(False, [5, 20]), (True, [])])
def test_lines_of_rates_are_no_epochs(rates, counts):
    observed = Observations(rates=rates)
    table = pd.DataFrame({"epoch": [1], "train_s": [1.0], "samples_per_s": [math.nan]})
    runs = [
        SimpleNamespace(
            run=SimpleNamespace(observed=observed, epochs=number, work=None, flop_per_epoch=None, parameters=0, continued=[]),
            epochs=table, derived={}, title=name, file=str,
        )
        for name, number in (("A", 5), ("B", 20))
    ]  # fmt: skip
    assert check_work([tuple(runs)]).epochs == counts
