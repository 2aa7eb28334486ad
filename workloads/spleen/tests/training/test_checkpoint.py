"""A run that was killed goes on from its checkpoint, and comes to the same weights, to the last bit, as one that was not."""

import os
import shutil
import signal

import pandas as pd
import pytest
import torch

from speedproof.api import RUN_FILE, Dataset, TrainingError, find_checkpoint, list_checkpoints, read_epochs, read_run
from speedproof_spleen.segmentation.spleen import Spleen
from speedproof_spleen.training.checkpoint import Checkpoints
from speedproof_spleen.training.run import Request, run_training

DATASET = Dataset(source="local", name="balls", version="1", licence="none", synthetic=True, folder=".", cases=[])
EPOCHS = 4
REQUEST = {"mode": "timed", "round": 0, "seed": 0, "profiler": "none", "fingerprint": "0123"}


class StopAt(torch.nn.Module):
    """A loss that sends a stop signal at its n-th call; a batch of all volumes makes an epoch one call."""

    def __init__(self, loss, call):
        super().__init__()
        self.loss, self.call, self.calls = loss, call, 0

    def forward(self, logits, labels):
        self.calls += 1
        if self.calls == self.call:
            os.kill(os.getpid(), signal.SIGTERM)
        return self.loss(logits, labels)


@pytest.fixture(scope="module")
def config(ci_config):
    """Four epochs, a validation in every one and a checkpoint in every second; worker processes where variants have some.

    In fp32: some processors' bfloat16 convolutions do not even repeat themselves. Networks are narrow: how wide they are
    changes nothing about what is kept.
    """
    values = ci_config.model_dump(mode="json")
    values["variants"]["resident"] = values["variants"]["baseline"] | {
        "cache": "resident",
        "track_meta": False,
        "optimizer": {"name": "adam", "learning_rate": 1e-3, "fused": True},
        "schedule": {"name": "warm_up_decay", "warm_up_epochs": 3, "final": 0.1},
    }
    values["measurement"] |= {"epochs": EPOCHS, "validate_every": 1, "checkpoint_every": 2, "device": "cpu"}
    for variant in values["variants"].values():
        variant |= {"batch_size": 3, "precision": "fp32"}
        variant["network"]["channels"] = [8] * 5
        variant["kernels"] = [name for name in variant["kernels"] if name != "adam"]  # half-precision weights are its point
        variant |= {key: min(variant[key], 1) for key in ("workers", "validation_workers")}
    return type(ci_config).model_validate(values)


@pytest.fixture
def kept(monkeypatch):
    """Leave the last checkpoint of a whole run where it is, so that its weights and random states can be looked at."""
    monkeypatch.setattr(Checkpoints, "remove", lambda self: None)


def train(config, volumes, folder, variant="baseline", **changed):
    return run_training(config, DATASET, volumes, Request(variant=variant, **(REQUEST | changed)), folder)


def interrupt(config, volumes, folder, variant="baseline"):
    """Train until the fourth epoch, with a checkpoint of the second."""
    plain_loss = Spleen.loss
    with pytest.MonkeyPatch.context() as patch, pytest.raises(TrainingError):
        patch.setattr(Spleen, "loss", lambda self: StopAt(plain_loss(self), 4))
        train(config, volumes, folder, variant)


@pytest.fixture(scope="module")
def interrupted_once(config, volumes, tmp_path_factory):
    folder = tmp_path_factory.mktemp("interrupted")
    interrupt(config, volumes, folder)
    return folder


@pytest.fixture
def interrupted(interrupted_once, tmp_path):
    """A copy of an interrupted run."""
    return shutil.copytree(interrupted_once, tmp_path / "interrupted")


def same(one, other):
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return one == other


