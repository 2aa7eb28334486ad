"""Results of earlier versions are read as today's: a record's tracked files, and whole results of a user."""

import csv
import io
import json
import shutil
import zipfile
from pathlib import Path

import pytest

from speedproof.results.comparison import read_comparison
from speedproof.results.evidence_archive import EVIDENCE_FILE
from speedproof.results.experiment import Plan, read_experiment, read_whole_experiment
from speedproof.results.files import read_json, read_record, read_text, write_json
from speedproof.results.folder import read_results
from speedproof.results.older_versions import RENAMED_TITLES, convert_older, convert_older_config
from speedproof.results.run_record import EPOCH_COLUMNS, read_epochs, read_run, write_epochs
from speedproof.stats.compare import compare_experiments
from speedproof.util.errors import RecordError
from speedproof_spleen.config import load_config
from tests.report.example import CLAIMS, REPOSITORY, RULE, Example, compare_example, rule_with, vouch_again, write_example

EXPERIMENT = Path(__file__).parents[2] / "records/2026-11-22-h200-sides/blocks/block-1"
RUN = EXPERIMENT / "runs/03-baseline-timed"


OLD_WORDS = {
    "mode": "arm", "round": "repeat", "observed_ranges": "heard", "experiment": "block", "ablation": "ladder",
    "equivalence_margin": "same_margin",
}  # fmt: skip


def to_version_2(results):
    """Rewrite results in the layout and the words of versions before 0.3."""
    for path in [*results.rglob("run.json"), *results.rglob("experiment.json"), *results.rglob("plan.json")]:
        value = {OLD_WORDS.get(key, key): item for key, item in json.loads(path.read_text()).items()} | {"schema_version": 2}
        if "order" in value:
            value["order"] = [{OLD_WORDS.get(key, key): item for key, item in run.items()} for run in value["order"]]
        write_json(path, value)
    vouch_again(results)
    for path in results.rglob("experiment.json"):
        path.rename(path.with_name("block.json"))
    (results / "experiments").rename(results / "blocks")
    return results


def to_version_1(results):
    """Rewrite results as version 1 would have written them."""
    results = to_version_2(results)
    for path in [*results.rglob("run.json"), *results.rglob("block.json"), *results.rglob("plan.json")]:
        value = json.loads(path.read_text())
        value = {key.replace("best_quality", "best_dice"): item for key, item in value.items()} | {"schema_version": 1}
        if quality := value.get("quality"):
            value["quality"] = {
                "dice_targets": quality["targets"],
                "dice_margin": quality["margin"],
                "judged_above": quality["judged_above"],
            }
        write_json(path, value)
    for path in results.rglob("epochs.csv"):
        with path.open() as file:
            rows = [row | {"dice_foreground": row["quality"], "dice_with_background": ""} for row in csv.DictReader(file)]
        columns = [
            "epoch", "train_s", "validation_s", "loss", "dice_foreground", "dice_with_background", "steps", "samples_per_s",
            "peak_memory_mib",
        ]  # fmt: skip
        with path.open("w", newline="") as file:
            table = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
            table.writeheader()
            table.writerows(rows)
    return vouch_again(results)


def test_a_tracked_run_of_version_1_has_its_quality_by_todays_names():
    written = read_json(RUN / "run.json")
    run = read_run(RUN)
    assert (written["schema_version"], run.schema_version) == (1, 3)
    assert written["best_dice"] is not None
    assert (run.best_quality, run.best_quality_epoch, run.best_quality_s) == (
        written["best_dice"], written["best_dice_epoch"], written["best_dice_s"]
    )  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(read_text(RUN / "epochs.csv"))))
    table = read_epochs(RUN)
    for column, before in (("quality", "dice_foreground"), ("quality_with_background", "dice_with_background")):
        assert table[column].dropna().tolist() == [float(row[before]) for row in rows if row[before]]
    assert "dice_foreground" not in table


def test_a_tracked_experiment_of_version_1_still_vouches_for_its_files_and_committed_to_the_dice_of_then():
    later = EXPERIMENT.parents[2] / "2026-11-22-h200-regular/blocks/block-1"
    experiment, plan = read_whole_experiment(later), read_record(later / "plan.json", Plan)
    written = read_json(later / "block.json")["quality"]
    assert experiment.quality == plan.quality
    assert experiment.quality.targets == written["dice_targets"]
    assert (experiment.quality.name, experiment.quality.margin, experiment.quality.judged_above) == ("dice", 0.01, 0.9)
    assert (
        experiment.quality.rule == RULE.rule
    )  # as the configuration declares it now: such an experiment is still what is planned


