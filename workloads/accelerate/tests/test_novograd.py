"""Novograd in few launches is MONAI's, step by step; with a gradient scaler, too, and across a saved state."""

import torch
from monai.optimizers import Novograd as Monais
from torch import nn

from speedproof_accelerate.novograd import Novograd


def make(kind, **settings):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv3d(1, 3, 3), nn.Tanh(), nn.Conv3d(3, 2, 1))
    return network, kind(network.parameters(), 0.05, **settings)


def step(network, optimizer, number, scale=1.0):
    torch.manual_seed(number)
    optimizer.zero_grad()
    (scale * network(torch.randn(1, 1, 4, 4, 4)).square().sum()).backward()
    optimizer.step()


def assert_same(network, other):
    for one, expected in zip(network.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(one, expected, rtol=1e-5, atol=1e-6)


def test_each_step_is_monais():
    (network, ours), (other, monais) = make(Novograd), make(Monais)
    for number in range(4):
        step(network, ours, number)
        step(other, monais, number)
        assert_same(network, other)


def test_scaled_gradients_are_unscaled_and_an_overflow_changes_nothing():
    (network, ours), (other, monais) = make(Novograd), make(Monais)
    ours.grad_scale, ours.found_inf = torch.tensor(1024.0), torch.tensor(0.0)
    step(network, ours, 0, 1024.0)
    step(other, monais, 0)
    before = [one.clone() for one in (*network.parameters(), ours._means, ours._squares)]
    ours.found_inf = torch.tensor(1.0)
    step(network, ours, 7, float("inf"))
    assert all(
        torch.equal(one, kept) for one, kept in zip((*network.parameters(), ours._means, ours._squares), before, strict=True)
    )
    ours.found_inf = torch.tensor(0.0)
    step(network, ours, 1, 1024.0)
    step(other, monais, 1)
    assert_same(network, other)


def test_a_saved_state_goes_on():
    (network, ours), (other, again) = make(Novograd), make(Novograd)
    step(network, ours, 0)
    other.load_state_dict(network.state_dict())
    again.load_state_dict(ours.state_dict())
    step(network, ours, 1)
    step(other, again, 1)
    assert_same(network, other)
