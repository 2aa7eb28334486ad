import math
from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest

from speedproof.results.experiment import RUNS_FOLDER
from speedproof.results.files import write_json
from speedproof.results.folder import list_experiments
from speedproof.results.run_record import RUN_FILE, read_epochs, read_run
from speedproof.run.archive.cost import describe_cost, estimate_cost
from speedproof.stats.sequential import count_rounds
from speedproof_spleen.config import check_config, load_config
from tests.report.example import REPOSITORY, Example, vouch_again, write_example

# The example's start-ups are 29 s (baseline) and 28 s (fast), its epochs 1.48 s and 1.08 s, its validations 0.22 s and 0.18 s,
# each times a factor whose median over the rounds is 1.
BASELINE_S = 29 + 10 * 1.48 + 5 * 0.22
FAST_S = 28 + 10 * 1.08 + 5 * 0.18


def config_with(data=None, **measurement):
    values = load_config(REPOSITORY / "config.yaml").model_dump(mode="json")
    measured = {"profiled": 0, "documented": 0, "control": False, "rounds": 2, "epochs": 10, "validate_every": 2}
    values["measurement"] |= measured | measurement
    values["data"] |= data or {"source": "phantom"}
    return check_config(values)


@pytest.fixture(scope="module")
def past(tmp_path_factory):
    return write_example(tmp_path_factory.mktemp("past") / "records" / "example")


def test_minutes_are_start_up_epochs_and_validations_of_past_runs(past):
    cost = estimate_cost(config_with(), [past.parent])
    assert cost.experiments_min == pytest.approx({"experiment-1": 2 * (BASELINE_S + FAST_S) / 60}, rel=0.001)
    assert (cost.unknown, cost.devices, cost.data) == ([], ["NVIDIA H200"], ["phantom-full"])
    assert "these read phantom-full: epochs of more data take longer" in describe_cost(cost)


def test_an_epoch_that_takes_longer_than_others_counts(tmp_path):
    # Of five steady epochs of 1.08 s one takes three times as long, and the first counts in no average.
    results = write_example(tmp_path / "records" / "example", Example(modes=("timed",)))
    for path in results.glob("experiments/*/runs/*-fast-*/epochs.csv"):
        table = pd.read_csv(path)
        table.loc[3, "train_s"] *= 3
        table.to_csv(path, index=False)
    vouch_again(results)
    cost = estimate_cost(config_with(), [results.parent])
    assert cost.experiments_min["experiment-1"] == pytest.approx(2 * (BASELINE_S + FAST_S + 10 * 1.08 * 2 / 5) / 60, rel=0.001)


def test_the_control_and_every_experiment_count(past):
    cost = estimate_cost(config_with(control=True, experiments=2), [past.parent])
    assert list(cost.experiments_min) == ["experiment-1", "experiment-2"]
    assert sum(cost.experiments_min.values()) == pytest.approx(4 * (2 * BASELINE_S + FAST_S) / 60, rel=0.001)


def test_an_experiment_holds_all_of_its_gpus(past):
    values = config_with().model_dump(mode="json")
    values["variants"]["fast"] |= {"gpus": 4, "nodes": 2}
    cost = estimate_cost(check_config(values), [past.parent])
    assert cost.experiments_min == pytest.approx({"experiment-1": 8 * 2 * (BASELINE_S + FAST_S) / 60}, rel=0.001)


def test_what_passes_between_two_runs_counts(tmp_path):
    """Each timed run begins 7 s later than the one before it needed; between experiments there may be days."""
    results = write_example(tmp_path / "records" / "example", Example(modes=("timed",)))
    for experiment in list_experiments(results):
        begun = datetime(2026, 11, 21, tzinfo=UTC) + timedelta(days=int(experiment.name[-1]))
        for folder in sorted((experiment / RUNS_FOLDER).iterdir()):
            run, epochs = read_run(folder), read_epochs(folder)
            write_json(folder / RUN_FILE, run.model_copy(update={"started": begun.isoformat()}))
            own_s = run.start_up_s + 6 * epochs["train_s"].median() + 3 * epochs["validation_s"].median()
            begun += timedelta(seconds=own_s + 7)
    vouch_again(results)
    cost = estimate_cost(config_with(), [results.parent])
    assert cost.experiments_min == pytest.approx({"experiment-1": 2 * (BASELINE_S + FAST_S + 2 * 7) / 60}, rel=0.001)


