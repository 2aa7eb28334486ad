"""The published programs beside ours: they run as they are, find their volumes, and their epochs are marked as ours are."""

import gc
import hashlib
import json
import runpy
import subprocess
import sys
from pathlib import Path

import monai
import pytest
import yaml
from monai.metrics import DiceMetric

from speedproof.api import ConfigError, DataError, Published, find_published, load_config
from speedproof_spleen.data.phantom import make_phantom
from tests.instrument import read_marks

ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT / "workloads/spleen/published"
PROGRAM = b"print(sorted(path.name for path in __import__('pathlib').Path(FOLDER).iterdir()))\n"
# What both published programs print and call, without a training.
TRAINS = """
import os, torch
from monai.metrics import DiceMetric
from monai.networks.nets import UNet
from monai.utils import set_determinism

def train_process(fast, epochs=6, every=2, out="outputs", name="best_metric_model.pth"):
    model = UNet(spatial_dims=3, in_channels=1, out_channels=2, channels=(2, 4), strides=(2,))
    metric, best = DiceMetric(include_background=True, reduction="mean"), -1
    os.makedirs(out, exist_ok=True)
    for epoch in range(1, epochs + 1):
        print("-" * 10)
        print(f"epoch {epoch}/{epochs}")
        print(f"epoch {epoch} average loss: 0.5000")
        if epoch % every == 0:
            truth = torch.zeros(1, 2, 4, 4, 4)
            truth[:, 1, :2] = truth[:, 0, 2:] = 1
            found = truth.clone()
            found[:, 1, 0, : min(3, epoch // every)] = 0
            metric(y_pred=found, y=truth)
            found_dice = metric.aggregate().item()
            metric.reset()
            if found_dice > best:
                best = found_dice
                torch.save(model.state_dict(), f"{out}/{name}")
                print("saved new best metric model")
            print(f"current epoch: {epoch} current mean dice: {found_dice:.4f}")
        print(f"time consuming of epoch {epoch} is: 0.1000")
"""
DEFAULTS = 'epochs=6, every=2, out="outputs", name="best_metric_model.pth"'
NOTEBOOKS = "epochs=300, every=5, out=os.environ['MONAI_DATA_DIRECTORY'], name='best_metric_model.pt'"
CELLS = [
    "!python -c 'import monai' || pip install monai",
    TRAINS.replace(DEFAULTS, NOTEBOOKS),
    "set_determinism(seed=0)\n(\n    x\n) = train_process(fast=False)",
    "print(sorted(os.listdir(os.environ['MONAI_DATA_DIRECTORY'] + '/Task09_Spleen')))",
    "set_determinism(seed=0)\nprint(torch.initial_seed())\n(\n    x\n) = train_process(fast=True)",
    "raise RuntimeError",
]


@pytest.fixture(scope="module")
def phantom(tmp_path_factory):
    folder = tmp_path_factory.mktemp("phantom")
    make_phantom(folder, "tiny", 0, 1)
    return folder


