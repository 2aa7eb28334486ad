"""However a run ends, its record says so, what was measured is kept, and the command's exit code is not 0."""

import os
import signal

import pytest
import torch

from speedproof.api import Dataset, TrainingError, read_epochs, read_run
from speedproof_spleen.segmentation.spleen import Spleen
from speedproof_spleen.training.run import Request, run_training

DATASET = Dataset(source="local", name="balls", version="1", licence="none", synthetic=True, folder=".", cases=[])


class Disturbed(torch.nn.Module):
    """A loss that disturbs the run at its n-th call: the four patches of an epoch are one call in these runs."""

    def __init__(self, loss, call, disturb):
        super().__init__()
        self.loss, self.call, self.disturb, self.calls = loss, call, disturb, 0

    def forward(self, logits, labels):
        self.calls += 1
        value = self.loss(logits, labels)
        return self.disturb(value) if self.calls == self.call else value


def raise_out_of_memory(_):
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def stop_self(value):
    os.kill(os.getpid(), signal.SIGTERM)
    return value


def raise_other(_):
    raise ValueError("something\nelse")


def kill_worker(_):
    os.kill(os.getpid(), signal.SIGKILL)


def run_disturbed(config, volumes, folder, monkeypatch, disturb, call=2):
    plain_loss = Spleen.loss
    monkeypatch.setattr(Spleen, "loss", lambda self: Disturbed(plain_loss(self), call, disturb))
    with pytest.raises(TrainingError) as caught:
        run_training(config, DATASET, volumes, Request("baseline", "timed", 0, 0, "none"), folder)
    assert "\n" not in str(caught.value)
    assert str(folder / "log.txt") in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("disturb", "outcome", "said"),
    [
        (lambda value: value * float("nan"), "not_a_number", "epoch 2"),
        (raise_out_of_memory, "out_of_memory", "2.00 GiB"),
        (stop_self, "stopped", "SIGTERM"),
        (raise_other, "failed", "ValueError: something else"),
    ],
)
def test_the_record_says_how_a_run_ended(ci_config, volumes, tmp_path, monkeypatch, disturb, outcome, said):
    error = run_disturbed(ci_config, volumes, tmp_path / "run", monkeypatch, disturb)
    run = read_run(tmp_path / "run")
    assert run.outcome == outcome
    assert said in run.reason
    assert said in str(error)
    assert error.exit_code != 0
    assert read_epochs(tmp_path / "run").epoch.tolist() == [1]  # the first epoch was measured, and stays
    assert run.training_s == pytest.approx(read_epochs(tmp_path / "run").train_s.sum(), abs=1e-5)


def test_a_worker_that_died_is_named(ci_config, volumes, tmp_path, monkeypatch):
    values = ci_config.model_dump(mode="json")
    values["variants"]["regular"] |= {"workers": 1, "validation_workers": 0}
    config = type(ci_config).model_validate(values)
    monkeypatch.setattr(Spleen, "training_transform", lambda self: kill_worker)
    with pytest.raises(TrainingError):
        run_training(config, DATASET, volumes, Request("regular", "timed", 0, 0, "none"), tmp_path / "run")
    run = read_run(tmp_path / "run")
    assert run.outcome == "worker_died"
    assert "DataLoader worker" in run.reason


def test_signal_handlers_are_put_back(ci_config, volumes, tmp_path, monkeypatch):
    before = signal.getsignal(signal.SIGTERM)
    run_disturbed(ci_config, volumes, tmp_path / "run", monkeypatch, stop_self, call=1)
    assert signal.getsignal(signal.SIGTERM) is before


def test_too_few_cases_to_train_on(ci_config, volumes, tmp_path):
    with pytest.raises(TrainingError, match="validation_cases"):
        run_training(ci_config, DATASET, volumes[:2], Request("fast", "timed", 0, 0, "none"), tmp_path / "run")
