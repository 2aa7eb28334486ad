"""Programs that change what their outcome rests on: no number, but the file and the run."""

import json
import os
import re

import pytest
from typer.testing import CliRunner

from speedproof.cli.application import app
from speedproof.results.files import digest_of, sha256_of
from speedproof.run import run_experiment
from speedproof.run.proof import executor
from speedproof.run.tampering import Manifest
from speedproof.util.errors import TamperedError, TrainingError

RUNS = "results/experiments/experiment-1/runs"


def prove(*words):
    result = CliRunner().invoke(app, ["prove", *words, "--rounds", "4", "--out", "out", "--quiet"])
    return getattr(result.exception, "exit_code", result.exit_code), str(result.exception or ""), result


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.sh").write_text("sleep 0.02\n")
    return tmp_path


def test_a_program_that_edits_the_others_source_gives_no_number(folder):
    # Only in a timed run, not in the warm-up.
    edits = f"echo sleep 1 > {folder}/out/programs/tree/a.sh"
    (folder / "b.sh").write_text(f"[ -e {folder}/warm ] && {edits}; touch {folder}/warm\n")
    status, said, _ = prove("sh a.sh", "sh b.sh")
    assert status == 3 and "programs/tree/a.sh: was changed while 0" in said and "-b-timed ran" in said
    assert not (folder / "out/verdict.json").exists() and not (folder / "out/results/comparison.json").exists()
    # The program was corrected: what the other one had written is gone with the copy.
    (folder / "b.sh").write_text("sleep 0.01\n")
    assert prove("sh a.sh", "sh b.sh")[0] in (0, 1, 2)


def test_a_module_that_is_added_in_the_warm_up_is_found_before_anything_is_timed(folder):
    (folder / "b.sh").write_text(f"touch {folder}/out/programs/tree/numpy.py\n")
    status, said, _ = prove("sh a.sh", "sh b.sh")
    assert status == 3 and "programs/tree/numpy.py: was changed in the warm-up of B (sh b.sh)" in said


def test_a_program_that_rewrites_the_files_of_ended_runs_gives_no_number_and_these_are_repeated(folder):
    rewrite = f'for run in {folder}/out/{RUNS}/*-a-timed/run.json; do [ -e "$run" ] && echo "{{}}" > "$run"; done; true\n'
    (folder / "b.sh").write_text(rewrite)
    status, said, _ = prove("sh a.sh", "sh b.sh")
    assert status == 3 and "-a-timed/run.json: was changed while" in said and "-b-timed ran" in said
    assert [path.name for path in (folder / "out" / RUNS).glob("*/run.json") if path.read_text() == "{}\n"] == []


def test_what_a_run_changes_that_fails_under_the_profiler_counts_too(folder, monkeypatch):
    do = run_experiment._do_run_again_if_lost

    def fail_if_profiled(job, number, planned, *rest):
        if planned.mode == "timed":
            return do(job, number, planned, *rest)
        (folder / "out/programs/tree/a.sh").write_text("sleep 1\n")
        raise TrainingError("it ended with exit status 1")

    monkeypatch.setattr(run_experiment, "_do_run_again_if_lost", fail_if_profiled)
    monkeypatch.setattr("speedproof.run.proof.warm_up.try_profiler", lambda *_, **__: None)
    profiled = ["--profiled", "1", "--profiler", "kineto", "--device", "cpu"]
    status, said, _ = prove("sh a.sh", "sleep 0.01", *profiled)
    assert status == 3 and re.search(r"programs/tree/a\.sh: was changed while \d\d-[ab]-profiled ran", said), said


def test_a_file_that_a_proof_names_must_not_change_either(folder):
    (folder / "data.txt").write_text("1")
    (folder / "b.sh").write_text(f"echo 2 > {folder}/data.txt\n")
    status, said, _ = prove("sh a.sh", "sh b.sh", "--source", "data.txt")
    assert status == 3 and "data.txt: was changed in the warm-up of B" in said


def test_files_that_are_rewritten_after_the_last_run_are_found_by_what_the_rounds_said(folder, monkeypatch):
    def rewrite(job, *given, measure=executor.measure_experiment, **options):
        measured = measure(job, *given, **options)
        experiment = job.folder / "experiment.json"
        for run in sorted((job.folder / "runs").glob("*-b-timed/run.json")):
            values = json.loads(run.read_text())
            run.write_text(json.dumps({**values, "process_s": values["process_s"] / 2}))
        whole = json.loads(experiment.read_text())
        whole["digests"] = {name: sha256_of(job.folder / name) for name in whole["digests"]}
        del whole["seal"]
        experiment.write_text(json.dumps({**whole, "seal": digest_of(whole)}))
        return measured

    monkeypatch.setattr(executor, "measure_experiment", rewrite)
    status, said, _ = prove("sh a.sh", "sleep 0.01")
    assert status == 3 and "B (sleep 0.01): its runs' files hold other times than when the runs ended" in said


def test_what_is_touched_and_not_changed_is_no_change(tmp_path):
    (tmp_path / "x").write_text("1")
    (tmp_path / "link").symlink_to("x")
    manifest = Manifest([tmp_path])
    os.utime(tmp_path / "x")
    manifest.check("now")
    (tmp_path / "x").write_text("2")
    os.utime(tmp_path / "x", ns=(0, 0))
    with pytest.raises(TamperedError, match="x: was changed now"):
        manifest.check("now")
    (tmp_path / "x").write_text("1")
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("/dev/null")
    assert manifest.find_changed() == {tmp_path: tmp_path / "link"}


def test_each_folder_that_was_changed_is_found(tmp_path):
    folders = [tmp_path / name for name in ("one", "other", "same")]
    for folder in folders:
        folder.mkdir()
        (folder / "run.json").write_text("1")
    manifest = Manifest(folders)
    for folder in folders[:2]:
        (folder / "run.json").write_text("2")
    assert manifest.find_changed() == {folder: folder / "run.json" for folder in folders[:2]}


def test_blocks_of_a_large_file_are_compared(tmp_path):
    (tmp_path / "x").write_bytes(bytes(2**23))
    manifest = Manifest([tmp_path / "x"])
    assert manifest.find_changed() == {}
    with (tmp_path / "x").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"1")
    assert manifest.find_changed() == {tmp_path / "x": tmp_path / "x"}