def test_an_experiment_that_is_not_vouched_for_is_named_and_not_counted(tmp_path, caplog):
    results = write_example(tmp_path / "records" / "example", Example(modes=("timed",)))
    for epochs in results.glob("experiments/*/runs/*fast*/epochs.csv"):
        epochs.write_text(epochs.read_text() + " ")
    assert estimate_cost(config_with(), [results.parent]).guessed == {"fast": "baseline"}
    assert f"not counted: {epochs}" in caplog.text


def test_profiled_runs_cost_what_profiled_ones_did(past):
    cost = estimate_cost(config_with(rounds=0, profiled=1), [past.parent])
    profiled_s = 29 + 28 + 1.05 * (BASELINE_S - 29 + FAST_S - 28)
    assert cost.experiments_min["experiment-1"] == pytest.approx(profiled_s / 60, rel=0.001)


def test_a_variant_without_past_runs_is_guessed_by_the_one_that_differs_least(past):
    values = config_with().model_dump(mode="json")
    values["variants"]["small"] = values["variants"]["fast"] | {"title": "Small", "batch_size": 4}
    values["measurement"]["variants"] = ["baseline", "small"]
    cost = estimate_cost(check_config(values), [past.parent])
    assert cost.guessed == {"small": "fast"}
    assert cost.unknown == []
    assert cost.experiments_min == pytest.approx({"experiment-1": 2 * (BASELINE_S + FAST_S) / 60}, rel=0.001)
    assert "no past run, estimated like fast, which differs least: small" in describe_cost(cost)


def test_past_runs_of_another_workload_or_that_broke_off_tell_nothing(past, tmp_path):
    values = config_with().model_dump(mode="json")
    values["workload"]["patch_size"] = [32, 32, 32]
    assert estimate_cost(check_config(values), [past.parent]).unknown == ["baseline", "fast"]
    broken = write_example(tmp_path, Example(experiments=1, rounds=1, modes=("timed",), outcome="out_of_memory"))
    assert estimate_cost(config_with(), [broken]).guessed == {"fast": "baseline"}


def test_download_and_disk_follow_from_the_configuration(past):
    downloaded, made, local = (
        estimate_cost(config_with(data), [past.parent])
        for data in ({"source": "msd"}, {"source": "phantom"}, {"source": "local", "local_folder": "here"})
    )
    assert (downloaded.download_mib, downloaded.data_mib) == (1536, 3072)
    assert made.download_mib == 0
    assert made.data_mib == pytest.approx(1.3 * 41 * 512 * 512 * 150 / 2**20)
    assert (local.download_mib, local.data_mib) == (0, 0)


def test_nothing_known_is_said_without_minutes(tmp_path):
    first, *_ = describe_cost(estimate_cost(config_with(), [tmp_path]))
    assert first == "not counted, because no past run of this workload has it: baseline, fast"


def test_what_finds_a_difference_is_said_by_the_noise_of_past_pairs(past):
    """Six pairs whose logs are 0 and ± log(1.01 / 0.99), each twice: deviation 0.0200007 × √(4/5), five degrees."""
    cost = estimate_cost(config_with(), [past.parent])
    (power,) = cost.powers
    assert (power.variants, power.noise.degrees) == (("baseline", "fast"), 5)
    assert power.noise.deviation == pytest.approx(0.0200007 * math.sqrt(4 / 5), rel=1e-3)
    # The 20 % quantile of chi-squared at five degrees is 2.343 in tables.
    assert power.noise.limit == pytest.approx(power.noise.deviation * math.sqrt(5 / 2.343), rel=1e-3)
    minutes = (BASELINE_S + FAST_S) / 60
    rounds = [finding.rounds for finding in power.findings]
    assert rounds == [count_rounds(size, power.noise.limit) for size in (0.02, 0.05, 0.10)]
    assert [finding.minutes for finding in power.findings] == pytest.approx([count * minutes for count in rounds], rel=1e-3)
    sentence = next(text for text in describe_cost(cost) if text.startswith("baseline / fast")).replace(
        "\N{NO-BREAK SPACE}", " "
    )
    assert "a difference is found nine times in ten of 2.0 % in " in sentence and "pairs vary by 2.6 %" in sentence


def test_an_experiment_that_may_stop_sooner_costs_at_most_so_much(past):
    first, *others = describe_cost(estimate_cost(config_with(until="decided", rounds=4), [past.parent]))
    assert first.startswith("expected: at most ")
    assert any("counted against these numbers" in text for text in others)
