"""A recorded network's weights are rounded in one launch, if nothing but convolutions and linear layers reads them."""

import pytest
import torch
from monai.networks.nets import UNet
from torch import nn

from speedproof_accelerate import accelerate
from speedproof_accelerate.graphing import computes_alone
from speedproof_accelerate.measuring import fresh_parameters
from speedproof_accelerate.parts import PaddedConvolution
from speedproof_accelerate.residual_unit import PairedUnit
from speedproof_accelerate.rounding import Rounded, find_rounded


class Own(nn.Linear):
    """A layer that may compute in another way than torch's."""


def test_weights_are_rounded_and_gradients_widened_in_one_launch_each(monkeypatch):
    network = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Linear(2, 2), nn.Linear(2, 2, bias=False), nn.PReLU(), Own(2, 2))
    network[2].weight = network[1].weight
    first, second = network[0].weight, network[1].weight
    assert [*map(id, find_rounded(network))] == [id(first), id(second)]
    rounded = Rounded.of(network, torch.float16)
    copies = rounded.find()
    assert [one.dtype for one in copies.values()] == [torch.float16] * 2
    launches, own = [], torch._foreach_copy_
    monkeypatch.setattr(torch, "_foreach_copy_", lambda *given: (launches.append(len(given[0])), own(*given)))
    with torch.no_grad():
        first.fill_(1 / 3)
    rounded.round()
    assert torch.equal(copies[id(first)], first.half())
    given = [copies[id(second)], network[1].bias, copies[id(first)]]
    gradients = [torch.full((2, 2), 0.5, dtype=torch.float16), torch.ones(2), None]
    found = rounded.widen(given, gradients)
    assert found[0].dtype == torch.float32 and found[0].tolist() == [[0.5, 0.5]] * 2
    assert found[1] is gradients[1] and found[2] is None
    assert launches == [2, 1]
    assert Rounded.of(network, None).find() == {}


def test_a_weight_that_others_read_too_is_not_rounded():
    network = nn.Sequential(nn.Linear(2, 2), nn.Embedding(2, 2), nn.Linear(2, 2).double())
    network[1].weight = network[0].weight
    assert find_rounded(network) == []


class Reading(nn.Module):
    """A network that does something with a weight besides the convolution."""

    def __init__(self, how):
        super().__init__()
        self.body, self.how = nn.Conv2d(2, 8, 3), how

    def forward(self, x):
        weight = self.body.weight
        if self.how == "standardizes":
            return torch.conv2d(x, weight - weight.mean())
        if self.how == "changes":
            with torch.no_grad():
                weight.clamp_(-0.01, 0.01)
        if self.how == "follows its precision":
            with torch.autocast("cpu", enabled=False):
                return self.body(x.to(weight.dtype))
        if self.how == "hides from autocast":
            with torch.autocast("cpu", enabled=False):
                return self.body(x)
        beside = {
            "penalizes": lambda: (weight * weight).sum(),
            "joins": lambda: torch.cat([weight]).sum(),
            "returns": lambda: weight,
        }
        return [self.body(x), *(compute() for how, compute in beside.items() if how == self.how)]


WAYS = "penalizes", "joins", "returns", "standardizes", "changes", "follows its precision", "hides from autocast"


@pytest.mark.parametrize("how", ["convolves", *WAYS])
def test_weights_that_a_network_reads_itself_are_not_rounded(how):
    network = Reading(how)
    rounded = Rounded.of(network, torch.float16)
    formers = list(network.parameters())
    with fresh_parameters(network, rounded.find()) as fresh, torch.autocast("cpu", torch.float16):
        watched = rounded.watch(network.forward)
        assert computes_alone(watched, torch.rand(1, 2, 4, 4), formers, fresh) == (how == "convolves")


@pytest.mark.usefixtures("interpreted")
def test_parts_read_weights_that_are_rounded():
    """Padded ones, two that are convolved as one, and torch's own."""
    network = UNet(2, 1, 2, (8, 16), (2,), num_res_units=2)
    accelerate(network, precision=torch.float16)
    assert {PaddedConvolution, PairedUnit} <= {type(one) for one in network.modules()}
    rounded = Rounded.of(network, torch.float16)
    formers, read = list(network.parameters()), rounded.find()
    assert {id(one) for name, one in network.named_parameters() if "conv.unit0.conv.weight" in name} & set(read)
    with fresh_parameters(network, read) as fresh, torch.autocast("cpu", torch.float16):
        assert computes_alone(rounded.watch(network.forward), torch.rand(1, 1, 4, 4), formers, fresh)
