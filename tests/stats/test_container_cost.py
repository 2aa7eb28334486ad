import json
import math

import pandas as pd
import pytest

from speedproof.report.headlines import describe_answer
from speedproof.report.markdown import write_report
from speedproof.stats.compare import compare_experiments, write_comparison
from speedproof.stats.main_ratios import find_answer
from tests.report.example import CLAIMS, Example, compare_example, vouch_again, write_example


def put_into_container(results, experiment, slower):
    """Say that an experiment ran inside an image, and that its training epochs took `slower` times as long."""
    folder = results / "experiments" / experiment
    for path in (folder / "experiment.json", *folder.glob("runs/*/run.json")):
        described = json.loads(path.read_text())
        described["conditions"]["image"] = "sha256:0"
        path.write_text(json.dumps(described))
    for path in folder.glob("runs/*/epochs.csv"):
        epochs = pd.read_csv(path)
        epochs["train_s"] *= slower
        epochs.to_csv(path, index=False)
    vouch_again(results)


def test_a_container_costs_what_experiments_inside_take_longer_than_their_partners_outside(tmp_path):
    results = write_example(tmp_path, Example(experiments=8, rounds=1, modes=("timed",)))
    for experiment, slower in {"experiment-2": 1.02, "experiment-4": 1.04, "experiment-6": 1.02, "experiment-8": 1.04}.items():
        put_into_container(results, experiment, slower)
    comparison = compare_experiments(results, CLAIMS)
    costs = {(cost.variant, cost.metric): cost for cost in comparison.container}
    cost = costs["baseline", "training_epoch_s"]
    assert cost.pairs == 4  # turns
    assert cost.centre == pytest.approx(math.sqrt(1.02 * 1.04))
    # Half the difference of the logs 0.0097090, deviation × √(4/3), t(3 degrees) = 3.182446, / √4.
    assert math.log(cost.high / cost.centre) == pytest.approx(3.182446 * 0.0097090 * math.sqrt(4 / 3) / 2, rel=1e-4)
    assert (cost.claimed, cost.outcome) == (True, "faster")  # outside is
    assert costs["fast", "process_s"].centre == pytest.approx(1.0)


def test_nothing_is_said_of_a_container_where_all_experiments_ran_alike():
    assert compare_example(Example()).container == []


def test_a_container_on_another_gpu_has_no_cost(tmp_path):
    results = write_example(tmp_path, Example(experiments=2, rounds=3, modes=("timed",)))
    put_into_container(results, "experiment-2", 1.0)
    path = results / "experiments/experiment-2/experiment.json"
    described = json.loads(path.read_text())
    described["conditions"]["gpu"]["uuid"] = "GPU-another"
    path.write_text(json.dumps(described))
    comparison = compare_experiments(results, CLAIMS)
    assert comparison.container == []
    assert any("differ in GPU" in warning for warning in comparison.warnings)


def test_the_report_says_what_the_container_costs_and_which_experiment_ran_in_it(tmp_path):
    results = write_example(tmp_path / "results", Example(experiments=4, rounds=3, modes=("timed",)))
    for experiment in ("experiment-2", "experiment-4"):
        put_into_container(results, experiment, 1.02)
    write_comparison(compare_experiments(results, CLAIMS), results)
    write_report(results, tmp_path / "report.md")
    report = (tmp_path / "report.md").read_text()
    assert "Inside the container a training epoch of MONAI baseline script takes 1.02× as long as outside" in report
    assert "none: not in a container (experiment-1, experiment-3); sha256:0 (experiment-2, experiment-4)" in report
    assert "<b>What the container costs</b>" in report


@pytest.mark.parametrize(
    ("experiments", "opening"),
    [(2, "No verdict yet: "), (4, "No verdict yet: "), (8, "Equivalent: ")],
)
def test_a_report_that_compares_nothing_else_answers_by_the_container(tmp_path, experiments, opening):
    results = write_example(tmp_path, Example(experiments=experiments, rounds=1, modes=("timed",)))
    for number in range(2, experiments + 1, 2):
        put_into_container(results, f"experiment-{number}", 1.02)
    comparison = compare_experiments(results, CLAIMS)
    comparison.ratios.clear()
    comparison.claims.clear()
    said = describe_answer(find_answer(comparison))[0]
    assert said == f"{opening}MONAI baseline script takes 1.02× as long inside the container as outside on this machine."
