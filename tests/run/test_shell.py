"""A workload made of nothing but a folder: `workload.yaml`, a shell script as program, and a file of claims."""

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from speedproof.cli import program_commands as variant_commands
from speedproof.config.load import check_config
from speedproof.config.workload import find_workload
from speedproof.results.dataset import Dataset
from speedproof.results.run_record import read_epochs, read_run
from speedproof.run.conditions import describe_conditions, digest_host
from speedproof.run.process import run_here
from speedproof.run.program import ProgramRun, Request, run_program
from speedproof.util.errors import ConfigError, SpeedproofError, TrainingError
from tests.workflow.checkout import ROOT

SHELL = Path(__file__).parent / "shell"
MEASURED = {"variants": ["slow", "fast"], "rounds": 2, "profiled": 0, "epochs": 2, "device": "cpu"}
NO_DATA = Dataset(source="own", name="none", version="", licence="unknown", synthetic=False, folder=".", cases=[])


def run_once(tmp_path, script, files=None, **variant):
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, text in {"train.sh": script, **(files or {})}.items():
        (folder / name).write_text(text)
    variants = {"one": {"title": "One", "command": "sh {workload}/train.sh", **variant}}
    (folder / "workload.yaml").write_text(json.dumps({"title": "Mine", "variants": variants}))
    config = check_config({"case": str(folder), "measurement": MEASURED | {"variants": ["one"]}})
    found = describe_conditions("cpu", 1, NO_DATA)
    workload, request, run = find_workload(str(folder)), Request("one", "timed", 0, 7, "none"), tmp_path / "01-one-timed"
    run.mkdir()

    def watch(environ, output):
        return run_program(ProgramRun(config, workload, request, run, tmp_path / "data", environ), found, output)

    run_here(watch, run, {})


def test_a_configuration_lays_single_keys_over_its_workloads_quality():
    config = check_config({"case": str(SHELL), "measurement": MEASURED | {"quality": {"margin": 0.2}}})
    assert (config.measurement.quality.title, config.measurement.quality.margin) == ("score", 0.2)


def test_the_doctor_counts_the_cores_that_a_workload_wants():
    assert find_workload("spleen").declared.cores == 8
    assert find_workload(str(SHELL)).declared.cores == 1


def test_a_workloads_packages_stand_in_what_its_runs_are_compared_by(tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    variants = {"one": {"title": "One", "command": "true"}}
    workload = {"title": "Mine", "variants": variants, "packages": ["numpy"]}
    (tmp_path / "mine/workload.yaml").write_text(json.dumps(workload))
    values = {"case": str(tmp_path / "mine"), "measurement": MEASURED | {"variants": ["one"]}}
    (tmp_path / "config.json").write_text(json.dumps(values))
    (tmp_path / "dataset.json").write_text(NO_DATA.model_dump_json())
    variant_commands.variant_app(
        ["conditions", f"--config={tmp_path}/config.json", f"--dataset={tmp_path}/dataset.json"], standalone_mode=False
    )
    assert json.loads(capsys.readouterr().out)["packages"] == {"numpy": np.__version__}


def test_an_ablation_climbs_by_the_settings_that_variants_declare(tmp_path):
    (tmp_path / "mine").mkdir()
    settings = {
        "one": {"cache": "none", "workers": 0},
        "two": {"cache": "ram", "workers": 0},
        "three": {"cache": "ram", "workers": 4},
    }
    variants = {name: {"title": name, "command": f"train {name}", "settings": own} for name, own in settings.items()}
    (tmp_path / "mine/workload.yaml").write_text(json.dumps({"title": "Mine", "variants": variants}))
    values = {"case": str(tmp_path / "mine"), "measurement": MEASURED | {"variants": ["one", "three"]}}
    values["measurement"]["ablation"] = ["one", "two", "three"]
    assert check_config(values).measurement.all_variants() == ["one", "three", "two"]
    values["measurement"]["ablation"] = ["one", "three"]
    with pytest.raises(ConfigError, match="ablation: `three` changes cache and workers against `one`; each stage changes one"):
        check_config(values)


@pytest.mark.parametrize("key", ["variants", "workload"])
def test_what_a_configuration_cannot_say_of_declared_variants_is_refused(key):
    with pytest.raises(
        ConfigError, match=rf"^my\.yaml: {key}: has no effect: the variants of shell are defined in its workload\.yaml"
    ):
        check_config({"case": str(SHELL), "measurement": MEASURED, key: {"slow": {"epochs": 9}}}, "my.yaml")


def test_a_workload_may_check_a_configuration_whose_variants_it_declares(tmp_path):
    """Its command gets the variants with the rest, and adds what its data need."""
    folder = tmp_path / "mine"
    folder.mkdir()
    program = "import json, sys; v = json.load(sys.stdin); v['completed']['data_mib'] = v['data']['mib']; print(json.dumps(v))"
    (folder / "configure.py").write_text(program)
    workload = {"title": "Mine", "variants": {"one": {"title": "One", "command": "true"}}}
    workload["commands"] = {"configure": f"{{python}} {folder}/configure.py"}
    (folder / "workload.yaml").write_text(json.dumps(workload))
    config = check_config({"case": str(folder), "data": {"mib": 7}, "measurement": MEASURED | {"variants": ["one"]}})
    assert (config.completed.data_mib, config.completed_variants["one"].command) == (7, "true")


MARK = f'mark() {{ {sys.executable} {ROOT}/src/speedproof/marks.py "$@"; }}\n'
EPOCHS = MARK + "for epoch in 1 2; do mark epoch-begins; mark quality 0.$epoch; mark epoch-ends; done\n"


def test_a_program_sees_its_seed_its_variables_and_an_empty_folder(tmp_path):
    run_once(
        tmp_path,
        f'echo "$SPEEDPROOF_SEED $SPEEDPROOF_VALIDATE_EVERY $COLOUR $(ls | wc -l)" >{tmp_path}/seen\n'
        f"touch left-behind\n{EPOCHS}",
        environment={"COLOUR": "green"},
        validate_every=5,
    )
    assert (tmp_path / "seen").read_text().split() == ["7", "5", "green", "0"]
    run = read_run(tmp_path / "01-one-timed")
    assert (run.outcome, run.best_quality, run.best_quality_epoch, run.case) == ("completed", 0.2, 2, "mine")
    assert run.conditions.host == digest_host()
    assert read_epochs(tmp_path / "01-one-timed")["quality"].tolist() == [0.1, 0.2]
    assert run.start_up_s + run.training_s <= run.process_s


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exit 3", "failed: exit status 3"),
        ("kill -9 $$", "killed (SIGKILL)"),
        ("true", "marked 0 whole epochs of 2"),
        (MARK + "mark epoch-ends", "epoch-ends, while none has begun"),
    ],
)
def test_a_program_that_does_not_end_well_says_why_in_its_record(tmp_path, script, said):
    with pytest.raises(TrainingError) as caught:
        run_once(tmp_path, script)
    assert said in str(caught.value)
    run = read_run(tmp_path / "01-one-timed")
    assert run.outcome == "failed" and run.reason in str(caught.value)


