"""Experiments of equal settings from several folders are one measurement, of which each machine counts once."""

import json
import shutil
from math import exp, log, sqrt
from statistics import fmean, stdev

import pytest
from typer.testing import CliRunner

from speedproof.cli.application import app
from speedproof.results.experiment import RUNS_FOLDER
from speedproof.results.files import write_json
from speedproof.results.folder import list_experiments, read_results
from speedproof.results.merging import digest_settings, merge_results
from speedproof.results.observations import Observations
from speedproof.results.quality import TunedOn
from speedproof.results.run_record import RUN_FILE, read_run
from speedproof.run.archive.record import write_record
from speedproof.stats.claims_file import Speedup, load_claims
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
    given = {"experiments": 1, "rounds": 2} | settings
    example = Example(modes=("timed",), epoch_s=(("baseline", ratio), ("fast", 1.0)), **given)

    def move(old):
        gpu = old.conditions.gpu.model_copy(update={"uuid": f"GPU-{number}"})
        conditions = old.conditions.model_copy(update={"gpu": gpu, "gpu_uuids": [gpu.uuid], "host": f"host-{number}"})
        return {"conditions": conditions, "seed": old.round + 10 * number}

    return change_runs(write_example(folder, example), move)


def change_runs(results, change):
    """Change fields of every run of a folder, as if they had been measured so; `change` returns them by the old run."""
    for experiment in list_experiments(results):
        for run in sorted((experiment / RUNS_FOLDER).iterdir()):
            old = read_run(run)
            write_json(run / RUN_FILE, old.model_copy(update=change(old)))
    return vouch_again(results)


def as_proof(results, sources, titles=None, **settings):
    """Make results those of a proof whose programs have these sources and titles."""

    def prove(old):
        conditions = old.conditions.model_copy(update={"sources": sources})
        title = (titles or {}).get(old.variant, old.variant)
        return {"case": "programs", "conditions": conditions, "techniques": {"title": title, **settings}}

    return change_runs(results, prove)


def leave_process(results):
    """Have every run of the fast variant leave a process behind, for which no ratio counts."""
    return change_runs(results, lambda old: {"observed": Observations(left_processes=int(old.variant == "fast"))})


def measure_epochs(folders):
    """The merged ratios of the training epoch."""
    return [one for one in measure_merged(merge_results(folders).results) if one.ratio.metric == "training_epoch_s"]


def run_merge(folders, *words):
    """What `speedproof results merge` prints of folders."""
    found = CliRunner().invoke(
        app, ["results", "merge", *(word for folder in folders for word in ("--from", str(folder))), *words]
    )
    assert found.exit_code == 0, found.output
    return found.output


@pytest.fixture
def folders(tmp_path):
    return [write_machine(tmp_path / name, ratio, number) for number, (name, ratio) in enumerate(MACHINES.items())]


def test_each_machine_counts_once_however_many_folders_it_is_of(folders):
    ratio = measure_epochs(folders)[0].ratio
    alone = [measure_ratio(read_results(folder), *PAIR, "timed", "training_epoch_s") for folder in folders]
    logs = [log(own.centre) for (own,) in alone]
    assert logs[1] - logs[0] == pytest.approx(log(2.1 / 2.0)) and logs[2] - logs[0] == pytest.approx(log(2.2 / 2.0))
    half_width = 4.302653 * stdev(logs) / sqrt(3)
    assert (ratio.scope, ratio.hosts, ratio.pairs, ratio.experiment) == ("model", 3, 6, None)
    assert ratio.centre == pytest.approx(exp(fmean(logs)))
    assert (ratio.low, ratio.high) == pytest.approx((exp(fmean(logs) - half_width), exp(fmean(logs) + half_width)), rel=1e-6)
    assert {file.split("/")[0] for file in ratio.origin.files} == set(MACHINES)


def test_quality_is_of_the_machines_means_and_of_all_their_seeds(folders):
    ratio = measure_epochs(folders)[0].ratio
    assert ratio.quality.seeds is None  # six different ones
    means = [fmean(run.run.best_quality for run in read_results(folder).select("fast", "timed")) for folder in folders]
    assert ratio.quality.candidate_quality == pytest.approx(fmean(means))


