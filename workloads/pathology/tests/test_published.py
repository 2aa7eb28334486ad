"""The published program beside ours: both are told how long to train, on what, how, and from which seed."""

import hashlib
import json
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from monai.utils import set_determinism

from speedproof.api import ConfigError, DataError, Published, find_published, load_config

PUBLISHED = Path(__file__).parents[1] / "published"
# In place of the published one, which is never kept here.
PROGRAM = b"""import sys, numpy as np, torch
from monai.utils import set_determinism
if "--benchmark" not in sys.argv:
    set_determinism(seed=0)
print(sys.argv[1:], np.Inf, torch.initial_seed(), torch.backends.cudnn.deterministic)
"""
TOLD = {"reader": "openslide", "region": 96, "patch": 32, "batch": 2, "share": 0.0, "workers": 0}


@pytest.fixture
def runner(tmp_path, monkeypatch, published):
    monkeypatch.setenv("SPEEDPROOF_EPOCHS", "2")
    monkeypatch.setenv("SPEEDPROOF_SEED", "7")
    monkeypatch.setattr("sys.argv", ["test"])
    monkeypatch.setattr("monai.utils.set_determinism", set_determinism)  # and is put back
    monkeypatch.setattr("monai.utils.nvtx._nvtx", None)
    for flag in ("benchmark", "deterministic"):
        monkeypatch.setattr(torch.backends.cudnn, flag, False)
    made = runpy.run_path(str(PUBLISHED / "run_published.py"))
    script = tmp_path / made["SCRIPT"]
    script.parent.mkdir(parents=True)
    script.write_bytes(PROGRAM)
    published(script)
    (tmp_path / "options.json").write_text(json.dumps(TOLD))
    yield made["main"]
    vars(np).pop("Inf", None)


@pytest.mark.parametrize(
    ("variant", "settings", "deterministic"),
    [
        ("baseline", "--backend=numpy", True),
        ("optimised", "--backend=cucim --benchmark --novograd --cos --pin --amp", False),
    ],
)
def test_the_program_is_told_by_its_own_options(runner, tmp_path, capsys, variant, settings, deterministic):
    runner(variant, str(tmp_path))
    slides = f"{tmp_path}/slides"
    words = [
        *settings.split(),
        "--openslide",
        *(f"--root={slides}", f"--train-file={slides}/training.csv", f"--valid-file={slides}/validation.csv"),
        *["--logdir=logs", "--ep=2", "--rs=96", "--ps=32", "--bs=2", "--prob=0.0", "--cpu=0", "--pr=1"],
    ]
    assert capsys.readouterr().out.splitlines()[1:] == [f"{words} inf 7 {deterministic}"]


def test_program_slides_and_options_lie_in_one_folder(tiny_slides, tmp_path, monkeypatch):
    module = runpy.run_path(str(PUBLISHED / "prepare_published.py"))
    entry = {"title": "a", "repository": "https://github.com/one/two", "commit": "0" * 40, "licence": "MIT"}
    published = Published(**entry, files={"a.py": hashlib.sha256(PROGRAM).hexdigest()})
    monkeypatch.setattr("speedproof_common.published.find_published", lambda *_: published)
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs/a.py").write_bytes(PROGRAM)
    data = TOLD | {"source": "local", "local_folder": str(tiny_slides), "published_folder": str(tmp_path / "programs")}
    both = module["make_ready"](data, tmp_path / "dataset.json")
    assert (both / "programs/a.py").read_bytes() == PROGRAM
    assert (both / "slides/training.csv").is_file()
    assert json.loads((both / "options.json").read_text()) == TOLD
    assert json.loads((tmp_path / "dataset.json").read_text())["folder"] == "both"
    (tmp_path / "programs/a.py").write_bytes(b"edited")
    with pytest.raises(DataError, match="is not the published file"):
        module["make_ready"](data, tmp_path / "dataset.json")
    with pytest.raises(ConfigError, match=r"data\.published_folder: must be a folder's path"):
        module["make_ready"](data | {"published_folder": 3}, tmp_path / "dataset.json")
    with pytest.raises(ConfigError, match="the published program reads by cucim or openslide"):
        module["make_ready"](data | {"reader": "tiles"}, tmp_path / "dataset.json")


def test_the_published_program_is_known_by_its_digest():
    published = find_published(Path(__file__).parents[3] / "examples/published.yaml", "monai_pathology")
    assert [f"programs/{path}" for path in published.files] == [runpy.run_path(str(PUBLISHED / "run_published.py"))["SCRIPT"]]


def test_the_configuration_is_understood(monkeypatch):
    monkeypatch.chdir(PUBLISHED.parents[2])
    config = load_config(PUBLISHED / "config.yaml")
    assert config.completed_variants.keys() == set(config.measurement.variants)
