"""The quality of a run by a command: how its number is read, what the run must have left, and what no program can change."""

import os

import pytest
from pydantic import ValidationError

from speedproof.config.evaluation import Evaluation
from speedproof.results.files import sha256_of
from speedproof.results.run_record import read_epochs, read_run
from speedproof.run.quality_command import check_artifacts, find_quality, list_artifacts
from speedproof.util.errors import RecordError, TrainingError
from tests.run.test_shell import EPOCHS, run_once

RUN = "01-one-timed"


@pytest.mark.parametrize(
    ("output", "pattern", "expected"),
    [
        ("0.91\n", None, 0.91),
        ("accuracy of 7 files\n 0.25 \n0.5\nthe end\n", None, 0.5),
        ("-1e-3\n", None, -0.001),
        ("epoch 1 acc: 0.2\nepoch 2 acc: 0.75, the best\n", r"acc: (\S+)", 0.75),
        ("acc: 91.5 %\n", r"acc: (.+)", 91.5),
    ],
)
def test_the_last_number_is_the_quality(output, pattern, expected):
    assert find_quality(output, pattern) == expected


@pytest.mark.parametrize(
    ("output", "pattern", "said"),
    [
        ("acc: 0.9\n", None, "no line that it printed is a number; print the quality on a line of its own"),
        ("1_000\n", None, "no line that it printed is a number"),
        ("nan\n", None, "printed nan, which is not finite"),
        ("0.9\n", r"acc: (\S+)", "nothing that it printed matches 'acc: "),
        ("acc: good\n", r"acc: (\S+)", "'good' is not a number"),
        ("acc: inf\n", r"acc: (\S+)", "'inf' is not finite"),
    ],
)
def test_what_is_no_quality_is_one_line(output, pattern, said):
    with pytest.raises(RecordError, match=r"^--quality-command: ") as error:
        find_quality(output, pattern)
    assert said in str(error.value) and "\n" not in str(error.value)


def leave(place, *patterns, before=(), after=()):
    """What is said of a run that finds files `before` it, and writes those of `after`."""
    evaluation = Evaluation(command="true {run}", tree="t", artifacts=list(patterns))
    for name in before:
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text("old")
    found = list_artifacts(evaluation, place)
    for name in after:
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).unlink(missing_ok=True)
        (place / name).write_text("new")
    check_artifacts(found, list_artifacts(evaluation, place))


def test_artifacts_that_the_run_wrote_are_what_is_judged(tmp_path):
    leave(tmp_path, "out/*.pt", "{run}/last", before=["out/a.pt"], after=["out/a.pt", "last/weights"])


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ([], ["out/a.txt"], r"^--artifact: it left no out/\*\.pt in {run}; have the program write it"),
        (["out/a.pt"], [], r"^--artifact: out/a\.pt, which out/\*\.pt matches, was there before the run"),
        (["out/a.pt"], ["out/b.pt"], r"^--artifact: out/a\.pt, which out/\*\.pt matches, was there before the run"),
    ],
)
def test_an_artifact_that_is_missing_or_of_an_earlier_run_is_named(tmp_path, before, after, said):
    with pytest.raises(RecordError, match=said):
        leave(tmp_path, "out/*.pt", before=before, after=after)


def test_an_older_time_of_change_makes_no_old_file_new(tmp_path):
    (tmp_path / "a.pt").write_text("old")
    evaluation = Evaluation(command="true {run}", tree="t", artifacts=["*.pt"])
    before = list_artifacts(evaluation, tmp_path)
    (tmp_path / "a.pt").write_text("mine")
    os.utime(tmp_path / "a.pt", ns=(0, 0))
    check_artifacts(before, list_artifacts(evaluation, tmp_path))


def judge_once(tmp_path, script, evaluate="cat $1/result\n", linked=None, **evaluation):
    """Run a program once that leaves `left`; `evaluate` judges it, a shell script of the folder that both work in copies of."""
    tree = tmp_path / "tree"
    tree.mkdir(exist_ok=True)
    (tree / "evaluate.sh").write_text(evaluate)
    (tree / "train.sh").write_text(f"{script}\necho 1 > left\n")
    judged = {
        "command": "sh evaluate.sh {run}",
        "artifacts": ["left"],
        "tree": str(tree),
        "files": {"evaluate.sh": sha256_of(tree / "evaluate.sh")},
        **evaluation,
    }
    run_once(tmp_path, "", command="sh train.sh", tree=str(tree), linked=linked or {}, evaluation=judged)
    return read_run(tmp_path / RUN)


