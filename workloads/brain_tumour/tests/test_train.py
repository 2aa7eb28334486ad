"""Each variant trains an epoch and validates, in this process, on volumes of a few voxels."""

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack, nullcontext
from pathlib import Path

import nibabel
import numpy as np
import pytest
import torch
from monai.data import Dataset
from monai.data.utils import set_rnd
from monai.transforms import Compose, RandFlipd

from speedproof import marks
from speedproof_brain_tumour import phantom, train
from speedproof_brain_tumour.cases import list_cases, split_cases
from speedproof_brain_tumour.variants import STEPS, VARIANTS


@pytest.fixture(scope="session")
def ten_cases(tmp_path_factory):
    """Ten cases: eight train, two validate."""
    folder = tmp_path_factory.mktemp("tumours")
    for name in ("imagesTr", "labelsTr"):
        (folder / name).mkdir()
    for index in range(10):
        phantom.write_case(folder, "tiny", 0, index)
    return describe(folder, folder, 10)


@pytest.fixture(scope="session")
def cases(ten_cases, tmp_path_factory):
    """The first five of them: four train, one validates."""
    return describe(tmp_path_factory.mktemp("five"), ten_cases, 5)


def describe(folder, place, number):
    names = [f"BRATS_{index + 1:03d}.nii.gz" for index in range(number)]
    listed = [{"image": f"{place}/imagesTr/{name}", "label": f"{place}/labelsTr/{name}"} for name in names]
    (folder / "dataset.json").write_text(json.dumps({"training": listed}))
    return folder


@pytest.fixture
def run(cases, tmp_path, monkeypatch):
    """Run the program here as the instrument does, and return its marks."""
    for flag in ("benchmark", "deterministic"):
        monkeypatch.setattr(torch.backends.cudnn, flag, False)  # put back afterwards
    monkeypatch.chdir(tmp_path)  # where the best weights go

    def train_variant(name, *options, epochs=1, **variables):
        told = {marks.FOLDER_VARIABLE: tmp_path, marks.SEED_VARIABLE: 0, marks.EPOCHS_VARIABLE: epochs, **variables}
        for variable, value in told.items():
            monkeypatch.setenv(variable, str(value))
        monkeypatch.setattr(sys, "argv", ["train", "--variant", name, "--data", str(cases), "--filters", "8", *options])
        (tmp_path / marks.MARKS_FILE).unlink(missing_ok=True)
        train.main()
        return [json.loads(line) for line in (tmp_path / marks.MARKS_FILE).read_text().splitlines()]

    return train_variant


@pytest.mark.parametrize("name", [*sorted(VARIANTS.keys() - STEPS.keys()), "turbo"])
def test_each_variant_trains_an_epoch_and_tells_of_it(run, name, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)  # or a whole network goes by the interpreter
    monkeypatch.setitem(
        VARIANTS, name, type(VARIANTS[name])(**{**vars(VARIANTS[name]), "workers": 0})
    )  # no processes in a test
    told = run(name, **{marks.VALIDATE_EVERY_VARIABLE: 1})
    assert [mark["mark"] for mark in told] == ["epoch-begins", "samples", "validation", "quality", "epoch-ends"]
    assert told[1]["value"] == 4 and 0 < told[3]["value"] < 1
    assert torch.backends.cudnn.benchmark and torch.backends.cudnn.deterministic == VARIANTS[name].deterministic


def test_crops_are_as_small_as_the_smallest_case_that_trains(cases, tmp_path):
    image, label = phantom.draw_case((20, 24, 16), 0, 9)
    listed = list_cases(cases)
    for key, voxels in (("image", image), ("label", label)):
        listed[-1] = {**listed[-1], key: str(tmp_path / f"{key}.nii.gz")}
        nibabel.save(nibabel.Nifti1Image(voxels, np.eye(4)), listed[-1][key])
    assert listed[-1] in split_cases(listed)[0]
    trainer = train.Trainer(VARIANTS["cached"], listed, train.Group(torch.device("cpu")), 1, 8)
    assert {tuple(batch["image"].shape[2:]) for batch in trainer.loader} == {(16, 24, 16)}


