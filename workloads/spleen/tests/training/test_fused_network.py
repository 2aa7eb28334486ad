"""The network with the kernels in place is the network. A bias in front of a norm has a gradient of 0 but for rounding."""

import copy

import pytest
import torch

from speedproof_spleen.segmentation.unet import ResidualUNet
from speedproof_spleen.training.fused_network import Operations, fuse
from workloads.spleen.tests.training.kernel_checks import DEVICE, FP32, assert_close, references

pytestmark = pytest.mark.usefixtures("exact_products")

CHANNELS = (16, 8, 32, 64)  # skip connections of a kernel of their own, of joined channels, and of unlike ones
HALVED = (16, 32, 32)  # two levels of kernels, and no volumes to join or to split


def counting(operations, calls):
    """Return operations that note their calls."""

    def noting(name):
        def call(*inputs):
            calls.add(name)
            return getattr(operations, name)(*inputs)

        return call

    return Operations(**{name: noting(name) for name in Operations.__dataclass_fields__})


# The smallest volumes that divide so often, and whose coarsest make whole rows: interpreted, each plane takes its time.
@pytest.mark.parametrize(
    ("channels", "shape", "unused"),
    [
        (CHANNELS, (2, 1, 8, 16, 16), set()),
        (HALVED, (2, 1, 4, 8, 8), {"concat_channels", "split_channels"}),
    ],
    ids=["joined", "halved"],
)
def test_a_fused_network_is_the_network(operations, channels, shape, unused):
    torch.manual_seed(0)
    plain = ResidualUNet(1, 2, channels)
    for parameter in plain.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)  # norms and slopes of their own
    calls: set[str] = set()
    fused = fuse(copy.deepcopy(plain), counting(operations, calls), direct=True)
    fused = fused.to(DEVICE, memory_format=torch.channels_last_3d)
    plain = plain.double()
    assert list(fused.state_dict()) == list(plain.state_dict())
    images = torch.rand(shape)
    outs = [plain(images.double()), fused(images.to(DEVICE))]
    assert calls == set(Operations.__dataclass_fields__) - unused
    for out in outs:
        out.square().sum().backward()
    logits, gradients, statistics = [], [], []
    for out, network in zip(outs, (plain, fused), strict=True):
        logits.append([out])
        gradients.append([p.grad if p.grad is not None else torch.zeros_like(p) for p in network.parameters()])
        statistics.append([values for name, values in network.named_buffers() if "running" in name])
    # Through all layers rounding adds up.
    assert_close(logits[1], logits[0], 16 * FP32)
    assert_close(statistics[1], statistics[0], 16 * FP32)
    # Each gradient by its own largest value; those that are 0 but for rounding, by a small part of the largest of all.
    largest = [float(one.abs().max()) for one in gradients[0]]
    for found, expected, scale in zip(gradients[1], gradients[0], largest, strict=True):
        assert float((found.cpu().double() - expected).abs().max()) < 16 * FP32 * max(scale, max(largest) / 128)
    plain.eval()
    fused.eval()
    with torch.no_grad():
        assert_close([fused(images.to(DEVICE))], [plain(images.double())], 16 * FP32)


def test_norms_alone_may_be_fused(operations):
    calls: set[str] = set()
    torch.manual_seed(0)
    plain = ResidualUNet(1, 2, CHANNELS)
    fused = fuse(copy.deepcopy(plain), counting(operations, calls), direct=False).to(DEVICE)
    images = torch.rand(2, 1, 8, 16, 16)
    assert_close([fused(images.to(DEVICE))], [plain.double()(images.double())], 16 * FP32)
    assert calls == {"batch_norm_prelu"}


@pytest.mark.parametrize("channels", [(4, 4, 4), (8, 24), (24, 24)], ids=["too few", "unlike", "no power of two"])
def test_a_pair_without_a_kernel_is_concatenated(channels):
    calls: set[str] = set()
    torch.manual_seed(0)
    plain = ResidualUNet(1, 2, channels)
    fused = fuse(copy.deepcopy(plain), counting(references, calls), direct=True)
    images = torch.rand(2, 1, 16, 16, 8)
    assert_close([fused(images)], [plain.double()(images.double())], 16 * FP32)
    assert ("conv3d_strided_pair" in calls) == (channels[0] == 8)
    assert "conv_transpose3d_pair" not in calls


def test_dropout_is_refused():
    with pytest.raises(ValueError, match=r"dropout of 0\.1"):
        fuse(ResidualUNet(1, 2, (4, 8), dropout=0.1), references, direct=False)


@pytest.mark.parametrize("channels", [(4, 8), CHANNELS, HALVED], ids=["concatenated", "paired", "halved"])
def test_weights_of_a_fused_network_serve_the_plain_one_and_the_other_way_round(channels):
    torch.manual_seed(0)
    plain, other = ResidualUNet(1, 2, channels), ResidualUNet(1, 2, channels)
    fused = fuse(other, references, direct=True)
    fused.load_state_dict(plain.state_dict())
    plain.load_state_dict(fused.state_dict())
    images = torch.rand(1, 1, 8, 8, 8)
    torch.testing.assert_close(fused.eval()(images), plain.eval()(images))