def test_an_experiment_of_before_there_was_a_rule_had_the_default_of_then(tmp_path):
    with zipfile.ZipFile(EXPERIMENT.parents[1] / EVIDENCE_FILE) as archive:
        archive.extractall(tmp_path)
    experiment = tmp_path / "blocks/block-1"
    value = read_json(experiment / "block.json")
    del value["quality"], value["seal"]  # as the first ones were
    write_json(experiment / "block.json", value)
    assert read_whole_experiment(experiment).quality.rule == RULE.rule
    experiment = convert_older("Experiment", {"schema_version": 1})
    assert experiment["schema_version"] == 3
    assert (experiment["quality"]["title"], experiment["quality"]["margin"], experiment["quality"]["targets"][-1]) == (
        "Dice",
        0.01,
        0.94,
    )


@pytest.mark.parametrize("version", [0, 4, "1", None, 1.5, True])
def test_other_versions_are_left_as_they_are_and_refused(tmp_path, version):
    assert convert_older("Run", {"schema_version": version}) == {"schema_version": version}
    write_json(tmp_path / "run.json", read_json(RUN / "run.json") | {"schema_version": version})
    with pytest.raises(RecordError, match="this speedproof reads 3"):
        read_run(tmp_path)


@pytest.mark.parametrize("rule", [None, [], "0.9", {"dice_targets": "all"}, {"dice_margin": None, "better": 3}])
def test_a_rule_of_version_1_that_cannot_be_understood_is_refused_in_one_line(tmp_path, rule):
    value = read_json(EXPERIMENT / "block.json") | {"quality": rule}
    value.pop("seal", None)
    write_json(tmp_path / "block.json", value)
    with pytest.raises(RecordError, match=r"block\.json: quality") as caught:
        read_experiment(tmp_path)
    assert "\n" not in str(caught.value)


def test_old_results_of_a_user_say_what_they_would_say_today(tmp_path):
    example = Example(modes=("timed",), control=True, quality=rule_with(targets=[0.2, 0.3], tuned_on={}))
    today = write_example(tmp_path / "today", example)
    one = compare_experiments(today, CLAIMS)
    assert any(row.target == 0.3 for row in one.ratios)
    for rewrite in (to_version_1, to_version_2):
        old = rewrite(shutil.copytree(today, tmp_path / rewrite.__name__))
        assert read_results(old).quality.targets == [0.2, 0.3]
        assert list(old.iterdir()) == [old / "blocks"]
        other = compare_experiments(old, CLAIMS)
        assert [name.partition("/")[0] for name in other.made_of] == ["blocks"] * len(one.made_of)
        numbers = other.model_dump_json(exclude={"made_of"}).replace("blocks/", "experiments/")
        assert numbers.replace("block.json", "experiment.json") == one.model_dump_json(exclude={"made_of"})


OLD_COMPARISON_WORDS = OLD_WORDS | {
    "experiments": "blocks", "by_experiment": "by_block", "ablation_whole": "ladder_whole", "reference": "numerator",
    "candidate": "denominator", "reference_quality": "numerator_quality", "candidate_quality": "denominator_quality",
    "reference_reached": "numerator_reached", "candidate_reached": "denominator_reached",
}  # fmt: skip


def in_old_words(value):
    """A comparison as versions before 0.3 wrote it."""
    if isinstance(value, dict):
        renamed = {OLD_COMPARISON_WORDS.get(key, key): in_old_words(inner) for key, inner in value.items()}
        outcomes = {"equivalent": "same", "inconclusive": "undecided", "not established": "not shown"}
        return {key: outcomes.get(inner, inner) if key in ("outcome", "verdict") else inner for key, inner in renamed.items()}
    return [in_old_words(inner) for inner in value] if isinstance(value, list) else value