def test_it_validates_as_often_as_is_wanted(run, monkeypatch):
    monkeypatch.setattr(train.Trainer, "train_epoch", lambda trainer, goes_on: 0.0)
    monkeypatch.setattr(train.Trainer, "validate", lambda trainer: [0.5, 0.6, 0.5, 0.4])
    told = [mark["mark"] for mark in run("cached", epochs=3, **{marks.VALIDATE_EVERY_VARIABLE: 2})]
    assert told.count("epoch-begins") == 3 and told.count("quality") == 1
    assert Path("best_metric_model.pth").stat().st_size > 100_000


def test_the_rate_falls_over_the_scheduled_epochs(run, monkeypatch):
    rates = []

    def note_rate(trainer, goes_on):
        rates.append(trainer.optimizer.param_groups[0]["lr"])
        trainer.optimizer.step()
        trainer.schedule.step()
        return 0.0

    monkeypatch.setattr(train.Trainer, "train_epoch", note_rate)
    run("cached", epochs=2)
    run("cached", "--schedule-epochs", "4", epochs=2)
    assert [rate / rates[0] for rate in rates] == pytest.approx([1, 0.5, 1, 0.5 + 0.5**1.5])


def test_one_seed_gives_one_result(run):
    first, again = (run("cached", **{marks.VALIDATE_EVERY_VARIABLE: 1})[3]["value"] for _ in range(2))
    assert first == pytest.approx(again, abs=1e-6)


@pytest.mark.parametrize("option", ["--epochs", "--validate-every", "--filters", "--accumulate"])
def test_a_number_below_one_is_refused(option, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["train", "--variant", "fast", "--data", "nowhere", option, "0"])
    with pytest.raises(SystemExit, match="2"):
        train.main()
    assert f"argument {option}: 0 is below 1" in capsys.readouterr().err


def test_a_batch_made_ahead_is_the_one_that_comes(run, monkeypatch, capsys):
    def read_losses():
        run("read_once", epochs=3, **{marks.VALIDATE_EVERY_VARIABLE: 2})
        return [line for line in capsys.readouterr().out.splitlines() if line.startswith("epoch")]

    ahead, train_epoch, asked = read_losses(), train.Trainer.train_epoch, []
    monkeypatch.setattr(train.Trainer, "train_epoch", lambda self, goes_on: asked.append(goes_on) or train_epoch(self, False))
    assert read_losses() == ahead and asked == [True, False, False]


def test_a_loaders_seed_leaves_the_transforms_as_they_are():
    """So it does in MONAI's DecathlonDataset, by which the published programs' losses are ours."""
    flip = RandFlipd("image", prob=0.5)
    chain = Compose([flip])
    before = flip.R.get_state()[1].tolist()
    set_rnd(train.SeededOnce([], chain, cache_rate=0.0), seed=9)
    assert flip.R.get_state()[1].tolist() == before
    set_rnd(Dataset([], chain), seed=9)
    assert flip.R.get_state()[1].tolist() != before


# One training after the other, each with a folder and a number of epochs of its own: to import torch and MONAI takes seconds.
TRAIN_EACH = """
import json, os, sys
from speedproof_brain_tumour.train import main

for variables, words in json.loads(sys.argv[1]):
    os.environ |= variables
    sys.argv = ["train", *words]
    print("trains", flush=True)
    main()
"""


def find_free_ports(number):
    """Return that many: on one that was used before, a rank may find the other's previous store."""
    with ExitStack() as kept:
        sockets = [kept.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("localhost", 0))
        return [str(each.getsockname()[1]) for each in sockets]


