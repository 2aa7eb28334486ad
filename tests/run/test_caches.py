"""Prepared folders are filled before an experiment's first run, so that no run is cold; how long that took is noted."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from speedproof.results.files import write_json
from speedproof.results.folder import read_results
from speedproof.run.archive.rebuild import rebuild_results
from speedproof.run.caches import fill_prepared_folders
from speedproof.run.run_experiment import Job, run_experiment
from speedproof.run.scratch import take_place
from speedproof.util.errors import ConfigError, TrainingError
from speedproof_spleen.config import check_config, load_config
from speedproof_spleen.data.prepare import prepare_dataset
from speedproof_spleen.training.conditions import choose_device, describe_conditions
from tests.run.jobs import VOLUMES

ROOT = Path(__file__).parents[2]
CLAIMS = ROOT / "workloads/spleen/claims.yaml"
WARM = {"cold": {}, "warm": {"prepared_folder": "prepared volumes"}}


def config_with(**variant):
    """The ci configuration with a resident variant, cold and warm: a timed run of each."""
    values = load_config(ROOT / "config.yaml", ROOT / "workflow/config/ci.yaml").model_dump(mode="json")
    resident = values["variants"]["turbo"] | {"precision": "fp32", "kernels": []}
    for name, keys in WARM.items():
        values["variants"][name] = resident | {"title": name.capitalize()} | keys | variant
    values["measurement"] |= {"variants": ["cold", "warm"], "device": "cpu", "rounds": 1, "profiled": 0}
    values["data"] |= {"folder": str(VOLUMES)}
    return check_config(values)


@pytest.fixture
def job(tmp_path, monkeypatch):
    """An experiment that works in a folder of the test's: a relative `prepared_folder` is below it."""
    monkeypatch.chdir(tmp_path)
    config, results = config_with(), tmp_path / "results"
    prepare_dataset(config.data, results / "dataset.json")
    write_json(results / "config.json", config)
    # In two files, as `speedproof experiment` takes them: both steps below read them again, in processes of their own.
    values = config.model_dump(mode="json")
    variants = {name: values["variants"].pop(name) for name in WARM}
    measurement = values["measurement"] | {"variants": ["baseline"]}
    files = [tmp_path / "rest.json", tmp_path / "variants.json"]
    write_json(files[0], values | {"measurement": measurement})
    write_json(files[1], {"variants": variants, "measurement": {"variants": list(WARM)}})
    return Job(config, files, results / "dataset.json", "experiment-1", results / "experiments/experiment-1")


def conditions_of(job):
    return describe_conditions(choose_device("cpu"), prepare_dataset(job.config.data, job.dataset_file))


def log_of(job, variant):
    (path,) = job.folder.glob(f"runs/*-{variant}-timed/log.txt")
    return path.read_text()


@pytest.mark.dear
def test_every_run_of_a_variant_with_a_prepared_folder_is_warm_and_no_other_is(job, tmp_path):
    experiment = run_experiment(job, conditions_of(job))
    (filled,) = experiment.prepared
    volumes = len(list(VOLUMES.rglob("imagesTr/*.nii.gz")))
    assert (filled.variant, filled.volumes, filled.from_store) == ("warm", volumes, 0)
    assert filled.seconds > 0
    assert len([path for path in (tmp_path / "prepared volumes").iterdir() if path.is_file()]) == volumes
    assert f"{volumes} of {volumes} prepared volumes were kept" in log_of(job, "warm")
    assert "prepared volumes" not in log_of(job, "cold")
    assert all(run.run.warnings == [] for run in read_results(tmp_path / "results").runs)

    # The report tells it, and its number comes from the experiment's record.
    rebuild_results(tmp_path / "results", CLAIMS)
    (row,) = json.loads((tmp_path / "results/comparison.json").read_text())["prepared"]
    assert row["origin"]["files"] == ["experiments/experiment-1/experiment.json"]
    assert (row["title"], row["seconds"]) == ("Warm", filled.seconds)
    report = (tmp_path / "results/report.md").read_text()
    (sentence,) = [line for line in report.splitlines() if "starts from prepared volumes" in line]
    assert f"for {volumes} volumes (experiment-1)" in sentence and "No time of its runs includes this" in sentence

    # Another experiment finds them, with its own copy of the data on the node's disk: checksums name them, not paths.
    (tmp_path / "scratch").mkdir()
    with take_place(str(tmp_path / "scratch"), job.dataset_file, {}) as place:
        (filled,) = fill_prepared_folders(
            job.config, job.workload, job.config_files, place.dataset_file, tmp_path / "experiment-2"
        )
    assert (filled.volumes, filled.from_store) == (volumes, volumes)


def test_a_folder_that_takes_nothing_ends_the_experiment_in_one_line_before_any_run(job, tmp_path):
    (tmp_path / "prepared volumes").write_text("a file")
    with pytest.raises(ConfigError, match=r"prepared_folder: .*prepared volumes: .*; name your own folder") as caught:
        run_experiment(job, conditions_of(job))
    assert "\n" not in str(caught.value)
    assert not list(job.folder.glob("runs/*"))


def compile_caches(job, monkeypatch, variant):
    """Return the folders for compiled code of two attempts at a run, and whether each was empty; each is filled."""
    measurement = job.config.measurement.model_copy(update={"variants": [variant]})
    job = replace(job, config=job.config.model_copy(update={"measurement": measurement}))
    monkeypatch.setenv("TRITON_CACHE_DIR", "/of/the/user")
    monkeypatch.setattr("speedproof.run.run_experiment.fill_prepared_folders", lambda *_: [])
    found = []

    def end_at_once(_command, _folder, _wrap, variables):
        place = Path(variables["TRITON_CACHE_DIR"])
        found.append((place, not place.exists() or not any(place.iterdir())))
        place.mkdir(parents=True, exist_ok=True)
        (place / "kernel").touch()
        raise TrainingError("ended")

    monkeypatch.setattr("speedproof.run.run_experiment.run_process", end_at_once)
    for _ in range(2):
        with pytest.raises(TrainingError, match="ended"):
            run_experiment(job, conditions_of(job))
    return found


def test_no_cold_run_finds_code_that_an_earlier_one_compiled(job, monkeypatch):
    (first, first_empty), (second, second_empty) = compile_caches(job, monkeypatch, "cold")
    assert first != second
    assert first_empty and second_empty
    assert not first.exists() and not second.exists()


def test_a_warm_run_finds_what_was_compiled_into_its_prepared_folder(job, monkeypatch, tmp_path):
    first, second = compile_caches(job, monkeypatch, "warm")
    assert (first, second) == ((tmp_path / "prepared volumes/compiled", True), (tmp_path / "prepared volumes/compiled", False))


def test_several_nodes_have_no_folder_in_common(tmp_path):
    with pytest.raises(ConfigError, match=r"variants\.warm: `prepared_folder` goes with `nodes: 1`"):
        config_with(nodes=2, shard=True, launch="operations")


def test_only_measured_variants_have_their_folders_filled(tmp_path):
    values = config_with().model_dump(mode="json")
    assert check_config(values).prepared_folders() == {"warm": Path("prepared volumes")}
    values["measurement"]["variants"] = ["cold"]
    assert check_config(values).prepared_folders() == {}
