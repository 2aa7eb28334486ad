"""Published programs beside ours: both find the images, from the same seed, and print what their epochs are read of."""

import hashlib
import json
import runpy
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from speedproof.api import ConfigError, DataError, Published, load_config

PUBLISHED = Path(__file__).parents[1] / "published"
# In place of a published one, which is never kept here.
PROGRAM = b"""
import torch, torchvision
folder = torchvision.datasets.ImageFolder(root="/ibex/reference/CV/tinyimagenet/train", transform=None)
print(folder.root, folder.transform, torch.rand(1).item())
"""


@pytest.fixture
def prepare():
    return runpy.run_path(str(PUBLISHED / "prepare_published.py"))["make_ready"]


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A folder of published programs, and the entry that says what they are."""
    entry = Published(
        title="a",
        repository="https://github.com/one/two",
        commit="0" * 40,
        licence="MIT",
        files={"src/train.py": hashlib.sha256(PROGRAM).hexdigest()},
    )
    monkeypatch.setattr("speedproof_common.published.find_published", lambda *_: entry)
    (tmp_path / "programs/src").mkdir(parents=True)
    (tmp_path / "programs/src/train.py").write_bytes(PROGRAM)
    return tmp_path / "programs"


def data_of(images, programs):
    return {"source": "local", "local_folder": str(images), "published_folder": str(programs)}


def test_programs_and_images_lie_side_by_side(prepare, programs, tiny_images, tmp_path):
    out = tmp_path / "results/dataset.json"
    out.parent.mkdir()
    for _ in range(2):
        both = prepare(data_of(tiny_images, programs), out)
    assert (both / "programs/src/train.py").read_bytes() == PROGRAM
    assert (both / "images/train").is_dir()
    assert out.parent / json.loads(out.read_text())["folder"] == both


def test_programs_that_were_edited_are_refused(prepare, programs, tiny_images, tmp_path):
    (programs / "src/train.py").write_bytes(PROGRAM + b"#")
    with pytest.raises(DataError, match="is not the published file"):
        prepare(data_of(tiny_images, programs), tmp_path / "dataset.json")
    with pytest.raises(ConfigError, match=r"data\.published_folder"):
        prepare({"published_folder": 7}, tmp_path / "dataset.json")


def test_a_published_program_runs_as_it_is_on_our_images_and_seed(programs, published, monkeypatch, capsys):
    published(programs / "src/train.py")

    class ImageFolder:
        def __init__(self, root, transform=None):
            self.root, self.transform = root, transform

    torchvision = ModuleType("torchvision")
    torchvision.datasets = ModuleType("torchvision.datasets")
    torchvision.datasets.ImageFolder = ImageFolder
    monkeypatch.setitem(sys.modules, "torchvision", torchvision)
    monkeypatch.setenv("SPEEDPROOF_SEED", "7")
    monkeypatch.setattr("sys.argv", ["run_published"])
    runpy.run_path(str(PUBLISHED / "run_published.py"))["main"](str(programs / "src/train.py"), "/images of mine")
    torch.manual_seed(7)
    assert capsys.readouterr().out.splitlines()[1:] == [f"/images of mine/train None {torch.rand(1).item()}"]


def test_the_configuration_is_understood(monkeypatch):
    monkeypatch.chdir(PUBLISHED.parents[2])
    config = load_config(PUBLISHED / "config.yaml")
    assert config.completed_variants.keys() == set(config.measurement.variants)