@pytest.fixture(scope="module")
def trained_ranks(ten_cases, tmp_path_factory):
    """Train in two processes as torchrun starts them: four cases train in each, and one validates.

    The result has the marks of each training, and what each process printed, by the variant and the accumulated batches.
    """
    folder = tmp_path_factory.mktemp("ranks")
    trainings = [("fast", "1"), *((name, accumulate) for accumulate in ("1", "2") for name in ("kernels", "turbo"))]
    given = []
    for (name, accumulate), port in zip(trainings, find_free_ports(len(trainings)), strict=True):
        place, epochs = folder / f"{name}-{accumulate}", "1" if name == "fast" else "2"
        place.mkdir()
        told = {marks.FOLDER_VARIABLE: str(place), marks.EPOCHS_VARIABLE: epochs, marks.VALIDATE_EVERY_VARIABLE: epochs}
        words = ["--data", str(ten_cases), "--filters", "8", "--variant", name, "--accumulate", accumulate]
        given.append(({**told, marks.SEED_VARIABLE: "0", "MASTER_PORT": port}, words))
    started = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "PYTHONPATH": os.pathsep.join(sys.path)}
    environ = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"} | started
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", TRAIN_EACH, json.dumps(given)],
            env=environ | {"RANK": rank, "LOCAL_RANK": rank},
            cwd=folder,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in ("0", "1")
    ]
    printed = [process.communicate(timeout=300)[0].split("trains\n")[1:] for process in ranks]
    assert [process.returncode for process in ranks] == [0, 0]
    found = {}
    for training, *said in zip(trainings, *printed, strict=True):
        lines = (folder / "-".join(training) / marks.MARKS_FILE).read_text().splitlines()
        found[training] = [json.loads(line) for line in lines], said
    return found


@pytest.mark.dear
def test_two_ranks_train_on_their_shares_and_the_first_tells(trained_ranks):
    """The Dice is that of both."""
    written, printed = trained_ranks["fast", "1"]
    assert printed[0].startswith("epoch 1/1: loss ") and printed[1] == ""
    assert [mark["mark"] for mark in written] == ["epoch-begins", "samples", "validation", "quality", "epoch-ends"]
    assert written[1]["value"] == 8


@pytest.mark.dear
@pytest.mark.parametrize("accumulate", ["1", "2"])
def test_turbo_averages_gradients_as_torch_does(trained_ranks, accumulate):
    """Without a GPU, `kernels` and `turbo` differ only in who averages."""
    by_torch, ours = (
        [line for line in trained_ranks[name, accumulate][1][0].splitlines() if "loss" in line] for name in ("kernels", "turbo")
    )
    assert ours == by_torch and len(ours) == 2


def test_gradients_of_a_step_are_the_mean_of_its_batches(cases):
    trainer = train.Trainer(VARIANTS["cached"], list_cases(cases), train.Group(torch.device("cpu"), accumulate=2), 1, 8)
    trainer.model.eval()  # no dropout
    batches = [batch for batch, _ in zip(trainer._batches(trainer.loader, "dataload"), range(2), strict=False)]
    (leaf,) = (value for name, value in trainer.model.named_parameters() if name == "conv_final.2.conv.weight")
    single = []
    for batch in batches:
        trainer.optimizer.zero_grad()
        trainer.loss(trainer.model(batch[0]), batch[1]).backward()
        single.append(leaf.grad.clone())
    trainer.optimizer.zero_grad(set_to_none=False)
    for batch in batches:
        trainer.add_gradients(*batch, last=False)
    torch.testing.assert_close(leaf.grad, sum(single) / 2)


def test_batches_that_make_no_whole_step_are_refused_in_one_line(run):
    with pytest.raises(SystemExit, match=r"^--accumulate 3 does not divide the 4 batches of a rank's epoch$"):
        run("cached", "--accumulate", "3")


def test_more_ranks_than_cases_that_validate_are_refused_in_one_line(ten_cases, monkeypatch):
    monkeypatch.setattr(train, "joined_group", lambda _: nullcontext())
    monkeypatch.setenv("WORLD_SIZE", "3")
    monkeypatch.setattr(sys, "argv", ["train", "--variant", "fast", "--data", str(ten_cases)])
    with pytest.raises(SystemExit, match=r"^2 cases validate, and 3 ranks train: each needs one; train on fewer GPUs$"):
        train.main()
