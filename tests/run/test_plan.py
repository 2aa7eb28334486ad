from collections import Counter
from itertools import combinations
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from speedproof.results.experiment import Plan
from speedproof.run.plan import plan_experiment
from speedproof_spleen.config import check_config, load_config

CONFIG = load_config(Path(__file__).parents[2] / "config.yaml")
VARIANTS = ["baseline", "fast", "regular", "fast_tutorial"]


def config_with(**measurement):
    values = CONFIG.measurement.model_dump(mode="json") | {"control": False} | measurement
    return CONFIG.model_copy(update={"measurement": type(CONFIG.measurement).model_validate(values)})


def timed_rounds(config):
    """The timed rounds of all experiments, each as the labels of its runs."""
    orders = [
        run for experiment in config.experiments() for run in plan_experiment(config, experiment).order if run.mode == "timed"
    ]
    rounds = {}
    for run in orders:
        rounds.setdefault(run.seed, []).append("control" if run.control else run.variant)
    return list(rounds.values())


def test_each_round_holds_every_variant_once():
    config = config_with(variants=["baseline", "fast", "regular"], rounds=4, profiled=1, documented=0)
    order = plan_experiment(config, "experiment-1").order
    rounds = [order[start : start + 3] for start in range(0, len(order), 3)]
    assert [Counter(run.variant for run in one) for one in rounds] == [Counter(baseline=1, fast=1, regular=1)] * 5
    assert [one[0].mode for one in rounds] == ["timed"] * 4 + ["profiled"]
    assert all(len({(run.mode, run.round, run.seed) for run in one}) == 1 for one in rounds)


def test_the_control_is_the_first_variant_once_more_in_timed_rounds_only():
    plan = plan_experiment(config_with(control=True, rounds=2, profiled=1, documented=1), "experiment-1")
    controls = [run for run in plan.order if run.control]
    assert [(run.variant, run.mode, run.round) for run in controls] == [("baseline", "timed", 0), ("baseline", "timed", 1)]
    assert sum(name.endswith("-baseline-control") for name in plan.folders()) == 2
    assert len(plan.order) == 3 + 3 + 2 + 2


