"""Published programs beside ours: both are given their seed and data, and their epochs are marked alike."""

import hashlib
import json
import runpy
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest
import torch
from monai.data import DataLoader, Dataset, MetaTensor, ThreadDataLoader
from monai.metrics import DiceMetric

from speedproof.api import ConfigError, DataError, Published, find_published, load_config, read_record
from speedproof.api import Dataset as Described
from speedproof_brain_tumour import phantom
from tests.instrument import read_marks

ROOT = Path(__file__).parents[3]
PUBLISHED = Path(__file__).parents[1] / "published"
# What both published programs print and call, without a training; the programs are never kept here.
EPOCH = """
    print(f"epoch {epoch + 1}/{max_epochs}")
    print(f"epoch {epoch + 1} average loss: 0.5000")
    if (epoch + 1) % val_interval == 0:
        truth = torch.ones(1, 3, 4, 4, 4)
        found = truth.clone()
        found[:, 0, epoch % 4 :] = 0  # a region's Dice falls, the others' stay 1
        for metric in (dice_metric, dice_metric_batch):
            metric(y_pred=found, y=truth)
        mean = dice_metric.aggregate().item()
        each = dice_metric_batch.aggregate().tolist()
        torch.save({}, os.path.join(root_dir, "best_metric_model.pth"))
        print(f"current epoch: {epoch + 1} current mean dice: {mean:.4f} tc: {each[0]:.4f}")
    print(f"time consuming of epoch {epoch + 1} is: 0.1000")
"""
METRICS = """
import os, torch
from monai.data import DataLoader, Dataset, MetaTensor, ThreadDataLoader
from monai.metrics import DiceMetric
dice_metric, dice_metric_batch = DiceMetric(reduction="mean"), DiceMetric(reduction="mean_batch")
"""
LOOP = f"for epoch in range(max_epochs):{EPOCH}    dice_metric.reset(), dice_metric_batch.reset()\n"
SCRIPT = (
    f"import sys; print(sys.argv[1:]){METRICS}max_epochs, val_interval, root_dir = 300, int(sys.argv[-1]), '.'\n{LOOP}".encode()
)
CELLS = [
    "!pip install this",
    "import os, onnxruntime\nimport matplotlib.pyplot as plt\nfrom monai.utils import set_determinism",
    'root_dir = os.environ["MONAI_DATA_DIRECTORY"]\nprint(sorted(os.listdir(root_dir)))\nset_determinism(seed=0)',
    "plt.show()",
    f"download=True\nprint(download){METRICS}",
    "max_epochs = 300\nval_interval = 1",
    LOOP,
    "raise RuntimeError",
]


def write_notebook(path, cells):
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"cells": [{"cell_type": "code", "source": [cell]} for cell in cells]}))


@pytest.fixture
def both(tmp_path, monkeypatch):
    """A folder as the published programs find it, with the list of ten cases."""
    monkeypatch.syspath_prepend(PUBLISHED)
    made = runpy.run_path(str(PUBLISHED / "run_published.py"))
    folder = tmp_path / "both"
    write_notebook(folder / made["NOTEBOOK"], CELLS)
    (folder / made["SCRIPT"]).parent.mkdir(parents=True)
    (folder / made["SCRIPT"]).write_bytes(SCRIPT)
    (folder / made["VOLUMES"]).mkdir()
    cases = [{"image": f"{number}.nii.gz", "label": f"{number}.nii.gz"} for number in range(10)]
    (folder / made["VOLUMES"] / "dataset.json").write_text(json.dumps({"training": cases}))
    return folder


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(PUBLISHED)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr(DiceMetric, "aggregate", DiceMetric.aggregate)  # is changed by the run
    for name, value in {"RUN": tmp_path, "EPOCHS": 4, "SEED": 7}.items():
        monkeypatch.setenv(f"SPEEDPROOF_{name}", str(value))
    monkeypatch.delenv("SPEEDPROOF_VALIDATE_EVERY", raising=False)
    monkeypatch.setenv("MONAI_DATA_DIRECTORY", "")  # and these are put back
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "0")
    for flag in ("benchmark", "deterministic"):
        monkeypatch.setattr(torch.backends.cudnn, flag, False)
    monkeypatch.setattr("sys.argv", ["test"])
    made = runpy.run_path(str(PUBLISHED / "run_published.py"))
    for name in made["UNUSED"]:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    return made


