"""Experiments of equal settings from several folders are one measurement, of which each machine counts once."""

import json
from math import exp, log, sqrt
from statistics import fmean, stdev

import pytest
from typer.testing import CliRunner

from speedproof.cli.application import app
from speedproof.results.experiment import RUNS_FOLDER
from speedproof.results.files import write_json
from speedproof.results.folder import list_experiments, read_results
from speedproof.results.merging import digest_settings, merge_results
from speedproof.results.quality import TunedOn
from speedproof.results.run_record import RUN_FILE, read_run
from speedproof.stats.claims_file import load_claims
from speedproof.stats.measurements import measure_ratio
from speedproof.stats.merged_ratios import group_equal, judge_merged, measure_merged
from speedproof.stats.non_inferiority import leave_out_tuned
from speedproof.util.errors import RecordError
from tests.report.example import CLAIMS, Example, rule_with, vouch_again, write_example

PAIR = ("baseline", "fast")
# Of one result the ratio on each machine: 2, 2.1 and 2.2.
MACHINES = {"one": 2.0, "two": 2.1, "three": 2.2}


def write_machine(folder, ratio, number, **settings):
    """Write a folder of results as a machine of its own has them, with a seed of its own for each run."""
    example = Example(modes=("timed",), experiments=1, rounds=2, epoch_s=(("baseline", ratio), ("fast", 1.0)), **settings)
    results = write_example(folder, example)
    for run in sorted((list_experiments(results)[0] / RUNS_FOLDER).iterdir()):
        old = read_run(run)
        gpu = old.conditions.gpu.model_copy(update={"uuid": f"GPU-{number}"})
        conditions = old.conditions.model_copy(update={"gpu": gpu, "gpu_uuids": [gpu.uuid], "host": f"host-{number}"})
        write_json(run / RUN_FILE, old.model_copy(update={"conditions": conditions, "seed": old.round + 10 * number}))
    return vouch_again(results)


@pytest.fixture
def folders(tmp_path):
    return [write_machine(tmp_path / name, ratio, number) for number, (name, ratio) in enumerate(MACHINES.items())]


def test_each_machine_counts_once_however_many_folders_it_is_of(folders):
    (ratio,) = measure_merged(merge_results(folders), ["training_epoch_s"])
    alone = [measure_ratio(read_results(folder), *PAIR, "timed", "training_epoch_s") for folder in folders]
    logs = [log(own.centre) for (own,) in alone]
    assert logs[1] - logs[0] == pytest.approx(log(2.1 / 2.0)) and logs[2] - logs[0] == pytest.approx(log(2.2 / 2.0))
    half_width = 4.302653 * stdev(logs) / sqrt(3)
    assert (ratio.scope, ratio.hosts, ratio.pairs, ratio.experiment) == ("model", 3, 6, None)
    assert ratio.centre == pytest.approx(exp(fmean(logs)))
    assert (ratio.low, ratio.high) == pytest.approx((exp(fmean(logs) - half_width), exp(fmean(logs) + half_width)), rel=1e-6)
    assert {file.split("/")[0] for file in ratio.origin.files} == set(MACHINES)


def test_quality_is_of_the_machines_means_and_of_all_their_seeds(folders):
    (ratio,) = measure_merged(merge_results(folders), ["training_epoch_s"])
    assert ratio.quality.seeds is None  # six different ones
    means = [fmean(run.run.best_quality for run in read_results(folder).select("fast", "timed")) for folder in folders]
    assert ratio.quality.candidate_quality == pytest.approx(fmean(means))


def test_two_machines_are_not_averaged(folders):
    found = measure_merged(merge_results(folders[:2]), ["training_epoch_s"])
    assert [(ratio.scope, ratio.experiment) for ratio in found] == [("here", "one/experiment-1"), ("here", "two/experiment-1")]


def test_experiments_of_other_settings_are_a_group_of_their_own(folders, tmp_path):
    longer = write_machine(tmp_path / "longer", 2.0, 3, techniques=(("batch_size", 99),))
    groups = group_equal(merge_results([longer, *folders]), PAIR)
    assert [sorted({run.experiment.split("/")[0] for run in group.runs}) for group in groups] == [
        ["one", "three", "two"],
        ["longer"],
    ]


def test_a_setting_that_is_off_is_one_that_an_earlier_version_did_not_know(folders):
    run = read_results(folders[0]).runs[0].run
    techniques = {name: value for name, value in run.techniques.items() if value is not None and value is not False}
    assert digest_settings(run) == digest_settings(run.model_copy(update={"techniques": techniques | {"title": "Other"}}))
    assert digest_settings(run) == digest_settings(run.model_copy(update={"techniques": techniques | {"pinned": False}}))
    assert digest_settings(run) != digest_settings(run.model_copy(update={"techniques": techniques | {"pinned": True}}))
    assert digest_settings(run) != digest_settings(run.model_copy(update={"techniques": techniques | {"pinned": 0}}))
    assert digest_settings(run) != digest_settings(run.model_copy(update={"epochs": run.epochs + 1}))


def test_pairs_on_whose_seed_and_data_settings_were_chosen_do_not_count(folders):
    runs = read_results(folders[0]).select("fast", "timed")
    pairs = [(run, run) for run in runs]
    data, seeds = runs[0].run.conditions.dataset_name, [run.run.seed for run in runs]

    def count(**tuned):
        return len(leave_out_tuned(pairs, rule_with(tuned_on=tuned)))

    assert count(fast=TunedOn(seeds=seeds[:1], data=[data])) == 1
    assert count(fast=TunedOn(seeds=seeds, data=["other data"])) == 2
    assert count(fast=TunedOn(seeds=seeds)) == 0
    assert count(baseline=TunedOn(seeds=seeds)) == 2


def test_a_documented_ratio_is_judged_by_all_machines(folders):
    judged = {claim.id: claim for claim in judge_merged(merge_results(folders), load_claims(CLAIMS))}
    claim = judged["profiling_training_epoch_ratio"]
    assert (claim.scope, claim.counted) == ("model", 6)


def test_a_folder_given_twice_and_another_rule_are_refused(folders, tmp_path):
    with pytest.raises(RecordError, match="one: two folders of this name"):
        merge_results([folders[0], folders[0]])
    lenient = write_machine(tmp_path / "lenient", 2.0, 3, quality=rule_with(margin=0.05))
    with pytest.raises(RecordError, match="lenient/experiment-1: its quality has another margin than that of one/experiment-1"):
        merge_results([folders[0], lenient])


def test_the_command_prints_the_merged_ratio_and_what_became_of_documented_ones(folders):
    words = ["merge", *(word for folder in folders for word in ("--from", str(folder))), "--claims", str(CLAIMS)]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 0, found.output
    assert "3 machines" in found.output and "documented ratio" in found.output
    plain = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert {ratio["hosts"] for ratio in plain["ratios"]} == {3} and plain["claims"]
