"""The workflow in a real container, `snakemake --use-singularity`."""

import hashlib
import json
import subprocess

import pytest

from speedproof.results.diagnosis import read_diagnosis
from speedproof.results.run_record import read_run
from tests.cluster.in_container import run
from tests.workflow.checkout import check_out

pytestmark = [pytest.mark.whole, pytest.mark.xdist_group("cluster")]


def inside(checkout, *program):
    command = ["apptainer", "exec", "container/speedproof.sif", *program]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=checkout.folder).stdout


def test_every_run_says_in_which_image_it_ran(finished_container):
    with (finished_container.folder / "container/speedproof.sif").open("rb") as image:
        digest = f"sha256:{hashlib.file_digest(image, 'sha256').hexdigest()}"
    python = inside(finished_container, "python3", "-c", "import platform; print(platform.python_version())").strip()
    runs = [read_run(folder) for folder in sorted((finished_container.results / "experiments/experiment-1/runs").iterdir())]
    assert {(run.conditions.image, run.conditions.python) for run in runs} == {(digest, python)}
    assert {run.profiler for run in runs} == {"none", "nsys"}
    assert (finished_container.results / "report.html").exists()


def test_the_image_keeps_what_its_base_pins(finished_container):
    versions = json.loads(inside(finished_container, "cat", "/opt/speedproof/versions.json"))
    assert versions["jinja2"] == "3.1.5"  # the base's, older than requirements.txt wants
    assert versions["torch"] in inside(finished_container, "cat", "/etc/pip/constraint.txt")
    assert versions["monai"] == "1.6.1"
    inside(finished_container, "python3", "/opt/speedproof/check.py")


def test_nothing_of_a_folders_name_was_executed(finished_container):
    assert not list(finished_container.sources.parents[1].rglob("injected"))


def test_the_doctor_looked_inside_the_container(finished_container):
    findings = {finding.subject: finding for finding in read_diagnosis(finished_container.results).findings}
    assert findings["container"].found == "inside speedproof.sif"
    assert findings["profiler"].state == "good"
    missing = (finished_container.results / "report.md").read_text().split("Not measured or not available here")[1]
    for finding in findings.values():
        if finding.state == "absent":
            assert f"| {finding.subject} |" in missing


def test_a_touched_image_retrains_nothing(finished_container):
    (finished_container.folder / "container/speedproof.sif").touch()
    assert "Nothing to be done" in run(finished_container, "--use-singularity").stderr


def test_an_image_that_is_given_is_recorded_and_not_built(finished_container):
    built = finished_container.folder / "container/speedproof.sif"
    (built.parent / "own.sif").hardlink_to(built)
    run(finished_container, "--use-singularity", "--until", "image", "--config", "container={image: container/own.sif}")
    records = [json.loads(built.with_name(f"{name}.json").read_text()) for name in ("own", "speedproof")]
    assert records[0]["digest"] == records[1]["digest"]
    assert records[0]["source"] == "own.sif"


def test_a_missing_image_stops_before_any_job(finished_container):
    done = run(finished_container, "--use-singularity", "--dry-run", "--config", "container={image: none.sif}", check=False)
    assert done.returncode != 0
    assert "container.image: none.sif" in done.stderr


def test_a_folder_that_would_be_executed_is_refused_before_any_job(tmp_path):
    checkout = check_out(tmp_path / "it's $(touch injected)")
    done = run(checkout, check=False)
    assert done.returncode != 0
    assert "the checkout" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("injected"))
