"""What an interrupted experiment is closed with, what its report says of it, and when it cannot be closed."""

import json
import shutil

import pytest

from speedproof.cli.result_commands import close as close_command
from speedproof.results.evidence_archive import is_there
from speedproof.results.experiment import EXPERIMENT_FILE, PREPARED_FILE, PREPARED_FOLDER, PreparedFolder, read_experiment
from speedproof.results.files import write_json
from speedproof.results.folder import CONFIG_FILE, read_results
from speedproof.run.archive.close import close_experiment
from speedproof.run.archive.record import write_record
from speedproof.run.plan import plan_experiment
from speedproof.stats.compare import compare_experiments
from speedproof.util.errors import RecordError
from speedproof_spleen.config import check_config, load_config
from tests.report.example import CLAIMS, REPOSITORY, Example, write_example


class Interrupted:
    """An experiment of three timed rounds of baseline, its control and fast that lacks its `experiment.json`."""

    def __init__(self, results, techniques=(), dice_per_epoch=0.05, **measurement):
        values = load_config(REPOSITORY / "config.yaml").model_dump(mode="json")
        values["measurement"] |= {"rounds": 3, "profiled": 0, "documented": 0} | measurement
        for variant in ("baseline", "fast"):
            values["variants"][variant] |= dict(techniques)
        self.results, self.folder, self.config = results, results / "experiments/experiment-1", check_config(values)
        plan = plan_experiment(self.config, "experiment-1")
        self.names = {(run.variant, run.control, run.round): name for name, run in zip(plan.folders(), plan.order, strict=True)}
        example = Example(
            experiments=1,
            order=tuple(plan.order),
            quality=plan.quality,
            techniques=techniques,
            dice_per_epoch=(("baseline", dice_per_epoch), ("fast", dice_per_epoch)),
        )
        write_example(results, example)
        write_json(results / CONFIG_FILE, self.config)
        (self.folder / EXPERIMENT_FILE).unlink()

    def run(self, variant, repeat, control=False):
        return self.folder / "runs" / self.names[variant, control, repeat]

    def change(self, run, change):
        record = json.loads((run / "run.json").read_text())
        change(record)
        write_json(run / "run.json", record)


def test_a_closed_experiment_has_its_whole_runs_and_says_what_it_lacks(tmp_path):
    experiment = Interrupted(tmp_path / "results")
    control, fast = experiment.run("baseline", 2, control=True), experiment.run("fast", 2)
    experiment.change(control, lambda run: run.update(outcome="stopped", reason="SIGINT"))
    shutil.rmtree(fast)
    close_command(experiment.folder)
    closed = read_experiment(experiment.folder)
    planned = sorted(experiment.names.values())
    assert closed.runs == closed.kept == [name for name in planned if name not in (control.name, fast.name)]
    assert closed.undone == {control.name: "stopped", fast.name: "not begun"}
    assert {name.split("/")[1] for name in closed.digests} == set(closed.runs)

    comparison = compare_experiments(experiment.results, CLAIMS)
    ratio = next(ratio for ratio in comparison.ratios if ratio.metric == "training_epoch_s")
    noise = next(noise for noise in comparison.noise_floor if noise.metric == "training_epoch_s")
    assert (ratio.pairs, noise.pairs) == (2, 2)
    # 1.48 / 1.08 times 1 and 1.01 / 0.99.
    assert 1.48 / 1.08 < ratio.centre < 1.48 * 1.01 / (1.08 * 0.99)
    names = ", ".join(f"{name} ({end})" for name, end in closed.undone.items())
    (warning,) = (text for text in comparison.warnings if "closed" in text)
    assert warning.startswith(f"experiment-1 was closed before 2 of its 9 planned runs were done: {names}; ratios come from")

    write_record([experiment.results], CLAIMS, tmp_path / "record")
    assert warning in (tmp_path / "record/report.md").read_text()
    (kept,) = read_results(tmp_path / "record").experiments
    assert (kept.runs, kept.undone) == (closed.runs, closed.undone)
    assert not is_there(tmp_path / "record/experiments/experiment-1/runs" / control.name)


def test_a_run_of_other_settings_or_cut_off_is_not_whole(tmp_path):
    experiment = Interrupted(tmp_path)
    experiment.change(experiment.run("fast", 0), lambda run: run["techniques"].update(batch_size=3))
    (experiment.run("fast", 1) / "run.json").unlink()
    (experiment.run("baseline", 1) / "gpu.csv").unlink()
    undone = close_experiment(experiment.folder, experiment.config).undone
    ends = {("fast", 0): "incomplete", ("fast", 1): "cut off", ("baseline", 1): "incomplete"}
    assert undone == {experiment.run(*key).name: end for key, end in ends.items()}


