"""The learning rate of each step: its values, and that optimizers and a continued graph see them."""

import math
import warnings

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW

from speedproof_accelerate.step import Precision
from speedproof_spleen.training.schedule import Schedule, share_at
from speedproof_spleen.training.techniques import build_optimizer
from speedproof_spleen.variant import SpleenVariant, WarmUpDecay

VARIANT = {"title": "One", "batch_size": 1, "epochs": 5, "validate_every": 1}
ADAM = {"name": "adam", "learning_rate": 0.5}


def make_variant(optimizer=ADAM, schedule=None):
    return SpleenVariant.model_validate(VARIANT | {"optimizer": optimizer} | ({"schedule": schedule} if schedule else {}))


def shares(steps, **schedule):
    """Return the shares at the steps of five epochs of two steps."""
    return [share_at(step, WarmUpDecay(**schedule), steps_per_epoch=2, epochs=5) for step in steps]


def test_it_rises_in_equal_parts_then_falls_along_a_line():
    # Four steps of warm-up, six of decay from 1 to 0.4, in tenths.
    expected = [0.2, 0.4, 0.6, 0.8, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4]
    assert shares(range(11), warm_up_epochs=2, shape="linear", final=0.4) == pytest.approx(expected)


def test_half_a_cosine_is_flat_at_both_ends():
    # Decay over six steps: cos of 0°, 60°, 120° and 180° at every second one.
    assert shares([4, 6, 8, 10], warm_up_epochs=2) == pytest.approx([1, 0.75, 0.25, 0])
    assert shares([4, 6, 8, 10], warm_up_epochs=2, final=0.2) == pytest.approx([1, 0.8, 0.4, 0.2])
    assert shares([5], warm_up_epochs=2) == pytest.approx([(1 + math.sqrt(3) / 2) / 2])


def test_without_a_warm_up_it_begins_at_the_full_rate_and_after_the_end_it_stays():
    assert shares([0, 5, 10, 11], warm_up_epochs=0, shape="linear", final=0.5) == pytest.approx([1, 0.75, 0.5, 0.5])


def test_a_run_no_longer_than_its_warm_up_only_rises():
    assert shares([0, 9], warm_up_epochs=5) == pytest.approx([1 / 11, 10 / 11])


@pytest.mark.parametrize("fused", [False, True])
def test_each_step_is_taken_at_its_own_rate(fused):
    """Adam's first steps under an unchanging gradient are as long as the rate, whatever the gradient."""
    variant = make_variant(ADAM | {"fused": fused}, {"name": "warm_up_decay", "warm_up_epochs": 1, "shape": "linear"})
    network = nn.Linear(1, 1, bias=False)
    optimizer = build_optimizer(variant, network)
    schedule = Schedule(variant, optimizer, steps_per_epoch=1, epochs=3)
    before, lengths = network.weight.item(), []
    for _ in range(3):
        network.weight.grad = torch.ones(1, 1)
        optimizer.step()
        schedule.step()
        lengths.append(before - network.weight.item())
        before = network.weight.item()
    assert lengths == pytest.approx([0.25, 0.5, 0.25], rel=1e-4)


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_what_reads_its_rate_on_the_device_keeps_one_tensor(name):
    variant = make_variant({"name": name, "learning_rate": 0.5, "fused": True}, {"name": "warm_up_decay", "warm_up_epochs": 1})
    optimizer = build_optimizer(variant, nn.Linear(1, 1))
    schedule = Schedule(variant, optimizer, steps_per_epoch=1, epochs=2)
    rate = optimizer.param_groups[0]["lr"]
    assert (rate.shape, rate.item()) == ((), 0.25)
    schedule.step()
    assert optimizer.param_groups[0]["lr"] is rate
    assert rate.item() == 0.5


def test_a_constant_rate_is_left_alone():
    variant = make_variant(ADAM | {"fused": True})
    optimizer = build_optimizer(variant, nn.Linear(1, 1))
    schedule = Schedule(variant, optimizer, steps_per_epoch=1, epochs=2)
    schedule.step()
    assert optimizer.param_groups[0]["lr"] == 0.5
    assert not isinstance(optimizer.param_groups[0]["lr"], torch.Tensor)


def test_a_step_that_the_scaler_leaves_out_is_counted_without_a_warning():
    variant = make_variant(schedule={"name": "warm_up_decay", "warm_up_epochs": 1})
    network = nn.Linear(1, 1)
    optimizer = build_optimizer(variant, network)
    schedule = Schedule(variant, optimizer, steps_per_epoch=1, epochs=2)
    precision = Precision(torch.device("cpu"), torch.bfloat16, torch.amp.GradScaler("cpu"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        precision.backward(network(torch.full((1, 1), torch.inf)).sum())
        precision.update(optimizer)
        schedule.step()
    assert optimizer.param_groups[0]["lr"] == 0.5


@pytest.mark.parametrize(
    ("optimizer", "kind", "settings"),
    [
        ({"name": "adam", "betas": [0.8, 0.9]}, Adam, {"betas": (0.8, 0.9), "weight_decay": 0}),
        ({"name": "adamw"}, AdamW, {"betas": (0.9, 0.999), "weight_decay": 0.01, "fused": False}),
        ({"name": "adamw", "weight_decay": 0.1, "fused": True}, AdamW, {"weight_decay": 0.1, "fused": True}),
        ({"name": "sgd", "momentum": 0.9, "nesterov": True}, SGD, {"momentum": 0.9, "nesterov": True}),
    ],
)
def test_optimizers_are_built_as_their_settings_say(optimizer, kind, settings):
    built = build_optimizer(make_variant(optimizer | {"learning_rate": 0.5}), nn.Linear(1, 1))
    assert type(built) is kind
    assert (settings | {"lr": 0.5}).items() <= built.param_groups[0].items()