def test_a_comparison_of_before_is_read_as_it_is(tmp_path):
    results = write_example(tmp_path / "results", Example(modes=("timed",), control=True))
    comparison = compare_experiments(results, CLAIMS)
    written = in_old_words(comparison.model_dump(mode="json", exclude={"seal", "made_of"})) | {"schema_version": 4}
    write_json(tmp_path / "comparison.json", written)
    assert read_comparison(tmp_path / "comparison.json").model_dump(exclude={"made_of"}) == comparison.model_dump(
        exclude={"made_of"}
    )
    assert {row.outcome for row in comparison.ratios} >= {"faster"} and written["ratios"][0]["numerator"] == "baseline"


def test_what_version_5_called_refuted_was_not_reproduced_here(tmp_path):
    comparison = compare_example(Example(modes=("timed",)))
    written = comparison.model_dump(mode="json", exclude={"seal"}) | {"schema_version": 5}
    written["claims"][0] |= {"verdict": "refuted", "by_experiment": {"experiment-1": "refuted", "experiment-2": "exceeded"}}
    written["ratios"][0]["quality"]["outcome"] = "not shown"
    write_json(tmp_path / "comparison.json", written)
    read = read_comparison(tmp_path / "comparison.json")
    assert read.claims[0].verdict == "not reproduced here"
    assert read.claims[0].by_experiment == {"experiment-1": "not reproduced here", "experiment-2": "exceeded"}
    assert read.ratios[0].quality.outcome == "not established"
    assert read.made_of == comparison.made_of


@pytest.mark.parametrize(
    ("claim", "outcome", "ratios", "now"),
    [
        (">= 1.5", "shown", [1.6], ["claim holds"]),
        (">= 1.5", "refuted", [0.9], ["claim fails"]),
        (None, "shown", [1.6, 0.9], ["faster", "slower"]),
        (None, "refuted", [1.0], ["equivalent"]),
        (None, "quality not shown", [1.6], ["quality not established"]),
        (None, "inconclusive", [None], ["inconclusive"]),
    ],
)
def test_a_verdict_of_version_4_is_named_by_the_comparison_or_the_claim(claim, outcome, ratios, now):
    candidates = [{"outcome": outcome, "ratio": ratio, "quality": "not shown"} for ratio in ratios]
    read = convert_older("Verdict", {"schema_version": 4, "claim": claim, "outcome": outcome, "candidates": candidates})
    assert ([one["outcome"] for one in read["candidates"]], read["outcome"]) == (now, now[-1])
    assert {one["quality"] for one in read["candidates"]} == {"not established"}


def titles_of(results, case, **titles):
    """Return the titles that are read of runs that hold others, given in `titles`."""
    for path in results.rglob("run.json"):
        run = json.loads(path.read_text())
        write_json(path, run | {"case": case, "techniques": run["techniques"] | {"title": titles[run["variant"]]}})
    return read_results(vouch_again(results)).variants


def test_runs_of_the_first_workload_have_the_titles_of_today(tmp_path):
    results = write_example(tmp_path, Example(modes=("timed",)))
    titles = titles_of(results, "spleen", baseline="Baseline (profiling, as in 2021)", fast="Turbo, prepared volumes")
    assert titles == {"baseline": "MONAI 2021 baseline script", "fast": "Turbo (ours) on prepared volumes"}


@pytest.mark.parametrize(
    ("case", "title"), [("spleen", "Turbo, as of May"), ("brain_tumour", "Turbo"), ("mine/spleen", "Fast (profiling)")]
)
def test_a_title_of_a_user_or_of_another_workload_stays(tmp_path, case, title):
    results = write_example(tmp_path, Example(modes=("timed",)))
    assert titles_of(results, case, baseline="Baseline", fast=title) == {"baseline": "Baseline", "fast": title}


def test_a_kept_record_is_read_with_the_titles_of_today():
    """The experiment's own titles, which a record keeps, are those of then, too."""
    record = EXPERIMENT.parents[2] / "2026-11-23-h200-baseline-2021"
    assert read_results(record).variants == {"baseline_2021": "MONAI 2021 baseline script", "fast": "MONAI fast script"}


def test_a_title_is_renamed_to_one_of_a_shipped_configuration():
    base = REPOSITORY / "config.yaml"
    overlays = [[], *([path] for path in (REPOSITORY / "workflow/config").glob("*.yaml"))]
    shipped = {variant.title for overlay in overlays for variant in load_config(base, *overlay).variants.values()}
    renamed = RENAMED_TITLES["spleen"]
    assert (set(renamed.values()) - shipped, set(renamed) & shipped) == (set(), set())