def test_runs_without_a_partner_decide_nothing_about_the_way_to_a_dice(tmp_path):
    # Best Dice by round: 6 epochs of 0.16, 0.01 more each round: 0.96, 0.97, 0.98. Without baseline's first, fast's is alone.
    quality = {"targets": [0.965], "margin": 0.01, "judged_above": 0.9}
    experiment = Interrupted(tmp_path, dice_per_epoch=0.16, quality=quality)
    shutil.rmtree(experiment.run("baseline", 0))
    close_experiment(experiment.folder, experiment.config)
    comparison = compare_experiments(tmp_path, CLAIMS)
    assert [ratio.pairs for ratio in comparison.ratios if ratio.metric == "epochs_to_quality"] == [2]
    assert comparison.unreached == []
    assert {row.variant: (row.reached, row.runs) for row in comparison.reached} == {"baseline": (2, 2), "fast": (2, 3)}


def test_what_prepared_volumes_took_is_kept_or_the_experiment_is_refused(tmp_path):
    turbo = load_config(REPOSITORY / "config.yaml", REPOSITORY / "workflow/config/turbo.yaml").variants["turbo"]
    techniques = turbo.model_dump(mode="json", exclude={"title"}) | {"prepared_folder": "somewhere"}
    experiment = Interrupted(tmp_path, tuple(techniques.items()))
    shutil.rmtree(experiment.run("fast", 2))
    with pytest.raises(RecordError, match=rf"{PREPARED_FILE}: no such file"):
        close_experiment(experiment.folder, experiment.config)
    filled = [PreparedFolder(variant=name, seconds=9.0, volumes=41, from_store=0) for name in ("baseline", "fast")]
    for folder in filled:
        write_json(experiment.folder / PREPARED_FOLDER / folder.variant / PREPARED_FILE, folder)
    assert sorted(close_experiment(experiment.folder, experiment.config).prepared, key=lambda found: found.variant) == filled


def finish(experiment):
    close_experiment(experiment.folder, experiment.config)


def remove_all(experiment):
    shutil.rmtree(experiment.folder / "runs")


def remove_fast(experiment):
    for repeat in range(3):
        shutil.rmtree(experiment.run("fast", repeat))


def move_a_run_to_another_gpu(experiment):
    experiment.change(experiment.run("fast", 1), lambda run: run["conditions"]["gpu"].update(uuid="GPU-2"))


def plan_another_round(experiment):
    values = experiment.config.model_dump(mode="json")
    values["measurement"]["rounds"] = 4
    experiment.config = check_config(values)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (finish, "experiment.json: exists"),
        (remove_all, "no run is complete"),
        (remove_fast, "no two compared variants have a complete run in the same round"),
        (move_a_run_to_another_gpu, "used a different GPU card than"),
        (plan_another_round, "plan.json: does not match the configuration"),
    ],
)
def test_what_cannot_be_closed_is_refused_in_one_line(tmp_path, change, said):
    experiment = Interrupted(tmp_path)
    change(experiment)
    existed = (experiment.folder / EXPERIMENT_FILE).exists()
    with pytest.raises(RecordError) as caught:
        close_experiment(experiment.folder, experiment.config)
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert (experiment.folder / EXPERIMENT_FILE).exists() == existed


@pytest.mark.parametrize(
    ("table", "spoil"),
    [
        ("epochs.csv", lambda lines: lines[:5]),
        ("epochs.csv", lambda lines: [*lines, lines[-1]]),
        ("epochs.csv", lambda lines: lines[1:]),
        ("gpu.csv", lambda lines: ["time_s"]),
    ],
    ids=["cut", "twice", "no header", "no columns"],
)
def test_a_run_whose_table_is_not_whole_does_not_count(tmp_path, table, spoil):
    experiment = Interrupted(tmp_path / "results")
    path = experiment.run("fast", 2) / table
    path.write_text("\n".join(spoil(path.read_text().splitlines())) + "\n")
    close_command(experiment.folder)
    assert read_experiment(experiment.folder).undone == {path.parent.name: "incomplete"}


def test_what_lies_in_no_results_folder_cannot_be_closed(speedproof_here):
    ended = speedproof_here("results", "close", "--experiment", "/")
    assert ended.returncode == 2
    assert "not in a results folder" in " ".join(ended.stderr.replace("│", " ").split())