def test_two_machines_are_not_averaged(folders):
    found = measure_epochs(folders[:2])
    assert [(merged.ratio.scope, merged.ratio.experiment) for merged in found] == [
        ("here", "one/experiment-1"),
        ("here", "two/experiment-1"),
    ]


def test_experiments_of_other_settings_are_a_group_of_their_own(folders, tmp_path):
    longer = write_machine(tmp_path / "longer", 2.0, 3, techniques=(("batch_size", 99),))
    groups = group_equal(merge_results([longer, *folders]).results, PAIR)
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
    judged = {claim.id: claim for claim in judge_merged(merge_results(folders).results, load_claims(CLAIMS))}
    claim = judged["profiling_training_epoch_ratio"]
    assert (claim.scope, claim.counted) == ("model", 6)


def test_a_folder_given_twice_and_another_rule_are_refused(folders, tmp_path):
    with pytest.raises(RecordError, match="one: given twice; give each folder once"):
        merge_results([folders[0], folders[0]])
    lenient = write_machine(tmp_path / "lenient", 2.0, 3, quality=rule_with(margin=0.05))
    with pytest.raises(RecordError, match="lenient/experiment-1: its quality has another margin than that of one/experiment-1"):
        merge_results([folders[0], lenient])


def test_the_command_prints_the_merged_ratio_and_what_became_of_documented_ones(folders):
    words = ("--claims", str(CLAIMS))
    printed = run_merge(folders, *words)
    assert "3 machines" in printed and "documented ratio" in printed
    assert "Experiments: one/experiment-1, two/experiment-1, three/experiment-1" in " ".join(printed.split())
    assert printed.count("Quality not judged") == 1  # of two metrics
    plain = json.loads(run_merge(folders, *words, "--json"))
    assert {(ratio["hosts"], ratio["verdict"]) for ratio in plain["ratios"]} == {(3, "faster")} and plain["claims"]
    documented = sum(isinstance(claim.quantity, Speedup) for claim in load_claims(CLAIMS).claims)
    assert plain["not_judged"] == documented - len(plain["claims"]) > 0
    assert f"Not judged: {plain['not_judged']} documented ratios" in printed


def test_each_ratio_has_the_titles_of_its_own_experiments(tmp_path):
    titles = {"one": {"baseline": "A: old.py", "fast": "B: new.py"}, "two": {"baseline": "A: wait.py", "fast": "B: spin.py"}}
    proofs = [
        as_proof(write_machine(tmp_path / name, ratio, number), name, titles[name], command=name)
        for number, (name, ratio) in enumerate((("one", 2.0), ("two", 3.0)))
    ]
    for given in (proofs, proofs[::-1]):
        found = {merged.experiments: merged.titles for merged in measure_epochs(given)}
        assert found == {(f"{name}/experiment-1",): titles[name] for name in titles}


def test_a_variant_is_called_as_its_newest_experiment_calls_it_whatever_the_order(tmp_path):
    old, new = (write_machine(tmp_path / str(day), 2.0, day, day=day) for day in (20, 22))
    for results, title in ((old, "Before"), (new, "After")):
        change_runs(results, lambda run, title=title: {"techniques": run.techniques | {"title": f"{title} {run.variant}"}})
    for given in ((old, new), (new, old)):
        assert {tuple(merged.titles.values()) for merged in measure_epochs(given)} == {("After baseline", "After fast")}
        record = tmp_path / f"record-of-{given[0].name}-first"
        write_record(list(given), CLAIMS, record)
        assert list(read_results(record).variants.values()) == ["After baseline", "After fast"]


def test_proofs_of_other_program_files_are_not_of_equal_settings_but_workloads_are(folders):
    def count(sources):
        for folder, source in zip(folders, sources, strict=True):
            as_proof(folder, source)
        return [len(group.experiments) for group in group_equal(merge_results(folders).results, PAIR)]

    assert count(["same"] * 3) == [3]
    assert count(["same", "same", "other"]) == [2, 1]
    for folder, source in zip(folders, MACHINES, strict=True):
        change_runs(
            folder, lambda old, new=source: {"case": "x", "conditions": old.conditions.model_copy(update={"sources": new})}
        )
    assert len(group_equal(merge_results(folders).results, PAIR)) == 1