def test_a_program_that_is_not_there_is_named(tmp_path):
    with pytest.raises(TrainingError, match=r"no-such-program: no such program; correct the variant's `command`"):
        run_once(tmp_path, "", command="no-such-program --fast")


@pytest.mark.parametrize(
    ("workload", "measured", "said"),
    [
        ({"variants": {"one": {"title": "One"}}}, {}, "variants.one.command: is missing"),
        ({"variants": {"one": {"command": "true"}}}, {}, "variants.one.title"),
        ({"variantz": {}}, {}, "did you mean variants?"),
        ({"variants": {"one": {"title": "One", "command": "true"}}}, {"documented": 1}, "measurement.documented"),
        ({"variants": {"two": {"title": "Two", "command": "true"}}}, {}, "unknown variant `one`; known are two"),
    ],
)
def test_a_mistake_in_a_workload_is_one_line(tmp_path, workload, measured, said):
    (tmp_path / "workload.yaml").write_text(json.dumps({"title": "Mine", **workload}))
    with pytest.raises(ConfigError) as caught:
        check_config({"case": str(tmp_path), "measurement": MEASURED | {"variants": ["one"]} | measured})
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.fixture
def apptainer(tmp_path, monkeypatch):
    """A stand-in for Apptainer: it says what it was told, then runs the command here."""
    tool = tmp_path / "apptainer"
    enter = 'while [ "${1%own.sif}" = "$1" ]; do shift; done; shift; exec "$@"'
    tool.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" >{tmp_path}/told\n{enter}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path / "told"


def test_a_program_runs_in_its_variants_image_and_sees_its_folders(tmp_path, apptainer):
    linked, elsewhere = tmp_path / "volumes", tmp_path / "elsewhere"
    for folder in (linked, elsewhere, tmp_path / "data"):
        folder.mkdir()
    (tmp_path / "data/part").symlink_to(elsewhere)
    run_once(tmp_path, EPOCHS, files={"own.sif": "an image"}, image="own.sif", linked={"data": str(linked)})
    word, bound, place, image, *_ = apptainer.read_text().split()
    assert (word, place.startswith("--pwd="), image) == ("exec", True, str(tmp_path / "mine/own.sif"))
    folders = set(bound.removeprefix("--bind=").split(","))
    seen = {str(tmp_path / name) for name in ("volumes", "elsewhere", "mine", "data")}
    assert seen | {place.removeprefix("--pwd=")} <= folders
    run = read_run(tmp_path / "01-one-timed")
    assert (run.outcome, run.techniques["image"], len(run.techniques["image_id"])) == ("completed", "own.sif", 18)


def test_what_an_image_cannot_be_or_see_is_refused_in_one_line(tmp_path, apptainer):
    with pytest.raises(ConfigError, match=r"variants.one.image: .*mine/none.sif: No such file"):
        run_once(tmp_path, EPOCHS, image="none.sif")
    shutil.rmtree(tmp_path / "mine")
    with pytest.raises(SpeedproofError, match="a,b: an image cannot see a path with"):
        run_once(tmp_path, EPOCHS, files={"own.sif": "an image"}, image="own.sif", linked={"data": str(tmp_path / "a,b")})
    assert not apptainer.exists()


def test_a_secret_of_a_variants_environment_stands_in_no_record(tmp_path):
    run_once(tmp_path, EPOCHS, environment={"API_TOKEN": "hunter2", "MODE": "fast"})
    assert read_run(tmp_path / "01-one-timed").techniques["environment"] == {"API_TOKEN": "<secret>", "MODE": "fast"}


def test_a_program_that_runs_in_a_folder_itself_has_a_fresh_one_besides_and_its_changes_are_named(tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "kept").touch()
    command = f"sh -c 'ls {{run}} | wc -l >>{tmp_path}/seen; pwd >>{tmp_path}/seen; echo 1 >made; echo loss >{{run}}/log.csv'"
    reads = {"source": "file", "file": "{run}/log.csv", "quality": "loss"}
    with pytest.raises(TrainingError, match="failed"):  # a table without rows
        run_once(tmp_path, "", command=command, place=str(own), reads=reads)
    assert (tmp_path / "seen").read_text().split() == ["0", str(own)]
    assert read_run(tmp_path / "01-one-timed").warnings == ["it changed made, which later runs see"]