@given(
    experiments=st.integers(1, 4),
    rounds=st.integers(1, 10),
    count=st.integers(1, 4),
    control=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_of_any_two_runs_each_comes_first_equally_often(experiments, rounds, count, control, seed):
    variants = VARIANTS[:count]
    config = config_with(experiments=experiments, rounds=rounds, variants=variants, control=control, order_seed=seed)
    orders = timed_rounds(config)
    assert len(orders) == experiments * rounds
    for one, other in combinations([*variants, *(["control"] if control else [])], 2):
        first = [order.index(one) < order.index(other) for order in orders]
        whole = len(first) // 4 * 4
        assert [sum(first[number : number + 4]) for number in range(0, whole, 4)] == [2] * (whole // 4)
        assert abs(2 * sum(first) - len(first)) <= (2 if len(first) > 4 else 1)


@given(seed=st.integers(0, 2**31 - 1))
def test_of_two_blocks_one_alternates_and_the_other_doubles_its_orders(seed):
    rounds = timed_rounds(config_with(variants=["baseline", "fast"], rounds=24, order_seed=seed))
    first = [order[0] == "baseline" for order in rounds]
    kinds = [first[number] != first[number + 1] for number in range(0, 24, 4)]  # whether a block alternates
    assert [sum(kinds[number : number + 2]) for number in (0, 2, 4)] == [1, 1, 1]
    for number, alternates in zip(range(0, 24, 4), kinds, strict=True):
        one = first[number]
        assert first[number : number + 4] == ([one, not one, one, not one] if alternates else [one, one, not one, not one])


def test_orders_differ_by_their_seed_and_none_is_told_by_the_seeds_of_the_runs():
    drawn = {}
    for seed in range(200):
        plan = plan_experiment(config_with(variants=["baseline", "fast"], rounds=24, order_seed=seed), "experiment-1")
        assert [run.seed for run in plan.order if run.mode == "timed"][::2] == list(range(24))
        drawn[tuple(run.variant for run in plan.order if run.mode == "timed")] = seed
    assert len(drawn) > 100  # of 512 orders
    first = Counter(order[0] for order in drawn)
    assert min(first.values()) > 30


def test_an_order_goes_on_as_it_began_if_more_rounds_are_planned():
    short, long = (
        plan_experiment(config_with(rounds=rounds, profiled=0, documented=0, order_seed=7), "experiment-1").order
        for rounds in (6, 24)
    )
    assert long[: len(short)] == short


def test_a_plan_of_an_earlier_version_is_found_again():
    # As version 0.3.0 planned it: each second round is the reverse of the one before.
    config = config_with(variants=["baseline", "fast"], rounds=8, profiled=0, documented=0)
    plan = plan_experiment(config, "experiment-1", "turned pairs")
    assert "".join(run.variant[0] for run in plan.order) == "bffbfbbffbbffbbf"
    assert plan_experiment(config, "experiment-1").design != plan.design == Plan(experiment="experiment-1", order=[]).design


def test_the_order_is_the_same_each_time_and_differs_between_experiments():
    config = config_with(experiments=2, rounds=8)
    assert plan_experiment(config, "experiment-1") == plan_experiment(config, "experiment-1")
    first, second = (
        [run.variant for run in plan_experiment(config, experiment).order] for experiment in ("experiment-1", "experiment-2")
    )
    assert first != second


def test_seeds_count_up_over_rounds_and_experiments():
    config = config_with(experiments=2, rounds=2, profiled=0, documented=0, seed=5, variants=["baseline"])
    assert [run.seed for run in plan_experiment(config, "experiment-1").order] == [5, 6]
    assert [run.seed for run in plan_experiment(config, "experiment-2").order] == [7, 8]


def test_rounds_of_profiled_runs_are_told_apart_between_experiments_whatever_the_timed_ones():
    for repeats in (0, 1, 2):
        config = config_with(experiments=3, rounds=repeats, profiled=2, documented=0, seed=5, variants=["baseline", "fast"])
        orders = [
            [run for run in plan_experiment(config, experiment).order if run.mode == "profiled"]
            for experiment in config.experiments()
        ]
        assert [sorted({run.seed for run in order}) for order in orders] == [[5, 6], [7, 8], [9, 10]]


def test_one_profiled_round_an_experiment_turns_round_every_second_experiment():
    config = config_with(experiments=2, rounds=2, profiled=1, documented=0, variants=["baseline", "fast"])
    first, second = (
        [run.variant for run in plan_experiment(config, experiment).order if run.mode == "profiled"]
        for experiment in config.experiments()
    )
    assert first == second[::-1]


def test_folders_are_numbered_in_order():
    config = config_with(rounds=1, profiled=1, documented=0, variants=["fast"])
    assert plan_experiment(config, "experiment-1").folders() == ["01-fast-timed", "02-fast-profiled"]


def test_an_ablation_runs_besides_the_variants_each_variant_once():
    values = config_with(variants=["regular"], rounds=1, profiled=0, documented=0).model_dump(mode="json")
    values["variants"]["cached"] = {"extends": "regular", "title": "+ cache in RAM", "cache": "ram"}
    values["measurement"]["ablation"] = ["regular", "cached"]
    plan = plan_experiment(check_config(values), "experiment-1")
    assert sorted(run.variant for run in plan.order) == ["cached", "regular"]
    assert plan.ablation == ["regular", "cached"]


def test_the_plan_commits_to_the_rule_of_quality():
    plan = plan_experiment(config_with(quality={"targets": [0.5], "margin": 0.02, "judged_above": 0.4}), "experiment-1")
    assert (plan.quality.targets, plan.quality.margin, plan.quality.judged_above) == ([0.5], 0.02, 0.4)
