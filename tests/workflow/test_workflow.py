import os
import subprocess
import time
import zipfile
from pathlib import Path

import psutil
import pytest

from speedproof.results.run_record import EPOCH_COLUMNS, read_epochs, read_gpu_samples, read_run
from tests.workflow.checkout import plan_from_here, plan_shell_scripts

pytestmark = pytest.mark.whole
finished = pytest.mark.xdist_group("workflow")  # what uses the finished run stays in one process


def runs_of(checkout):
    return sorted((checkout.results / "experiments/experiment-1/runs").iterdir())


@finished
def test_the_report_and_all_records_are_there(finished_kineto):
    results = finished_kineto.results
    assert (results / "report.html").exists()
    assert "synthetic" in (results / "report.md").read_text().lower()
    names = [folder.name for folder in runs_of(finished_kineto)]
    assert [name[:2] for name in names] == ["01", "02", "03", "04"]
    assert {name[3:] for name in names[:2]} == {"baseline-timed", "fast-timed"}
    assert {name[3:] for name in names[2:]} == {"baseline-profiled", "fast-profiled"}
    for folder in runs_of(finished_kineto):
        run, epochs = read_run(folder), read_epochs(folder)
        assert run.outcome == "completed"
        assert list(epochs.columns) == [*EPOCH_COLUMNS, "quality_with_background"]
        assert epochs.epoch.tolist() == [1, 2]
        assert epochs.quality.notna().tolist() == [False, True]
        assert read_gpu_samples(folder).empty == (run.conditions.gpu is None)
        assert run.process_s > run.training_s > 0
        assert (folder / "best.pt").exists()
        assert list((folder / "scalars").iterdir())
        assert "epoch 2/2" in (folder / "log.txt").read_text()


# Of each case: a source that is edited, or none; settings that are changed; and the rules that run again.
MEASURED_ANEW = {"doctor", "experiment", "analyze", "compare", "report"}
RERUNS = [
    ("", "", set()),  # data were touched, and sources are as they were
    ("src/speedproof/report/markdown.py", "", {"report"}),
    ("src/speedproof/stats/compare.py", "", {"compare", "report"}),
    ("src/speedproof/run/run_experiment.py", "", MEASURED_ANEW),
    ("workloads/spleen/speedproof_spleen/training/loop.py", "", MEASURED_ANEW),
    ("workloads/spleen/speedproof_spleen/data/phantom.py", "", {"data", *MEASURED_ANEW}),
    ("", "measurement={device: cpu, rounds: 2}", MEASURED_ANEW),
    ("", "profiling={gpu_samples_per_s: 20}", MEASURED_ANEW),
    ("", "variants={regular: {batch_size: 4}}", set()),  # it is not measured
]


@finished
def test_a_second_run_does_nothing_and_what_is_edited_or_configured_otherwise_reruns_what_needs_it(finished_kineto):
    touched = [*finished_kineto.folder.rglob("*.nii.gz"), *finished_kineto.results.rglob("dataset.json")]
    assert len(touched) > 3
    for path in touched:
        path.touch()
    cases = [(edited, ["--config", *finished_kineto.settings, changed] if changed else []) for edited, changed, _ in RERUNS]
    planned = finished_kineto.plan_each(cases)
    found = [(*case[:2], rules - {"all"}) for case, rules in zip(RERUNS, planned, strict=True)]
    assert found == RERUNS


def test_a_mistake_in_the_configuration_is_one_line_before_any_job(tmp_path):
    checkout = plan_from_here(tmp_path, "measurement={rounds: many}")
    done = checkout.snakemake(check=False)
    assert done.returncode != 0
    assert "measurement.rounds" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (checkout.folder / "results").exists()


@pytest.fixture(scope="module")
def killed_and_finished(tmp_path_factory):
    """Two shell scripts, measured by a workflow that is killed in its second run, and then run to its end."""
    measured = {"variants": ["slow", "fast"], "rounds": 2, "profiled": 0, "epochs": 4, "device": "cpu"}
    checkout = plan_shell_scripts(tmp_path_factory.mktemp("killed"), **measured)
    temporary = checkout.folder / "tmp"  # what is killed leaves what it had there
    temporary.mkdir()
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"TMPDIR": str(temporary)}
    process = subprocess.Popen(checkout.command(), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    runs = checkout.results / "experiments/experiment-1/runs"
    deadline = time.monotonic() + 180
    while len(list(runs.iterdir()) if runs.exists() else []) < 2:
        assert process.poll() is None, checkout.logs()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    kill_all(process)
    first, second = runs_of(checkout)
    assert not (second / "run.json").exists()
    assert not (checkout.results / "experiments/experiment-1/experiment.json").exists()
    kept = (first / "run.json").read_bytes()
    checkout.snakemake("--unlock")
    checkout.snakemake("--rerun-incomplete")
    return checkout, first, kept


killed = pytest.mark.xdist_group("killed")


@killed
def test_a_killed_experiment_keeps_its_whole_runs_and_nothing_half_written(killed_and_finished):
    checkout, first, kept = killed_and_finished
    assert (first / "run.json").read_bytes() == kept
    assert checkout.record("experiments/experiment-1/experiment.json")["kept"] == [first.name]
    assert (checkout.results / "report.html").exists()


@killed
def test_two_shell_scripts_are_measured_judged_and_reported(killed_and_finished):
    """One pauses 0.30 s an epoch, the other 0.10 s: what marks cost besides, both pay."""
    checkout = killed_and_finished[0]
    comparison = checkout.record("comparison.json")
    (ratio,) = [one for one in comparison["ratios"] if one["metric"] == "training_epoch_s"]
    assert (ratio["reference"], ratio["candidate"], ratio["pairs"]) == ("slow", "fast", 2)
    assert 1 < ratio["centre"] <= 3.2
    (claim,) = comparison["claims"]
    assert comparison["quality"]["title"] == "score"
    assert (claim["id"], claim["measured"]) == ("three_times", pytest.approx(ratio["centre"]))
    report = (checkout.results / "report.md").read_text()
    assert "Slow" in report and "Fast" in report
    assert "Dice" not in report and "pleen" not in report


def kill_all(process: subprocess.Popen):
    """Kill the workflow and all that it started, the training process with its own group too, as a power cut would."""
    started = psutil.Process(process.pid)
    for each in [*started.children(recursive=True), started]:
        each.kill()
    process.wait()


@killed
def test_snakemakes_own_report_holds_the_results_by_category_also_from_where_tools_look_for_the_workflow(
    killed_and_finished, tmp_path
):
    checkout = killed_and_finished[0]
    checkout.snakemake("--snakefile", str(checkout.sources / "workflow/Snakefile"), "--report", str(tmp_path / "report.zip"))
    with zipfile.ZipFile(tmp_path / "report.zip") as report:
        names = {Path(name).name for name in report.namelist() if "/data/raw/" in name}
        text = "".join(report.read(name).decode() for name in report.namelist() if name.endswith((".js", ".html")))
    assert names >= {"report.html", "report.md", "comparison.json", "doctor.json", "epoch_times.svg"}
    assert all(category in text for category in ("Results", "Figures", "Evidence"))
    assert "Outcome: " in text  # the description, which it opens with, begins with the first screen