@pytest.mark.parametrize("variant", ["regular", "baseline", "fast", "fast_tutorial", "resident"])
def test_a_continued_run_comes_to_the_same_state_to_the_last_bit(config, volumes, tmp_path, kept, variant):
    train(config, volumes, tmp_path / "whole", variant)
    interrupt(config, volumes, tmp_path / "broken", variant)
    assert read_epochs(tmp_path / "broken").epoch.tolist() == [1, 2, 3]
    train(config, volumes, tmp_path / "broken", variant)
    whole, broken = (
        torch.load(list_checkpoints(tmp_path / name)[0] / "state.pt", weights_only=True) for name in ("whole", "broken")
    )
    assert list_checkpoints(tmp_path / "whole")[0].name == "4"
    for part, value in whole.items():
        assert same(value, broken[part]), part
    columns = ["epoch", "loss", "quality", "quality_with_background", "steps"]
    pd.testing.assert_frame_equal(read_epochs(tmp_path / "whole")[columns], read_epochs(tmp_path / "broken")[columns])
    assert read_run(tmp_path / "whole").best_quality == read_run(tmp_path / "broken").best_quality
    best = [torch.load(tmp_path / name / "best.pt", weights_only=True) for name in ("whole", "broken")]
    assert same(*best)


def test_the_scale_of_gradients_is_kept(config, volumes, tmp_path, kept):
    values = config.model_dump(mode="json")
    values["variants"]["fast"]["precision"] = "fp16"
    values["measurement"]["epochs"] = 2
    train(type(config).model_validate(values), volumes, tmp_path, "fast")
    state = torch.load(tmp_path / "checkpoints" / "2" / "state.pt", weights_only=True)
    assert state["scaler"]["scale"] > 1


def test_the_record_says_where_and_why_it_was_continued_and_each_epoch_counts_once(config, volumes, interrupted):
    first = read_run(interrupted)
    assert first.outcome == "stopped"
    assert first.continued == []
    run = train(config, volumes, interrupted)
    (part,) = run.continued
    assert (part.first_epoch, part.reason) == (3, "received SIGTERM")
    assert part.start_up_s > 0
    assert part.warm_up_s > 0
    assert (run.start_up_s, run.warm_up_s) == (first.start_up_s, first.warm_up_s)  # of the first process
    epochs = read_epochs(interrupted)
    assert epochs.epoch.tolist() == [1, 2, 3, 4]
    assert run.training_s == pytest.approx((epochs.train_s + epochs.validation_s).sum(), abs=1e-4)
    assert run.process_s > part.start_up_s + run.training_s
    assert not (interrupted / "checkpoints").exists()


def test_a_run_that_was_killed_without_a_word_goes_on_too(config, volumes, interrupted):
    (interrupted / RUN_FILE).unlink()
    (interrupted / "checkpoints" / ".half").mkdir()
    assert train(config, volumes, interrupted).continued[0].reason.startswith("killed without a word")


def test_what_would_measure_something_else_starts_again(config, volumes, interrupted):
    assert find_checkpoint(interrupted, "0123") == interrupted / "checkpoints" / "2"
    assert find_checkpoint(interrupted, "4567") is None
    assert train(config, volumes, interrupted, fingerprint="4567").continued == []
    assert read_epochs(interrupted).epoch.tolist() == [1, 2, 3, 4]


def test_a_run_that_failed_by_itself_starts_again(interrupted):
    record = (interrupted / RUN_FILE).read_text()
    (interrupted / RUN_FILE).write_text(record.replace('"outcome": "stopped"', '"outcome": "not_a_number"'))
    assert find_checkpoint(interrupted, "0123") is None


def test_without_a_fingerprint_nothing_is_kept(config, volumes, tmp_path, monkeypatch, kept):
    train(config, volumes, tmp_path, fingerprint=None)
    assert list_checkpoints(tmp_path) == []


def test_a_cache_that_changes_every_epoch_cannot_be_continued(ci_config):
    values = ci_config.model_dump(mode="json")
    values["measurement"] |= {"checkpoint_every": 2}
    values["variants"]["fast"] |= {"cache": "smart", "cache_rate": 0.5, "loader": "process"}
    with pytest.raises(ValueError, match="checkpoint_every: `fast` exchanges"):
        type(ci_config).model_validate(values)
