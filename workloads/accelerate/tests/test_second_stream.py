"""Gradients of weights that a recorded pass computes on a second stream are those of the plain pass."""

import copy
import subprocess
import sys
from contextlib import nullcontext

import pytest
import torch
from monai.networks.nets import AttentionUnet, BasicUNet, DynUNet, HighResNet, SegResNet, UNet
from torch import nn
from torch.autograd import Function
from torch.nn import functional
from torch.nn.utils import parametrizations
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils.checkpoint import checkpoint

from speedproof_accelerate import accelerate, graphing
from speedproof_accelerate.kernels.autograd import refuse_double_backward
from speedproof_accelerate.kernels.second_stream import SecondStream, beside, compute_beside

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU: streams run on one")


class Stream:
    """A stream that counts how often it waits for another."""

    waits, device = 0, None

    def wait_stream(self, _):
        self.waits += 1

    @staticmethod
    def fail(_):
        raise RuntimeError("the capture was ended by an earlier error")


@pytest.fixture
def streams(monkeypatch):
    """Two streams that are none of a GPU's."""
    monkeypatch.setattr(torch.cuda, "stream", lambda _: nullcontext())
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (2**30, 2**31))
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


def test_the_first_stream_waits_if_much_is_kept(streams):
    network, (first, _) = nn.Sequential(*(nn.Conv3d(1, 1, 3, padding=1) for _ in range(9))), streams
    x = torch.rand(1, 1, 8, 8, 8)
    expected = differentiate(network, x)
    with SecondStream(*streams, most=12_600):  # each convolution reads two volumes of 2048 bytes and 108 bytes of weights
        found = differentiate(network, x)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert first.waits == 3, "it waits after each third convolution"


def test_a_kernel_that_reads_a_gradient_of_weights_waits_for_it(streams):
    weight, (first, _) = torch.rand(1, 1, 3, 3, 3, requires_grad=True), streams
    with SecondStream(*streams):
        functional.conv3d(torch.rand(1, 1, 4, 4, 4), Passing.apply(weight)).sum().backward()
        assert first.waits == 1
    assert weight.grad is not None


class Delayed(SecondStream):
    """Computes at once, but hides what the second stream writes until the first one waits: meanwhile each byte is 255.

    Floating-point numbers are then not a number. It also finds memory that the first stream changes while the second reads it.
    """

    def __init__(self, *streams):
        super().__init__(*streams)
        self.hidden, self.read = {}, {}

    def compute(self, work, read, changed=()):
        former, self._computes = self._computes, True
        self.show()
        before = {address: (memory, memory.clone()) for address, memory in map(find_memory, read) if address}
        made = super().compute(work, read, changed)
        self._computes = True
        written = dict(map(find_memory, list_pieces(made)))
        written |= {address: memory for address, (memory, values) in before.items() if not torch.equal(memory, values)}
        self.read = before | self.read
        for address, memory in (written | {address: memory for address, (memory, _) in self.hidden.items()}).items():
            self.hidden[address] = memory, memory.clone()
            self.read.pop(address, None)
            memory.fill_(255)
        self._computes = former
        return made

    def join(self):
        super().join()
        self._computes = True
        self.show()
        self.hidden.clear()
        assert all(torch.equal(memory, values) for memory, values in self.read.values()), "overwritten while it is read"
        self.read.clear()
        self._computes = False

    def show(self):
        for memory, values in self.hidden.values():
            assert bool((memory == 255).all()), "both streams write"
            memory.copy_(values)


def find_memory(one):
    memory = one.untyped_storage()
    return memory.data_ptr(), torch.empty(0, dtype=torch.uint8).set_(memory)


def list_pieces(made):
    """Return the dense tensors of what an operation returns."""
    tensors = [one for one in (made if isinstance(made, tuple | list) else [made]) if isinstance(one, torch.Tensor)]
    return [piece for one in tensors for piece in ((one._indices(), one._values()) if one.is_sparse else (one,))]


class Calling(nn.Module):
    """A module that is a function of modules or parameters, and of x."""

    def __init__(self, function, *parts):
        super().__init__()
        self.function = function
        for number, part in enumerate(parts):
            setattr(self, str(number), part)
        self.parts = parts

    def forward(self, x):
        return self.function(x, *self.parts)


def convolve(x, weight):
    return functional.conv3d(x, weight, padding=1)


def conv():
    return nn.Conv3d(2, 2, 3, padding=1)


def parameter(*shape):
    return nn.Parameter(torch.randn(shape))


def hooked(change):
    """Return a convolution to which a parameter is added whose gradient, once it is there, is changed."""
    places, conv3d = parameter(2, 8, 8, 8), conv()
    for one in (places, conv3d.weight):
        one.total = torch.zeros_like(one)
        one.register_post_accumulate_grad_hook(change)
    return Calling(lambda x, places, conv3d: places.view(1, 2, 8, 8, 8) + conv3d(x), places, conv3d)