def read_validations(folder):
    """Return the epochs that validated, from 1, and their qualities."""
    marks = read_marks(folder / "marks.jsonl")
    validated = [number for number, epoch in enumerate(marks.epochs, start=1) if epoch.validates_s is not None]
    return validated, [quality for _, quality, _ in marks.qualities]


# Of three regions, one of which holds 0 to 3 of 4 slices.
DICE = [pytest.approx((2 + 2 * share / (1 + share)) / 3) for share in (0, 0.25, 0.5, 0.75)]


def test_the_script_gets_its_options_and_ends_after_enough_epochs(run, both, published, tmp_path, monkeypatch, capsys):
    published(both / run["SCRIPT"])
    monkeypatch.setenv("SPEEDPROOF_VALIDATE_EVERY", "2")
    run["main"]("script", str(both))
    printed = capsys.readouterr().out.splitlines()
    assert printed[1] == f"['-d', '{both}', '--val_interval', '2']"
    assert printed[-2:] == ["time consuming of epoch 4 is: 0.1000", "ended after 4 of its epochs"]
    assert torch.initial_seed() == 7 and not torch.backends.cudnn.deterministic
    assert read_validations(tmp_path) == ([2, 4], DICE[1::2])
    assert {epoch.samples for epoch in read_marks(tmp_path / "marks.jsonl").epochs} == {8}  # of ten cases, two validate


def test_the_notebook_runs_up_to_its_loop_and_validates_as_published(run, both, published, tmp_path, capsys):
    published(both / run["NOTEBOOK"])
    run["main"]("notebook", str(both))
    printed = capsys.readouterr().out.splitlines()
    assert printed[1:4] == ["['Task01_BrainTumour']", "False", "epoch 1/300"]
    assert printed[-1] == "ended after 4 of its epochs"
    assert torch.initial_seed() == 7
    assert read_validations(tmp_path) == ([1, 2, 3, 4], DICE)
    assert Path("tutorial/best_metric_model.pth").is_file()  # not among the data
    assert not list(both.rglob("best_metric_model.pth"))


class Ranges(list):
    """Stands for nvtx: which ranges are opened, one after another, and the depth of each."""

    depth = 0

    @contextmanager
    def annotate(self, name, color):
        self.push_range(name, color)
        yield
        self.pop_range()

    def push_range(self, name, color):
        self.append((self.depth, name))
        self.depth += 1

    def pop_range(self):
        self.depth -= 1


def test_the_phases_of_a_program_are_named_as_ours_are():
    ranges = Ranges()
    module = runpy.run_path(str(PUBLISHED / "named_phases.py"))
    module["begin_forward"].__globals__["nvtx"] = ranges
    cases, network = Dataset([1.0]), torch.nn.Linear(1, 1)
    optimizer, scaler = torch.optim.SGD(network.parameters()), torch.GradScaler("cpu", enabled=False)
    before = torch.autograd.backward
    with module["named_phases"]():
        for batch in ThreadDataLoader(cases, shuffle=True):
            with torch.autocast("cpu", enabled=False):
                loss = MetaTensor(network(batch.float()[:, None]).sum())  # as the programs' losses are
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        with torch.no_grad():
            for batch in DataLoader(cases):
                with torch.autocast("cpu", enabled=False):
                    network(batch.float()[:, None])
    assert torch.autograd.backward is before
    trains = ["dataload", "forward", "backward", "update", "dataload"]
    validates = ["validation dataload", "sliding window", "validation dataload"]
    assert ranges == [(0, name) for name in trains + validates]


def test_programs_that_shall_not_validate_do_not(run, both, published, tmp_path, monkeypatch):
    monkeypatch.setenv("SPEEDPROOF_VALIDATE_EVERY", "1000")
    published(both / run["NOTEBOOK"])
    run["main"]("notebook", str(both))
    assert read_validations(tmp_path) == ([], [])


