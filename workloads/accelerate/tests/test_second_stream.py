"""Gradients of weights that a recorded pass computes on a second stream are those of the plain pass."""

import copy
from contextlib import nullcontext

import pytest
import torch
from monai.networks.nets import BasicUNet, SegResNet, UNet
from torch import nn
from torch.autograd import Function
from torch.nn import functional

from speedproof_accelerate import accelerate, graphing
from speedproof_accelerate.kernels.autograd import refuse_double_backward
from speedproof_accelerate.kernels.second_stream import SecondStream, beside, compute_beside

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU: streams run on one")


class Stream:
    """A stream that counts how often it waits for another."""

    waits = 0

    def wait_stream(self, _):
        self.waits += 1

    @staticmethod
    def fail(_):
        raise RuntimeError("the capture was ended by an earlier error")


@pytest.fixture
def streams(monkeypatch):
    """Two streams that are none of a GPU's."""
    monkeypatch.setattr(torch.cuda, "stream", lambda _: nullcontext())
    return Stream(), Stream()


class Tied(nn.Module):
    """A convolution's weights, used twice, normalized, joined and taken apart."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv3d(2, 2, 3, padding=1), nn.ConvTranspose3d(2, 2, 2, 2)
        self.last = nn.Linear(2, 2)

    def forward(self, x):
        weight = self.first.weight
        y = self.first(x) + functional.conv3d(x, weight / weight.norm(), padding=1)
        y = functional.conv3d(y, torch.cat([weight, 2 * weight]), padding=1).chunk(2, dim=1)[1]
        return self.last(self.second(y).movedim(1, -1))


class Passing(Function):
    """A kernel that passes a weight on."""

    @staticmethod
    def forward(ctx, weight):
        return weight.clone()

    @staticmethod
    @refuse_double_backward
    def backward(ctx, gradient):
        return gradient.clone()


def differentiate(network, x):
    """Return the gradients of a network's weights and of its batch."""
    x = x.clone().requires_grad_()
    return torch.autograd.grad(network(x).square().sum(), [x, *network.parameters()])


@pytest.mark.parametrize(
    "network",
    [
        lambda: Tied().double(),
        lambda: UNet(3, 1, 2, (4, 8, 8), (2, 2), num_res_units=2).double(),
        lambda: nn.Sequential(*(nn.Conv3d(1, 1, 3, padding=1) for _ in range(9))).double(),
    ],
)
def test_gradients_are_those_of_one_stream(network, streams):
    torch.manual_seed(1)
    network = network()
    x = torch.rand(2, network.first.in_channels if isinstance(network, Tied) else 1, 8, 8, 8, dtype=torch.float64)
    expected, (first, second) = differentiate(network, x), streams
    with SecondStream(first, second):
        found = differentiate(network, x)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    convolutions = sum(isinstance(one, nn.Conv3d | nn.ConvTranspose3d) for one in network.modules())
    assert second.waits >= convolutions
    assert first.waits == 1, "the first stream waits at the end, and not before"


def test_a_kernel_that_reads_a_gradient_of_weights_waits_for_it(streams):
    weight, (first, _) = torch.rand(1, 1, 3, 3, 3, requires_grad=True), streams
    with SecondStream(*streams):
        functional.conv3d(torch.rand(1, 1, 4, 4, 4), Passing.apply(weight)).sum().backward()
        assert first.waits == 1
    assert weight.grad is not None


class Foreign(Function):
    """A function of a network that is not ours."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def test_a_pass_with_a_function_from_elsewhere_has_one_stream(streams):
    weight = torch.rand(1, 1, 3, 3, 3, requires_grad=True)
    for given, expected in ((weight, SecondStream), (Foreign.apply(weight), nullcontext)):
        outs = [functional.conv3d(torch.rand(1, 1, 4, 4, 4), given), torch.rand(2)]
        assert isinstance(beside(outs, *streams), expected)


def test_kernels_of_ours_are_not_from_elsewhere(streams, monkeypatch):
    monkeypatch.setattr(Passing, "__module__", "speedproof_accelerate.kernels.passing")
    assert isinstance(beside([Passing.apply(torch.rand(2, requires_grad=True))], *streams), SecondStream)


def test_a_failure_is_not_hidden_by_a_recording_that_has_ended(streams):
    first, second = streams
    first.wait_stream = Stream.fail
    weight = torch.rand(1, 1, 3, 3, 3, requires_grad=True)
    with pytest.raises(KeyError), SecondStream(first, second):
        functional.conv3d(torch.rand(1, 1, 4, 4, 4), weight).sum().backward()
        raise KeyError
    with pytest.raises(RuntimeError, match="capture"), SecondStream(first, second):
        functional.conv3d(torch.rand(1, 1, 4, 4, 4), weight).sum().backward()


def test_without_a_second_stream_a_function_is_only_called():
    one = torch.rand(2)
    assert torch.equal(compute_beside(lambda: one + 1, one), one + 1)


def test_a_pass_without_weights_leaves_the_streams_alone(streams):
    with SecondStream(*streams):
        torch.rand(2, requires_grad=True).sum().backward()
    assert not any(one.waits for one in streams)


NETWORKS = {
    "UNet": (lambda: UNet(3, 1, 2, (16, 32, 64, 128), (2, 2, 2), num_res_units=2, norm="batch"), (4, 1, 32, 32, 32)),
    "UNet of images": (lambda: UNet(2, 3, 2, (16, 32, 64), (2, 2), num_res_units=2), (4, 3, 64, 64)),
    "BasicUNet": (lambda: BasicUNet(3, 1, 2, (32, 32, 64, 128, 256, 32)), (2, 1, 32, 32, 32)),
    "SegResNet": (lambda: SegResNet(3, init_filters=8, in_channels=4, out_channels=3), (1, 4, 32, 32, 32)),
}


@gpu
@pytest.mark.parametrize("name", NETWORKS)
def test_a_recording_gives_the_same_gradients_each_time(name, monkeypatch):
    """One that lost a race would differ, and from a recording on one stream, too."""
    make, shape = NETWORKS[name]
    torch.manual_seed(1)
    network, images = make().cuda(), torch.rand(shape, device="cuda")
    single = copy.deepcopy(network)
    options = {"example": images, "graphs": True, "compare": False, "remember": False}
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    accelerate(network, **options)
    monkeypatch.setattr(graphing, "beside", lambda *_: nullcontext())
    accelerate(single, **options)
    expected = differentiate_in_half(single, images)
    for _ in range(20):
        for one, other in zip(differentiate_in_half(network, images), expected, strict=True):
            assert torch.equal(one, other)


def differentiate_in_half(network, images):
    with torch.autocast("cuda", torch.float16):
        result = network(images)
    network.zero_grad()
    result.float().square().mean().backward()
    return [one.grad.clone() for one in network.parameters() if one.grad is not None]
