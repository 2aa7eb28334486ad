"""Gradients of several precisions and layouts, whose means over two ranks are taken in pieces.

The other rank is made up: its gradients are three times this one's, so that the mean is twice this one's. Two real ranks:
test_ranks.py.
"""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from speedproof_accelerate import averaging
from speedproof_accelerate.averaging import add_shares, begin_to_add, collect_from, collect_gradients

FIRST_BYTES, LAST_BYTES = 4 * 2 * 27 * 2 + 4 * 4, 2 * 4 * 27 * 2 + 2 * 4  # half weights, and biases of 4 bytes


@pytest.fixture
def sent(monkeypatch):
    """What has been added up so far: precision and length."""
    sent = []

    def add_the_other(values, async_op=False):
        sent.append((values.dtype, len(values)))
        values.mul_(4)
        return SimpleNamespace(wait=lambda: None) if async_op else None

    monkeypatch.setattr(averaging, "dist", SimpleNamespace(get_world_size=lambda: 2, all_reduce=add_the_other))
    return sent


def two_layers():
    """Weights in bfloat16, channels last, and biases in fp32; a weight that takes no part."""
    layers = nn.Sequential(nn.Conv3d(2, 4, 3), nn.Conv3d(4, 2, 3))
    layers[0].unused = nn.Parameter(torch.ones(3))
    for layer in layers:
        layer.weight = nn.Parameter(layer.weight.detach().to(torch.bfloat16, memory_format=torch.channels_last_3d))
    return layers


def lose(layers):
    values = torch.linspace(-1, 1, 2 * 6**3).reshape(1, 2, 6, 6, 6)
    for layer in layers:
        values = nn.functional.conv3d(values, layer.weight.float(), layer.bias).tanh()
    return values.square().sum()


BY_PRECISION = [(torch.bfloat16, 2 * 216), (torch.float32, 6)]


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        (0.0, BY_PRECISION),
        (LAST_BYTES / (FIRST_BYTES + LAST_BYTES + 12), [(torch.bfloat16, 216), (torch.float32, 2), (torch.float32, 216 + 4)]),
        (0.999, BY_PRECISION),  # what takes no part never comes, so nothing is sent within the pass
    ],
    ids=["behind the pass", "the last layer's within it", "more than ever comes"],
)
def test_gradients_become_the_mean_over_ranks_in_their_own_precision(sent, overlap, expected):
    layers, begun = two_layers(), []
    leaves = list(layers.parameters())
    used = [leaf for leaf in leaves if leaf is not layers[0].unused]
    own = torch.autograd.grad(lose(layers), used)
    late = collect_from(
        lose(layers).backward, leaves, overlap, lambda early: begun.extend(begin_to_add(collect_gradients(early)))
    )
    add_shares(late, begun)
    for leaf, gradient in zip(used, own, strict=True):
        torch.testing.assert_close(leaf.grad, 2 * gradient, rtol=0, atol=0)
        assert leaf.grad.stride() == leaf.stride()
    assert layers[0].unused.grad is None
    assert sorted(sent, key=str) == sorted(expected, key=str)
