"""Published programs beside ours: both are told how long to train, on what, and from which seed."""

import hashlib
import json
import runpy
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from speedproof.api import ConfigError, DataError, Dataset, Published, find_published, read_record
from speedproof_brain_tumour import phantom

PUBLISHED = Path(__file__).parents[1] / "published"
# In place of the published ones, which are never kept here.
SCRIPT = b"import sys; print(sys.argv[1:])"
CELLS = [
    "!pip install this",
    "import os, onnxruntime\nimport matplotlib.pyplot as plt\nfrom monai.utils import set_determinism",
    'print(os.environ["MONAI_DATA_DIRECTORY"]); set_determinism(seed=0)',
    "plt.show()",
    "download=True\nprint(download)",
    "max_epochs = 300\nval_interval = 1",
    "for epoch in range(max_epochs):\n    print(epoch, val_interval > max_epochs)",
    "raise SystemExit",
]


def write_notebook(path, cells):
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"cells": [{"cell_type": "code", "source": [cell]} for cell in cells]}))


@pytest.fixture
def both(tmp_path):
    """A folder as the published programs find it."""
    made = runpy.run_path(str(PUBLISHED / "run_published.py"))
    write_notebook(tmp_path / made["NOTEBOOK"], CELLS)
    (tmp_path / made["SCRIPT"]).parent.mkdir(parents=True)
    (tmp_path / made["SCRIPT"]).write_bytes(SCRIPT)
    return tmp_path


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("SPEEDPROOF_EPOCHS", "2")
    monkeypatch.setenv("SPEEDPROOF_SEED", "7")
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


def test_the_script_is_told_by_its_options(run, both, published, capsys):
    published(both / run["SCRIPT"])
    run["main"]("script", str(both))
    assert capsys.readouterr().out.splitlines()[1:] == [f"['-d', '{both}', '--epochs', '2', '--val_interval', '1000000']"]
    assert torch.initial_seed() == 7 and not torch.backends.cudnn.deterministic


def test_the_notebook_runs_up_to_its_loop(run, both, published, capsys):
    published(both / run["NOTEBOOK"])
    run["main"]("notebook", str(both))
    assert capsys.readouterr().out.splitlines()[1:] == [str(both), "False", "0 True", "1 True"]


def test_a_program_that_was_edited_since_it_was_made_ready_does_not_run(run, both, capsys):
    with pytest.raises(SystemExit, match="is not the published file any more"):
        run["main"]("script", str(both))
    assert not capsys.readouterr().out


def test_a_notebook_in_which_something_else_stands_is_refused(run, tmp_path):
    write_notebook(tmp_path / "one/a.ipynb", [cell.replace("300", "200") for cell in CELLS])
    with pytest.raises(ValueError, match=r"a\.ipynb: `max_epochs = 300` does not stand in it once"):
        run["list_cells"](tmp_path / "one/a.ipynb", 2, 7)


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
    dataset = read_record(tmp_path / "dataset.json", Dataset)
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


def test_the_published_programs_are_known_by_their_digests():
    published = find_published(Path(__file__).parents[3] / "examples/published.yaml", "monai_brain_tumour")
    run = runpy.run_path(str(PUBLISHED / "run_published.py"))
    assert {f"programs/{path}" for path in published.files} == {run["SCRIPT"], run["NOTEBOOK"]}