def test_a_record_is_not_made_of_proofs_of_other_program_files(folders, tmp_path):
    proofs = [as_proof(folder, source) for folder, source in zip(folders, ("old", "new"), strict=False)]
    with pytest.raises(RecordError, match="baseline has program files new, but old in"):
        write_record(proofs, CLAIMS, tmp_path / "record")


@pytest.mark.parametrize("machines", [1, 3])
def test_what_blocks_the_ratio_of_one_experiment_blocks_the_merged_one(folders, machines):
    leave_process(folders[0])
    plain = json.loads(run_merge(folders[:machines], "--json"))
    assert {ratio["verdict"] for ratio in plain["ratios"]} == {"inconclusive"}
    assert not any(ratio["claimed"] for ratio in plain["ratios"])
    assert {(doubt["kind"], doubt["blocks"]) for ratio in plain["ratios"] for doubt in ratio["objections"]} == {
        ("left processes", True)
    }
    printed = " ".join(run_merge(folders[:machines]).split())
    assert printed.count("Inconclusive: MONAI fast script left 1 process running when it ended") == 1
    assert plain["ratios"][0]["doubts"][0].startswith("MONAI fast script left 1 process")


def test_an_experiment_that_is_given_twice_counts_once(folders, tmp_path):
    write_record([folders[0]], CLAIMS, tmp_path / "record")
    copy = shutil.copytree(folders[0], tmp_path / "copy")
    merged = merge_results([*folders, copy, tmp_path / "record"])
    assert merged.repeated == {f"{name}/experiment-1": "one/experiment-1" for name in ("copy", "record")}
    alone, (together,) = measure_epochs(folders), measure_epochs([*folders, copy, tmp_path / "record"])
    assert alone == [together] and together.ratio.pairs == 6
    assert "copy/experiment-1: the same experiment as one/experiment-1; counted once" in run_merge([*folders, copy])
    assert json.loads(run_merge([*folders, copy], "--json"))["repeated"] == {"copy/experiment-1": "one/experiment-1"}


def test_of_an_experiment_and_its_copy_without_profiled_runs_the_whole_one_counts(tmp_path):
    whole = write_example(tmp_path / "whole", Example(rounds=2))
    write_record([whole], CLAIMS, tmp_path / "less", ["fast"])
    assert merge_results([tmp_path / "less", whole]).repeated == {"less/experiment-1": "whole/experiment-1"}


def test_documented_ratios_are_judged_by_most_machines_then_most_pairs(folders, tmp_path):
    many = write_machine(tmp_path / "many", 9.0, 7, experiments=4, techniques=(("batch_size", 99),))
    for given in ([many, *folders], [*folders, many]):
        groups = group_equal(merge_results(given).results, PAIR)
        assert [len(group.experiments) for group in groups] == [3, 4]  # of three machines, and of one
        judged = {claim.id: claim for claim in judge_merged(merge_results(given).results, load_claims(CLAIMS))}
        assert judged["profiling_training_epoch_ratio"].counted == 6
    few = group_equal(merge_results([many, folders[0]]).results, PAIR)
    assert [len(group.experiments) for group in few] == [4, 1]  # eight pairs, and two


def test_proofs_are_named_by_their_folders_and_may_have_equal_names(tmp_path):
    for number, name in enumerate(("left", "right")):
        proof = tmp_path / name / "proof"
        as_proof(write_machine(proof / "results", 2.0, number), "same")
        (proof / "verdict.json").write_text("{}", encoding="utf-8")
    proofs = [tmp_path / name / "proof" for name in ("left", "right")]
    printed = run_merge(proofs)
    assert "Experiments: left/proof/experiment-1" in printed and "Experiments: right/proof/experiment-1" in printed
    assert run_merge([proof / "results" for proof in proofs]) == printed
    assert "Experiments: proof/experiment-1" in run_merge(proofs[:1])


def test_programs_without_epochs_are_compared_by_their_processes(folders):
    for folder in folders:
        for epochs in folder.rglob("epochs.csv"):
            epochs.write_text(epochs.read_text(encoding="utf-8").splitlines()[0] + "\n", encoding="utf-8")
        change_runs(folder, lambda old: {"epochs": 0, "best_quality": None})
    assert {merged.ratio.metric for merged in measure_merged(merge_results(folders).results)} == {"process_s"}