def test_what_the_command_says_is_the_quality_and_what_is_reported_stands_beside(tmp_path):
    run = judge_once(tmp_path, f"{EPOCHS}echo 0.5 > result; echo 'echo 1' > evaluate.sh")
    assert (run.best_quality, run.observed.quality, run.best_quality_epoch) == (0.5, 0.5, None)
    epochs = read_epochs(tmp_path / RUN)
    assert epochs["quality"].isna().all() and epochs["quality_reported"].tolist() == [0.1, 0.2]


def test_the_command_sees_the_seed_and_no_folder_of_marks(tmp_path):
    evaluate = 'test -z "$SPEEDPROOF_RUN" && echo $SPEEDPROOF_SEED\n'
    assert judge_once(tmp_path, EPOCHS, evaluate).best_quality == 7


@pytest.mark.parametrize(
    ("script", "evaluate", "evaluation", "said"),
    [
        (EPOCHS, "echo sorry >&2; exit 3\n", {}, "--quality-command: exit status 3 (last line: sorry)"),
        (EPOCHS, "sleep 60\n", {"limit_s": 1}, "--quality-command: did not end within 1 s, and was killed"),
        (EPOCHS, "echo 1\n", {"artifacts": ["*.pt"]}, "artifact: it left no *.pt"),
        (EPOCHS, "echo 1\n", {"files": {"evaluate.sh": "0" * 64}}, "evaluate.sh changed after it was pinned"),
        (f"{EPOCHS}echo 'echo 1' > ../tree/evaluate.sh", "echo 0\n", {}, None),
    ],
)
def test_a_run_whose_quality_is_not_known_fails_with_one_line(tmp_path, script, evaluate, evaluation, said):
    if said is None:  # the program finds the folder that copies are made of
        script, said = script.replace("../tree", str(tmp_path / "tree")), "evaluate.sh changed after it was pinned"
    with pytest.raises(TrainingError) as error:
        judge_once(tmp_path, script, evaluate, **evaluation)
    run = read_run(tmp_path / RUN)
    assert (run.outcome, run.best_quality, said in run.reason) == ("failed", None, True), run.reason
    assert said in str(error.value) and "\n" not in str(error.value)


def test_the_artifact_that_another_program_left_in_a_linked_folder_is_not_judged(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "model.pt").write_text("0.99")
    asked = {"evaluate": "cat $1/out/model.pt\n", "linked": {"out": str(shared)}, "artifacts": ["out/*.pt"]}
    with pytest.raises(TrainingError, match=r"artifact: out/model\.pt, which out/\*\.pt matches, was there before the run"):
        judge_once(tmp_path, EPOCHS, **asked)


def test_an_artifact_that_came_with_the_copy_is_not_judged(tmp_path):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/model.pt").write_text("0.99")
    said = r"artifact: model\.pt, which \*\.pt matches, was there before the run, and it did not write it"
    with pytest.raises(TrainingError, match=said):
        judge_once(tmp_path, EPOCHS, "cat $1/model.pt\n", artifacts=["*.pt"])
    assert read_run(tmp_path / RUN).best_quality is None


def test_an_evaluation_needs_artifacts():
    with pytest.raises(ValidationError, match="artifacts\n  List should have at least 1 item"):
        Evaluation(command="cat {run}/x", tree="t", artifacts=[])


def test_an_artifact_that_a_run_writes_anew_in_a_linked_folder_is_judged(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "model.pt").write_text("0.99")
    asked = {"evaluate": "cat $1/out/model.pt\n", "linked": {"out": str(shared)}, "artifacts": ["out/*.pt"]}
    assert judge_once(tmp_path, f"{EPOCHS}echo 0.42 > out/model.pt", **asked).best_quality == 0.42
