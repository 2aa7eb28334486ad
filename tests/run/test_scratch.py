"""A disk of the node: volumes are copied there and checked, profiles come back from there, and nothing stays."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from speedproof.results.dataset import Case, Dataset
from speedproof.results.files import read_record, sha256_of, write_json
from speedproof.run.scratch import take_place, writing_apart
from speedproof.util.errors import ConfigError, DataError, TrainingError

ROOT = Path(__file__).parents[2]
ENVIRON = {"LATER": "is not set by us"}


@pytest.fixture
def dataset_file(tmp_path):
    folder = tmp_path / "a b;$(touch injected)" / "volumes"
    paths = [folder / "imagesTr/one.nii.gz", folder / "labelsTr/one.nii.gz"]
    for path in paths:
        path.parent.mkdir(parents=True)
        path.write_bytes(path.parent.name.encode())
    case = Case(
        name="one",
        image="imagesTr/one.nii.gz",
        label="labelsTr/one.nii.gz",
        image_sha256=sha256_of(paths[0]),
        label_sha256=sha256_of(paths[1]),
        shape=(1, 1, 1),
        spacing_mm=(1, 1, 1),
        foreground_voxels=1,
    )
    file = folder.parent / "results" / "dataset.json"
    write_json(
        file,
        Dataset(source="local", name="a", version="1", licence="none", synthetic=True, folder="../volumes", cases=[case]),
    )
    return file


def test_an_experiment_reads_a_checked_copy_and_leaves_nothing(tmp_path, dataset_file):
    scratch = tmp_path / "node $disk"
    scratch.mkdir()
    with take_place("$SCRATCH/${NAME}", dataset_file, {"SCRATCH": str(tmp_path), "NAME": "node $disk"}) as place:
        copied = read_record(place.dataset_file, Dataset)
        (files,) = copied.files(place.dataset_file)
        assert all(path.startswith(f"{scratch}/speedproof-") for path in files.values())
        assert sha256_of(scratch / files["image"]) == copied.cases[0].image_sha256
        assert copied.digest == read_record(dataset_file, Dataset).digest
        assert place.profiles.is_dir()
    assert list(scratch.iterdir()) == []
    assert not list(tmp_path.rglob("injected"))


def test_without_scratch_all_stays_where_it_is(dataset_file):
    with take_place(None, dataset_file, {}) as place:
        assert (place.dataset_file, place.profiles) == (dataset_file, None)


@pytest.mark.parametrize("scratch", [True, False], ids=["copied", "in its place"])
@pytest.mark.parametrize("change", ["was changed", "is missing"])
def test_a_volume_that_is_not_what_was_prepared_is_refused(tmp_path, dataset_file, scratch, change):
    volume = next(dataset_file.parents[1].rglob("labelsTr/*"))
    if change == "was changed":
        volume.write_bytes(b"other")
    else:
        volume.unlink()
    refused = pytest.raises(DataError, match=rf"labelsTr/one\.nii\.gz: {change} since .*dataset\.json was made; restore it")
    with refused as caught, take_place(str(tmp_path) if scratch else None, dataset_file, {}):
        pass
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.glob("speedproof-*"))


@pytest.mark.parametrize(("scratch", "said"), [("$LATE/x", r"\$LATE is not set here"), ("/no/such", "no such folder")])
def test_a_missing_variable_or_folder_is_one_line(dataset_file, scratch, said):
    with pytest.raises(ConfigError, match=f"resources.scratch: .*{said}"), take_place(scratch, dataset_file, ENVIRON):
        pass


@pytest.mark.parametrize("scratch", [True, False], ids=["on scratch", "in place"])
@pytest.mark.parametrize(("keep", "ends", "left"), [(True, "well", True), (False, "badly", True), (False, "well", False)])
def test_profiles_are_their_owners_and_stay_if_asked_for_or_if_the_run_failed(tmp_path, scratch, keep, ends, left):
    disk, target = tmp_path / "scratch", tmp_path / "run"
    for folder in (disk, target):
        folder.mkdir()
    with suppress(OSError), writing_apart(disk if scratch else None, target, ["report", "export"], keep) as place:
        assert place.parent == (disk if scratch else target)
        assert place.stat().st_mode & 0o777 == 0o700
        (place / "report").write_text("events")
        (place / "report").chmod(0o666)
        (place / "more").write_text("of the profiler")
        if ends == "badly":
            raise OSError
    assert [(path.name, path.stat().st_mode & 0o777) for path in target.iterdir()] == ([("report", 0o600)] if left else [])
    assert list(disk.iterdir()) == []


BETWEEN_RUNS = """
import os, signal, sys, time
from speedproof import cli
from speedproof.run import run_experiment as experiment

def wait_between_runs(job, conditions, observer):
    try:
        print(job.dataset_file, flush=True)
        time.sleep(60)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)  # those who send it may send it again

experiment.run_experiment = wait_between_runs
cli.main()
"""


def test_an_experiment_that_is_stopped_between_two_runs_leaves_nothing_either(tmp_path, dataset_file):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    config = tmp_path / "config.yaml"
    config.write_text(
        f"case: {ROOT}/tests/run/shell\nresources: {{scratch: {scratch}}}\n"
        "measurement: {variants: [slow, fast], rounds: 1, device: cpu}\n"
    )
    options = [f"--config={config}", f"--dataset={dataset_file}", "--name=experiment-1", f"--out={tmp_path / 'experiment-1'}"]
    process = subprocess.Popen(
        [sys.executable, "-c", BETWEEN_RUNS, "experiment", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout.readline().startswith(f"{scratch}/speedproof-")
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert list(scratch.iterdir()) == []
    assert process.returncode == TrainingError.exit_code
    assert "stopped by SIGTERM; run again to resume" in said.splitlines()[-1]