def test_a_program_that_was_edited_since_it_was_made_ready_does_not_run(run, both, capsys):
    with pytest.raises(SystemExit, match="is not the published file any more"):
        run["main"]("script", str(both))
    assert not capsys.readouterr().out


def test_a_notebook_in_which_something_else_stands_is_refused(run, tmp_path):
    write_notebook(tmp_path / "one/a.ipynb", [cell.replace("interval = 1", "interval = 2") for cell in CELLS])
    with pytest.raises(ValueError, match=r"a\.ipynb: has `val_interval = 1` 0 times, not once"):
        run["list_cells"](tmp_path / "one/a.ipynb", 7, 2)


def test_programs_and_volumes_lie_in_one_folder(tmp_path, monkeypatch):
    entry = {"title": "a", "repository": "https://github.com/one/two", "commit": "0" * 40, "licence": "MIT"}
    published = Published(**entry, files={"a.py": hashlib.sha256(SCRIPT).hexdigest()})
    module = runpy.run_path(str(PUBLISHED / "prepare_published.py"))
    monkeypatch.setattr("speedproof_common.published.find_published", lambda *_: published)
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs/a.py").write_bytes(SCRIPT)
    for name in ("imagesTr", "labelsTr"):
        (tmp_path / "mine" / name).mkdir(parents=True)
    for index in range(5):
        phantom.write_case(tmp_path / "mine", "tiny", 0, index)
    cases = [{key: f"{key}sTr/BRATS_00{number}.nii.gz" for key in ("image", "label")} for number in range(1, 6)]
    (tmp_path / "mine/dataset.json").write_text(json.dumps({"training": cases}))
    data = {"source": "local", "local_folder": str(tmp_path / "mine"), "published_folder": str(tmp_path / "programs")}
    both = module["make_ready"](data, tmp_path / "dataset.json")
    assert (both / "programs/a.py").read_bytes() == SCRIPT
    assert (both / "Task01_BrainTumour/dataset.json").is_file()
    dataset = read_record(tmp_path / "dataset.json", Described)
    assert all(Path(path).is_file() for files in dataset.files(tmp_path / "dataset.json") for path in files.values())
    (tmp_path / "programs/a.py").write_bytes(b"edited")
    with pytest.raises(DataError, match="is not the published file"):
        module["make_ready"](data, tmp_path / "dataset.json")
    with pytest.raises(ConfigError, match=r"data\.published_folder: must be a folder's path"):
        module["make_ready"](data | {"published_folder": 3}, tmp_path / "dataset.json")
    (tmp_path / "programs/a.py").write_bytes(SCRIPT)
    shutil.rmtree(both)
    both.write_text("somebody's")
    with pytest.raises(ConfigError, match="both: is a file where a folder of links is to be; remove it"):
        module["make_ready"](data, tmp_path / "dataset.json")


def test_the_published_programs_are_known_by_their_digests(monkeypatch):
    monkeypatch.syspath_prepend(PUBLISHED)
    published = find_published(ROOT / "examples/published.yaml", "monai_brain_tumour")
    run = runpy.run_path(str(PUBLISHED / "run_published.py"))
    assert {f"programs/{path}" for path in published.files} == {run["SCRIPT"], run["NOTEBOOK"]}


@pytest.mark.parametrize("name", ["config.yaml", "quality.yaml"])
def test_the_configurations_are_understood(monkeypatch, name):
    monkeypatch.chdir(ROOT)
    config = load_config(PUBLISHED / name)
    assert config.completed_variants.keys() >= set(config.measurement.variants)


def test_turbo_is_judged_on_what_chose_none_of_its_settings(monkeypatch):
    monkeypatch.chdir(ROOT)
    config = load_config(PUBLISHED / "quality.yaml")
    measurement = config.measurement
    tuned = measurement.quality.tuned_on["turbo"]
    assert not set(tuned.seeds) & set(range(measurement.seed, measurement.seed + measurement.rounds))
    made = config.data["stand_in"]
    assert f"Brain tumour phantom {made['size']}, seed {made['seed']}" not in tuned.data