@pytest.fixture
def data(phantom, tmp_path, monkeypatch):
    """The `data` of a configuration whose programs are in a folder, and their entry, which knows them."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "a.py").write_bytes(PROGRAM)
    entry = {"title": "a", "repository": "https://github.com/one/two", "commit": "0" * 40, "licence": "MIT"}
    known = Published(**entry, files={"a.py": hashlib.sha256(PROGRAM).hexdigest()})
    monkeypatch.setattr("speedproof_common.published.find_published", lambda *_: known)
    return {"source": "local", "local_folder": str(phantom), "published_folder": str(programs)}


@pytest.fixture
def make_ready():
    return runpy.run_path(str(PUBLISHED / "prepare_published.py"))["make_ready"]


def test_programs_and_volumes_lie_side_by_side(make_ready, data, tmp_path):
    both = make_ready(data, tmp_path / "dataset.json")
    assert both == tmp_path / json.loads((tmp_path / "dataset.json").read_text())["folder"]
    assert (both / "programs/a.py").read_bytes() == PROGRAM
    assert len(list((both / "imagesTr").iterdir())) == len(list((both / "labelsTr").iterdir())) > 0


def test_programs_that_were_edited_and_folders_that_are_none_are_refused(make_ready, data, tmp_path):
    (tmp_path / "programs/a.py").write_bytes(PROGRAM + b"#")
    with pytest.raises(DataError, match="is not the published file"):
        make_ready(data, tmp_path / "dataset.json")
    with pytest.raises(ConfigError, match=r"data\.published_folder: must be a folder's path"):
        make_ready(data | {"published_folder": 3}, tmp_path / "dataset.json")
    with pytest.raises(ConfigError, match="source"):
        make_ready(data | {"source": "elsewhere"}, tmp_path / "dataset.json")


@pytest.fixture
def run_published(tmp_path, monkeypatch):
    """Return what runs a program as `run_published.py` does, in a folder with volumes, and returns its marked epochs."""
    both, work = tmp_path / "both", tmp_path / "work"
    (both / "imagesTr").mkdir(parents=True)
    work.mkdir()
    for number in range(10):  # of which nine validate
        (both / f"imagesTr/spleen_{number}.nii.gz").touch()
    monkeypatch.syspath_prepend(PUBLISHED)
    monkeypatch.setattr(DiceMetric, "aggregate", DiceMetric.aggregate)  # is changed by the run
    monkeypatch.setattr(monai.utils, "set_determinism", monai.utils.set_determinism)
    monkeypatch.setattr(monai.config, "print_config", monai.config.print_config)
    monkeypatch.setattr("speedproof_common.program.say_digest", lambda program: None)
    monkeypatch.chdir(work)
    environment = {"RUN": tmp_path, "SEED": 12}
    for name, value in environment.items():
        monkeypatch.setenv(f"SPEEDPROOF_{name}", str(value))
    monkeypatch.setenv("KEPT_WEIGHTS", str(tmp_path / "kept"))
    runner = runpy.run_path(str(PUBLISHED / "run_published.py"))
    runner["main"].__globals__.update(
        published_folder=lambda: tmp_path / "drawn/Task09_Spleen", say_digest=lambda program: None
    )

    def run(name, content, epochs):
        monkeypatch.setenv("SPEEDPROOF_EPOCHS", str(epochs))
        monkeypatch.setattr("sys.argv", ["run_published.py"])
        program = both / (runner["NOTEBOOK"] if name.endswith(".ipynb") else f"{runner['PLACE']}/{name}")
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(content)
        gc.collect()  # other tests' networks would count
        runner["main"](program.name, str(both))
        return read_marks(tmp_path / "marks.jsonl")

    return run


def test_the_epochs_of_a_published_script_are_marked(run_published, tmp_path, capsys):
    marks = run_published("train_fast_nvtx.py", f"{TRAINS}\ntrain_process(True)\nprint('to its end')", 6)
    assert capsys.readouterr().out.endswith("is: 0.1000\nto its end\n")
    assert [epoch.validates_s is not None for epoch in marks.epochs] == [False, True] * 3
    assert {epoch.samples for epoch in marks.epochs} == {4}
    # The foreground's Dice, of 32 voxels: what it prints is the mean with the background's.
    assert [quality for _, quality, _ in marks.qualities] == pytest.approx([2 * (32 - 4 * n) / (64 - 4 * n) for n in (1, 2, 3)])
    assert marks.flop
    (kept,) = (tmp_path / "kept").glob("*.json")
    told = json.loads(kept.read_text())
    assert (told["variant"], told["seed"]) == ("published_train_fast_nvtx", 12)
    assert told["dice"] == pytest.approx(marks.qualities[0][1])  # of the weights that it saved, the best by its own measure


def test_the_notebooks_fast_program_gets_the_seed_and_ends_after_enough_epochs(run_published, capsys):
    cells = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in CELLS]
    marks = run_published("fast_training_tutorial.ipynb", json.dumps({"cells": cells}), 10)
    printed = capsys.readouterr().out.splitlines()
    assert printed[:2] == ["['imagesTr', 'programs']", "12"]
    assert printed[-2:] == ["time consuming of epoch 10 is: 0.1000", "ended after 10 of its epochs"]
    assert [number for number, epoch in enumerate(marks.epochs, start=1) if epoch.validates_s] == [5, 10]


def test_a_notebook_that_trains_otherwise_is_refused(run_published):
    with pytest.raises(ValueError, match="does not stand in one cell"):
        run_published("fast_training_tutorial.ipynb", json.dumps({"cells": []}), 10)


def test_a_published_script_finds_the_volumes_where_it_looks(run_published, tmp_path, capsys):
    runner = runpy.run_path(str(PUBLISHED / "run_published.py"))
    # As both scripts draw it after random.seed(0); looked up once.
    assert runner["published_folder"]() == Path("/tmp/tmpmynbiqpmzjplsgqe/Task09_Spleen")
    place = tmp_path / "drawn/Task09_Spleen"
    program = PROGRAM.decode().replace("FOLDER", repr(str(place)))
    for _ in range(2):
        run_published("train_base_nvtx.py", program, 6)
    assert capsys.readouterr().out == "['imagesTr', 'programs']\n" * 2
    place.unlink()
    place.mkdir()
    with pytest.raises(FileExistsError, match="remove it"):
        run_published("train_base_nvtx.py", program, 6)


@pytest.fixture
def ours(make_ready, data, tmp_path, monkeypatch):
    """Run a variant as a program with the settings of a minute's run; return its marks, and where volumes and weights are."""
    both = make_ready(data, tmp_path / "dataset.json")
    lain = {**yaml.safe_load((ROOT / "config.yaml").read_text())}
    for key, value in yaml.safe_load((ROOT / "workflow/config/ci.yaml").read_text()).items():
        lain[key] = {**lain[key], **value} if isinstance(value, dict) else value
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(lain))
    monkeypatch.syspath_prepend(PUBLISHED)
    runner = runpy.run_path(str(PUBLISHED / "run_ours.py"))
    runner["main"].__globals__["ROOT"] = tmp_path
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name, value in {"RUN": tmp_path, "SEED": 12, "EPOCHS": 3, "VALIDATE_EVERY": 2}.items():
        monkeypatch.setenv(f"SPEEDPROOF_{name}", str(value))
    monkeypatch.setenv("KEPT_WEIGHTS", str(tmp_path / "kept"))
    runner["main"]("baseline", str(both), "documented")
    return read_marks(tmp_path / "marks.jsonl"), both, tmp_path / "kept"


