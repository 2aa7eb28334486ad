"""A sequence of torch's omits the biases that the norm behind them subtracts, and no others."""

import copy

import pytest
import torch
from monai.networks.blocks import Convolution
from torch import nn

from speedproof_accelerate import accelerate
from speedproof_accelerate.bias_free import BiasFreeSequence
from workloads.accelerate.tests.test_accelerate import vary
from workloads.spleen.tests.training.kernel_checks import DEVICE, FP32, assert_close

pytestmark = pytest.mark.usefixtures("interpreted", "full_products")


def convolve(**settings):
    return nn.Conv2d(3, 3, 3, padding=1, **settings)


def differentiate_all(network, images):
    out = network(images)
    torch.manual_seed(1)
    out.backward(torch.randn(out.shape).to(out))
    return [out, *(parameter.grad for parameter in network.parameters())]


def test_a_sequence_of_two_norms_and_a_shared_activation_is_itself():
    act = nn.LeakyReLU(0.1)
    sequence = nn.Sequential(convolve(), nn.InstanceNorm2d(3, affine=True), act, convolve(), nn.BatchNorm2d(3), act, convolve())
    plain = vary(nn.Sequential(sequence))
    fast = copy.deepcopy(plain).to(DEVICE)
    accelerate(fast, precision=None)
    assert isinstance(fast[0], BiasFreeSequence)
    images = torch.randn(2, 3, 5, 4)
    found, expected = differentiate_all(fast, images.to(DEVICE)), differentiate_all(plain.double(), images.double())
    assert_close(found, expected, 16 * FP32 * max(float(one.abs().max()) for one in expected))
    assert_close([fast[0][4].running_mean], [plain[0][4].running_mean], FP32)
    biases = [fast[0][number].bias.grad.abs().max().item() for number in (0, 3, 6)]
    assert biases[:2] == [0, 0]
    assert biases[2] > 0


@pytest.mark.parametrize(
    "modules",
    [
        (convolve(bias=False), nn.InstanceNorm2d(3)),
        (convolve(padding_mode="reflect"), nn.InstanceNorm2d(3)),
        (convolve(), nn.GroupNorm(1, 3)),
        (convolve(), nn.ReLU(), nn.InstanceNorm2d(3)),
    ],
    ids=["no bias", "another padding", "a norm over channels", "an activation between"],
)
def test_a_sequence_without_such_a_bias_stays(modules):
    network = nn.Sequential(nn.Sequential(*modules))
    accelerate(network, precision=None)
    assert type(network[0]) is nn.Sequential


def test_a_sequence_with_a_hook_stays():
    network = nn.Sequential(nn.Sequential(convolve(), nn.InstanceNorm2d(3)))
    network[0].register_forward_hook(lambda *_: None)
    accelerate(network, precision=None)
    assert type(network[0]) is nn.Sequential


def test_where_torch_has_the_norm_the_convolution_adds_its_bias(monkeypatch):
    network = nn.Sequential(nn.Sequential(convolve(), nn.InstanceNorm2d(3))).to(DEVICE)
    accelerate(network, precision=None)
    images = torch.randn(1, 3, 4, 4, device=DEVICE)
    expected = network(images)
    network[0][1].own_because = "torch's own is faster"
    monkeypatch.setattr("speedproof_accelerate.bias_free.convolve_without_bias", None)
    assert_close([network(images)], [expected], FP32)


def test_a_slice_of_such_a_sequence_computes_its_modules():
    sequence = nn.Sequential()
    for name, one in {"conv": convolve(), "norm": nn.InstanceNorm2d(3), "act": nn.ReLU(), "last": convolve()}.items():
        sequence.add_module(name, one)
    images = torch.randn(2, 3, 5, 4)
    expected = sequence[:3](images)
    network = nn.Sequential(sequence).to(DEVICE)
    accelerate(network, precision=None)
    assert isinstance(network[0], BiasFreeSequence)
    torch.testing.assert_close(network[0][:3](images.to(DEVICE)).cpu(), expected, rtol=1e-3, atol=1e-3)
    assert [name for name, _ in network[0][1:].named_children()] == ["norm", "act", "last"]


class Doubling(nn.Module):
    """Wraps a convolution, as an adapter does."""

    def __init__(self, wrapped):
        super().__init__()
        self.wrapped, self.weight, self.bias = wrapped, wrapped.weight, wrapped.bias

    def forward(self, x):
        return 2 * self.wrapped(x)


@pytest.mark.parametrize("other", [Doubling, lambda _: nn.Identity()], ids=["an adapter", "nothing"])
@pytest.mark.parametrize("make", [lambda: nn.Sequential(convolve(), nn.BatchNorm2d(3)), lambda: Convolution(2, 3, 3)])
def test_a_convolution_that_is_exchanged_later_is_called(make, other):
    network = nn.Sequential(make()).to(DEVICE)
    accelerate(network, precision=None)
    convolution = next(iter(network[0].children()))
    network[0]._modules[next(iter(network[0]._modules))] = other(convolution)
    images = torch.randn(2, 3, 5, 4, device=DEVICE)
    expected = images
    for one in network[0].children():
        expected = one(expected)
    torch.testing.assert_close(network.train()(images), expected, rtol=1e-3, atol=1e-3)