def test_experiments_of_before_are_not_mixed_with_new_ones(tmp_path):
    results = write_example(tmp_path / "new", Example(modes=("timed",)))
    old = to_version_2(shutil.copytree(results, tmp_path / "old"))
    (old / "blocks").rename(results / "blocks")
    with pytest.raises(RecordError, match=r"new/blocks: holds experiments of a version before 0\.3"):
        read_results(results)


def test_further_qualities_stand_behind_the_columns_that_all_have(tmp_path):
    row = dict.fromkeys(["epoch", "steps"], 1) | dict.fromkeys(["train_s", "loss", "samples_per_s", "peak_memory_mib"], 1.0)
    write_epochs(tmp_path, [row | {"quality_of_lesions": 0.5, "validation_s": 1.0, "quality": -3.25}])
    assert (tmp_path / "epochs.csv").read_text().splitlines()[0].endswith("peak_memory_mib,quality_of_lesions")
    table = read_epochs(tmp_path)
    assert (table["quality"].tolist(), table["quality_of_lesions"].tolist()) == ([-3.25], [0.5])


@pytest.mark.parametrize("word", ["nan", "NA", "null"])
def test_a_word_for_nothing_is_no_number(tmp_path, word):
    """Not measured is an empty cell; who writes a word there computed something, and got no number."""
    write_epochs(tmp_path, [dict.fromkeys(EPOCH_COLUMNS, 1)])
    path = tmp_path / "epochs.csv"
    path.write_text(path.read_text().replace("1,1,1,", f"1,1,{word},", 1))
    with pytest.raises(RecordError, match="validation_s holds a value that is not a number"):
        read_epochs(tmp_path)


def test_an_older_table_that_lacks_a_column_is_refused(tmp_path):
    (tmp_path / "epochs.csv").write_text("train_s,dice_foreground\n1.0,0.5\n")
    with pytest.raises(RecordError, match=r"epochs\.csv: no column epoch, "):
        read_epochs(tmp_path)


def test_a_quality_that_cannot_be_is_refused(tmp_path):
    results = write_example(tmp_path, Example(modes=("timed",), experiments=1, rounds=3))
    path = next(results.glob("experiments/*/runs/01-*/epochs.csv"))
    path.write_text(path.read_text().replace(",0.1,", ",1.5,", 1))
    with pytest.raises(RecordError, match=r"epochs\.csv: 1\.5 is no Dice; "):
        read_results(vouch_again(results))
    path.write_text(path.read_text().replace(",1.5,", ",inf,", 1))
    with pytest.raises(RecordError, match=r"epochs\.csv: quality holds what is not finite"):
        read_results(vouch_again(results))


def test_experiments_of_different_qualities_are_no_results_together(tmp_path):
    results = write_example(tmp_path, Example(experiments=2, rounds=3, modes=("timed",)))
    for path in (results / "experiments/experiment-2").glob("*.json"):
        value = json.loads(path.read_text())
        value["quality"] |= {"name": "perplexity", "better": "lower"}
        value.pop("seal", None)
        write_json(path, value)
    with pytest.raises(RecordError, match=r"the quality of experiment-2 is perplexity"):
        read_results(results)


def test_texts_of_older_files_are_in_todays_words():
    summary = convert_older("Summary", {"schema_version": 3, "idle_gaps": [{"cause": "beside a loader's thread", "count": 2}]})
    assert summary == {"schema_version": 4, "idle_gaps": [{"cause": "while a loader thread is active", "count": 2}]}
    slurm = {"subject": "Slurm", "state": "absent", "found": "not on PATH, and this is no job of it", "cure": "other"}
    diagnosis = convert_older("Diagnosis", {"schema_version": 1, "findings": [slurm]})
    (found,) = diagnosis["findings"]
    assert (found["found"], found["hint"]) == ("Slurm is not on PATH, and this is not a Slurm job", "other")


def test_a_claim_of_a_number_and_a_direction_becomes_a_text():
    measurement = {"claimed": 1.5, "claimed_at_most": True, "rounds": 4}
    assert convert_older_config({"measurement": measurement}) == {"measurement": {"claim": "<= 1.5", "rounds": 4}}
    none = {"claimed": None, "claimed_at_most": False}
    assert convert_older_config({"measurement": none}) == {"measurement": {"claim": None}}