@pytest.mark.dear
def test_ours_marks_its_epochs_and_monai_alone_finds_its_dice(ours, monkeypatch, capsys):
    marks, both, kept = ours
    assert [epoch.validates_s is not None for epoch in marks.epochs] == [False, True, False]
    assert all(epoch.train_s > 0 for epoch in marks.epochs)
    assert marks.flop and marks.epochs[0].samples
    (told,) = (json.loads(file.read_text())["dice"] for file in kept.glob("*.json"))
    assert told == pytest.approx(marks.qualities[0][1])
    sizes = ["--cases", "2", "--spacing-mm", "8", "8", "8", "--window", "32", "32", "32"]
    check = [str(PUBLISHED / "check_checkpoint.py"), str(both), str(kept), *sizes]
    assert subprocess.run([sys.executable, *check]).returncode == 0
    (file,) = kept.glob("*.json")
    file.write_text(json.dumps({"dice": told + 0.002}))
    monkeypatch.setattr("sys.argv", check)
    assert runpy.run_path(check[0])["main"]() == 1  # in this process: another one takes seconds to import MONAI
    assert capsys.readouterr().out.endswith("by its run: OFF\n")


def test_the_published_programs_are_known_by_their_digests(monkeypatch):
    monkeypatch.syspath_prepend(PUBLISHED)
    published = find_published(ROOT / "examples/published.yaml", "monai_spleen_profiling")
    runner = runpy.run_path(str(PUBLISHED / "run_published.py"))
    scripts = {f"{runner['PLACE']}/train_{kind}_nvtx.py" for kind in ("base", "fast")}
    assert {f"programs/{path}" for path in published.files} == {runner["NOTEBOOK"], *scripts}


@pytest.mark.parametrize("name", ["config.yaml", "speed.yaml", "quality.yaml"])
def test_the_configurations_are_understood(monkeypatch, name):
    monkeypatch.chdir(ROOT)
    config = load_config(PUBLISHED / name)
    assert config.completed_variants.keys() >= set(config.measurement.variants)


@pytest.mark.parametrize("name", ["speed.yaml", "quality.yaml"])
def test_turbo_is_judged_on_what_chose_none_of_its_settings(monkeypatch, name):
    monkeypatch.chdir(ROOT)
    config = load_config(PUBLISHED / name)
    measurement = config.measurement
    tuned = measurement.quality.tuned_on["turbo"]
    assert not set(tuned.seeds) & set(range(measurement.seed, measurement.seed + measurement.rounds))
    phantom = config.data["phantom"]
    assert f"Spleen phantom {phantom['size']}, seed {phantom['seed']}" not in tuned.data
