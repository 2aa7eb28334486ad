"""Networks of dynamic_network_architectures, as nnU-Net plans them, are themselves after `accelerate`."""

import copy

import pytest
import torch
from torch import nn

pytest.importorskip("dynamic_network_architectures", reason="nnU-Net is not installed: make nnunet")

from dynamic_network_architectures.architectures.unet import PlainConvUNet, ResidualEncoderUNet

from speedproof_accelerate import accelerate
from speedproof_accelerate.bias_free import BiasFreeSequence
from speedproof_accelerate.dynamic_networks import ConcatDecoder, NormResidualBlock
from speedproof_accelerate.parts import (
    Absorbed,
    FewChannelConvolution,
    NormActivation,
    PointwiseConvolution,
    WidenedConvolution,
)
from workloads.accelerate.tests.test_accelerate import vary
from workloads.spleen.tests.training.kernel_checks import DEVICE, FP32, assert_close

PLAIN = {"n_conv_per_stage": (1, 1), "n_conv_per_stage_decoder": 1}
RESIDUAL = {"n_blocks_per_stage": (1, 2), "n_conv_per_stage_decoder": 1}
NETWORKS = {  # the network, the number of axes, its settings
    "plain": (PlainConvUNet, 3, PLAIN),
    "plain, images": (PlainConvUNet, 2, PLAIN),
    "residual encoder": (ResidualEncoderUNet, 3, RESIDUAL),
    "residual encoder, images": (ResidualEncoderUNet, 2, RESIDUAL),
}


def make(name):
    """Return a network with nnU-Net's settings, of few channels, for batches of shape (2, 1, 4, …)."""
    kind, axes, settings = NETWORKS[name]
    return kind(
        input_channels=1,
        n_stages=2,
        features_per_stage=(8, 16),
        conv_op=nn.Conv3d if axes == 3 else nn.Conv2d,
        kernel_sizes=3,
        strides=(1, 2),
        num_classes=3,
        conv_bias=True,
        norm_op=nn.InstanceNorm3d if axes == 3 else nn.InstanceNorm2d,
        norm_op_kwargs={"eps": 1e-5, "affine": True},
        nonlin=nn.LeakyReLU,
        nonlin_kwargs={"inplace": True},
        deep_supervision=True,
        **settings,
    )


def train(network, images):
    """Return all results and gradients."""
    network.zero_grad()
    outs = network(images)
    torch.manual_seed(1)
    sum((out * torch.randn(out.shape).to(out)).sum() for out in outs).backward()
    return [*outs, *(parameter.grad for parameter in network.parameters())]


def flatten(tensors):
    return torch.cat([one.detach().cpu().double().flatten() for one in tensors])


@pytest.mark.usefixtures("interpreted", "full_products")
@pytest.mark.parametrize("name", NETWORKS)
def test_an_accelerated_network_is_the_network(name):
    plain = vary(make(name))
    fast = copy.deepcopy(plain).to(DEVICE)
    report = accelerate(fast, precision=None)
    assert report.bound is None
    assert list(fast.state_dict()) == list(plain.state_dict())
    assert len(list(fast.parameters())) == len(list(plain.parameters()))
    images = torch.randn(2, 1, *[4] * NETWORKS[name][1])
    found, expected = train(fast, images.to(DEVICE)), train(plain.double(), images.double())
    largest = max(float(one.detach().abs().max()) for one in expected)
    assert_close(found, expected, 32 * FP32 * largest)
    fast.eval()
    fast.decoder.deep_supervision = plain.decoder.deep_supervision = False
    with torch.no_grad():
        assert_close([fast(images.to(DEVICE))], [plain(images.double())], 32 * FP32 * largest)


@pytest.mark.usefixtures("interpreted")
def test_in_half_precision_a_residual_encoder_is_itself_rounded(monkeypatch):
    own = torch.nn.functional.avg_pool3d  # a CPU has none in half precision
    monkeypatch.setattr(torch.nn.functional, "avg_pool3d", lambda x, *settings: own(x.float(), *settings).to(x.dtype))
    plain = vary(make("residual encoder")).half()
    fast = copy.deepcopy(plain).to(DEVICE)
    accelerate(fast, precision=torch.float16)
    kinds = {type(part) for part in fast.modules()}
    assert {NormResidualBlock, WidenedConvolution, FewChannelConvolution, PointwiseConvolution} <= kinds
    networks = (copy.deepcopy(plain).double(), plain.to(DEVICE), fast)

    def is_as_close(seed):
        images = torch.randn(2, 1, 4, 4, 4, generator=torch.Generator().manual_seed(seed)).half()
        torchs, ours = measure_distances(networks, images)
        return all(mine < 1.5 * other + 2**-10 for other, mine in zip(torchs, ours, strict=True))

    # The result, and all gradients: as far from the exact ones as torch's own. In some batches, rounding moves a value across
    # the corner of an activation, in one of the networks.
    assert any(is_as_close(seed) for seed in range(3))


def measure_distances(networks, images):
    """Return how far the second and the third network are from the first: of each, its result and all its gradients."""
    exact, *others = (train(network, images.to(next(network.parameters()))) for network in networks)
    distances = []
    for ones in others:
        pairs = [[flatten(three[places]) for three in (ones, exact)] for places in (slice(0, 1), slice(1, None))]
        distances.append([float((found - expected).norm() / expected.norm()) for found, expected in pairs])
    return distances


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("name", NETWORKS)
def test_every_norm_is_served_and_no_bias_is_added_before_one(name):
    network = make(name).to(DEVICE)
    accelerate(network, precision=None)
    assert not any(isinstance(one, nn.InstanceNorm2d | nn.InstanceNorm3d) for one in network.modules())
    blocks = [one for one in network.modules() if type(one).__name__ == "ConvDropoutNormReLU"]
    assert sum(isinstance(one, NormActivation) for one in network.modules()) == len(blocks)
    assert isinstance(network.decoder, ConcatDecoder)
    assert sum(isinstance(one, NormResidualBlock) for one in network.modules()) == (3 if "residual" in name else 0)
    for block in blocks:
        assert block.norm is block.all_modules[1]
        assert block.conv is block.all_modules[0]
        assert isinstance(block.all_modules, BiasFreeSequence) == (block.conv.bias is not None)
        if hasattr(block, "nonlin"):
            assert block.nonlin is block.all_modules[2]
            assert isinstance(block.nonlin, Absorbed)


@pytest.mark.usefixtures("interpreted")
def test_a_saved_network_fits_the_plain_one_and_back():
    plain, fast = vary(make("residual encoder")), make("residual encoder")
    accelerate(fast, precision=None)
    fast.load_state_dict(plain.state_dict())
    other = make("residual encoder")
    other.load_state_dict(fast.state_dict())
    assert all(torch.equal(one, two) for one, two in zip(other.parameters(), plain.parameters(), strict=True))