def double(one):
    one.grad.mul_(2)


def sum_up(one):
    torch._foreach_add_([one.total], [one.grad])
    one.grad = 2 * one.total


class Reading(Passing):
    """A kernel that torch knows nothing of reads a copy of the gradient."""

    @staticmethod
    @refuse_double_backward
    def backward(ctx, gradient):
        return torch.from_numpy(gradient.transpose(0, 1).contiguous().numpy().copy()).transpose(0, 1)


HARD = {
    "tied": Tied,
    "unet": lambda: UNet(3, 2, 2, (4, 8, 8), (2, 2), num_res_units=2, dropout=0.1),
    "attention": lambda: AttentionUnet(3, 2, 2, (2, 4), (2,)),
    "dynunet": lambda: DynUNet(3, 2, 2, (3, 3, 3), (1, 2, 2), (2, 2), filters=(2, 2, 4), res_block=True),
    "segresnet": lambda: SegResNet(3, 8, 2, 2, blocks_down=(1, 1), blocks_up=(1,)),
    "highresnet": lambda: HighResNet(3, 2, 2),
    "weight norm": lambda: nn.Sequential(parametrizations.weight_norm(conv()), parametrizations.spectral_norm(conv())),
    "activated in place": lambda: nn.Sequential(conv(), nn.ELU(inplace=True), conv(), nn.ReLU(inplace=True)),
    "recomputed": lambda: Calling(lambda x, one: one(checkpoint(one, x, use_reentrant=False)), conv()),
    "expanded": lambda: Calling(lambda x, one: convolve(x, one.expand(2, 2, 3, 3, 3).flip(2)), parameter(2, 1, 3, 3, 3)),
    "made of the input": lambda: Calling(
        lambda x, one, two: convolve(x, two(one(x).mean((2, 3, 4))).view(2, 2, 3, 3, 3)), conv(), nn.Linear(2, 108)
    ),
    "changed by a hook": lambda: hooked(double),
    "summed up by a hook": lambda: hooked(sum_up),
    "sparse": lambda: Calling(
        lambda x, one: convolve(x, one(torch.arange(2)).view(2, 2, 3, 3, 3)), nn.Embedding(3, 54, sparse=True)
    ),
    "read by a kernel": lambda: Calling(lambda x, one: convolve(x, Reading.apply(one)), parameter(2, 2, 3, 3, 3)),
}


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("name", HARD)
def test_no_stream_reads_early_or_writes_what_the_other_reads(name, half, streams):
    torch.manual_seed(1)
    side = 4 if name == "highresnet" else 8  # it has many layers of many channels
    network, images = HARD[name](), torch.rand(1, 2, side, side, side)
    state, found = copy.deepcopy(network.state_dict()), []
    for context in (nullcontext(), Delayed(*streams)):
        network.load_state_dict(state)
        network.zero_grad()
        for one in network.parameters():
            vars(one).get("total", torch.zeros(1)).zero_()
        torch.manual_seed(1)
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = network(images).float().square().mean()
        with context:
            loss.backward()
        found.append([None if one.grad is None else one.grad.to_dense().clone() for one in network.parameters()])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=0.02 if half else 1e-4, atol=0.01 if half else 1e-5)


def test_a_tensor_of_tensors_is_taken_apart(streams):
    weight = TwoTensor(*(torch.rand(1, 1, 3, 3, 3) for _ in range(2))).requires_grad_()
    volume = torch.rand(1, 1, 4, 4, 4)
    with Delayed(*streams) as stream:
        out = functional.conv3d(volume, weight)
        (found,) = torch.autograd.grad(out, weight, TwoTensor(*[torch.ones(1, 1, 2, 2, 2)] * 2))
        assert stream.hidden
    for one in (found.a, found.b):
        torch.testing.assert_close(one, functional.conv3d(volume, torch.ones(1, 1, 2, 2, 2)))


@torch.jit.script
def standardize(weight: torch.Tensor):
    return (weight - weight.mean()) / (weight.std() + 1e-5)


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
    for _ in range(2):  # TorchScript fuses what it has seen before
        scripted = standardize(weight)
    for given, expected in ((weight, SecondStream), (Foreign.apply(weight), nullcontext), (scripted, nullcontext)):
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


def test_torchs_compiler_is_not_imported():
    """Its import takes a second of a start."""
    program = """
import sys, torch
from speedproof_accelerate.kernels.second_stream import SecondStream
with SecondStream(None, None):
    torch.rand(2, requires_grad=True).square().sum().backward()
sys.exit("torch._dynamo" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


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
