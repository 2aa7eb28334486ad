"""The published programs beside ours: both are told how long to train, on what, and from which seed, and read alike."""

import hashlib
import json
import os
import runpy
import sys
from pathlib import Path
from types import ModuleType

import pytest

from speedproof.api import ConfigError, DataError, Published, find_published, load_config
from tests.instrument import LineClock, find_workload, read_lines

ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT / "workloads/polyp/published"
# In place of a published one, which is never kept here, and of a module beside it.
PROGRAM = b"""import sys
from glob import glob
from module_beside_it import NAME
print(sys.argv[1:], NAME, sorted(glob("data/Kvasir-SEG/train/images/*"))[:1])
"""
BESIDE = b"NAME = 'found'\n"


@pytest.fixture
def make_ready():
    return runpy.run_path(str(PUBLISHED / "prepare_published.py"))["make_ready"]


@pytest.fixture
def data(tiny_pairs, tmp_path, monkeypatch):
    """The `data` of a configuration whose programs are in a folder, and their entry, which knows them."""
    programs = tmp_path / "programs"
    programs.mkdir()
    files = {"train.py": PROGRAM, "module_beside_it.py": BESIDE}
    for name, content in files.items():
        (programs / name).write_bytes(content)
    entry = {"title": "a", "repository": "https://github.com/one/two", "commit": "0" * 40, "licence": "MIT"}
    known = Published(**entry, files={name: hashlib.sha256(content).hexdigest() for name, content in files.items()})
    monkeypatch.setattr("speedproof_common.published.find_published", lambda *_: known)
    return {"source": "local", "local_folder": str(tiny_pairs), "published_folder": str(programs)}


def test_programs_and_pairs_lie_in_one_folder(make_ready, data, tmp_path):
    both = make_ready(data, tmp_path / "dataset.json")
    assert both == tmp_path / json.loads((tmp_path / "dataset.json").read_text())["folder"]
    assert (both / "programs/train.py").read_bytes() == PROGRAM
    assert (both / "pairs/valid/masks").is_dir()


def test_programs_that_were_edited_and_what_they_cannot_be_told_is_refused(make_ready, data, tmp_path):
    (tmp_path / "programs/train.py").write_bytes(PROGRAM + b"#")
    with pytest.raises(DataError, match="is not the published file"):
        make_ready(data, tmp_path / "dataset.json")
    with pytest.raises(ConfigError, match=r"data\.published_folder: must be a folder's path"):
        make_ready(data | {"published_folder": 3}, tmp_path / "dataset.json")
    with pytest.raises(ConfigError, match="train with 256 pixels and 16 filters"):
        make_ready(data | {"pixels": 64}, tmp_path / "dataset.json")


def test_a_published_program_finds_its_modules_pairs_epochs_and_seed(
    make_ready, data, published, tmp_path, monkeypatch, capsys
):
    both = make_ready(data, tmp_path / "dataset.json")
    keras = ModuleType("keras")
    keras.utils = ModuleType("keras.utils")
    keras.utils.set_random_seed = lambda seed: print("seed", seed)
    monkeypatch.setitem(sys.modules, "keras", keras)
    monkeypatch.setenv("SPEEDPROOF_EPOCHS", "2")
    monkeypatch.setenv("SPEEDPROOF_SEED", "7")
    monkeypatch.setattr("sys.argv", ["run_published.py"])
    monkeypatch.setattr("sys.path", list(sys.path))
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path / "run")
    published(both / "programs/train.py")
    runpy.run_path(str(PUBLISHED / "run_published.py"))["main"]("train.py", str(both))
    sys.modules.pop("module_beside_it")
    seed, digest, said = capsys.readouterr().out.splitlines()
    assert seed == "seed 7"
    assert digest == f"train.py: SHA-256 {hashlib.sha256(PROGRAM).hexdigest()}"
    assert said == "['--epochs=3'] found ['data/Kvasir-SEG/train/images/polyp_00000.jpg']"


def test_ours_trains_one_epoch_more_than_is_counted_too(monkeypatch):
    told = []
    monkeypatch.setenv("SPEEDPROOF_EPOCHS", "2")
    monkeypatch.setattr("sys.argv", ["run_ours.py"])
    monkeypatch.setattr(
        "runpy.run_module", lambda name, run_name: told.append((name, *sys.argv[1:], os.environ["SPEEDPROOF_EPOCHS"]))
    )
    runpy.run_path(str(PUBLISHED / "run_ours.py"))["main"]("plain", "/data of mine")
    assert told == [("speedproof_polyp.keras_train", "--variant", "plain", "--data", "/data of mine/pairs", "3")]


@pytest.mark.parametrize(("variant", "metric"), [("published_plain", "dice_coef"), ("optimised", "dice")])
def test_the_first_epoch_is_left_out_and_the_others_last_from_one_validation_to_the_next(variant, metric):
    """What Keras prints on a terminal: a line that each step renews, and what the checkpoint says."""
    clock = LineClock()
    for epoch, at_s in enumerate((40, 53, 67)):
        told = f"loss: 0.8 - {metric}: 0.1"
        clock.take(f"Epoch {epoch + 1}/3\n\r1/2 [==>...] - ETA: 6s - {told}".encode(), at_s - 9)
        clock.take(f"\r2/2 [=====] - ETA: 0s - {told}\nEpoch {epoch + 1}: val_loss improved to 0.7\n".encode(), at_s - 1)
        clock.take(f"\r2/2 [=====] - 13s 6s/step - {told} - val_loss: 0.7 - val_{metric}: 0.{epoch + 3}\n".encode(), at_s)
    marks = read_lines(clock.close(70), find_workload(str(PUBLISHED)).declared.variants[variant].reads)
    assert [(epoch.train_s, epoch.quality) for epoch in marks.epochs] == [(13, 0.4), (14, 0.5)]


def test_the_published_programs_are_known_by_their_digests():
    published = find_published(ROOT / "examples/published.yaml", "gist_polyp")
    variants = find_workload(str(PUBLISHED)).declared.variants
    programs = {variant.command.split()[-2] for name, variant in variants.items() if name.startswith("published")}
    assert programs < published.files.keys()
    assert {"data_generator.py", "m_resunet.py", "metrics.py"} < published.files.keys()  # which they import


def test_the_configuration_is_understood(monkeypatch):
    monkeypatch.chdir(ROOT)
    config = load_config(PUBLISHED / "config.yaml")
    assert config.completed_variants.keys() == set(config.measurement.variants)
