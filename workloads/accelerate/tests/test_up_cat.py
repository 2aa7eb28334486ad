"""The up block of MONAI's BasicUNet is MONAI's, but calls no padding if there is nothing to pad."""

import copy

import pytest
import torch
from monai.networks.nets import BasicUNet
from monai.networks.nets.basic_unet import UpCat
from torch import nn

from speedproof_accelerate import accelerate
from speedproof_accelerate.blocks import ConcatUpCat
from workloads.accelerate.tests.test_accelerate import vary
from workloads.spleen.tests.training.kernel_checks import DEVICE, FP32, assert_close, differentiate

pytestmark = pytest.mark.usefixtures("interpreted", "full_products")


def make(kind=UpCat, skipped=8, **settings):
    """Return a network of one block."""
    settings = {"act": "relu", "norm": ("group", {"num_groups": 2}), "bias": True, **settings}
    return vary(nn.ModuleList([kind(3, 16, skipped, 8, **settings)]))


@pytest.fixture
def padded(monkeypatch):
    """The sizes of each padding by copies of the border."""
    own, calls = torch.nn.functional.pad, []

    def pad(x, sizes, mode="constant", *given):
        if mode == "replicate":
            calls.append(list(sizes))
        return own(x, sizes, mode, *given)

    monkeypatch.setattr(torch.nn.functional, "pad", pad)
    return calls


@pytest.mark.parametrize(
    ("sides", "expected"),
    [((4, 2, 6), []), ((4, 3, 7), [[0, 1, 0, 1, 0, 0]]), (None, [])],
    ids=["equal sizes", "odd sizes", "no skip connection"],
)
def test_the_block_is_monais_but_pads_only_what_is_smaller(sides, expected, padded):
    plain = make(skipped=8 if sides else 0)
    fast = copy.deepcopy(plain).to(DEVICE)
    report = accelerate(fast, precision=None)
    assert type(fast[0]) is ConcatUpCat
    assert [one.note for one in report.replaced if one.name == "0"] == ["padded only if sizes differ, concatenated in one pass"]
    assert list(fast.state_dict()) == list(plain.state_dict())
    inputs, results = [torch.randn(2, 16, 2, 1, 3), *([torch.randn(2, 8, *sides)] if sides else [])], []
    for network, kind in ((fast, torch.float32), (plain.cpu().double(), torch.float64)):
        given = [one.to(next(network.parameters()).device, kind).requires_grad_() for one in inputs]
        padded.clear()
        out = network[0](*given, *([] if sides else [None]))
        if network is fast:
            assert padded == expected
        results.append(differentiate((out,), [*given, *network.parameters()]))
    assert_close(*results, 64 * FP32)


def test_sizes_that_monais_block_refuses_are_refused():
    network = make(is_pad=False).to(DEVICE)
    accelerate(network, precision=None)
    with pytest.raises(RuntimeError, match="Sizes of tensors must match except in dimension 1"):
        network[0](torch.randn(2, 16, 2, 1, 3, device=DEVICE), torch.randn(2, 8, 4, 3, 6, device=DEVICE))


def test_a_subclass_of_the_block_stays():
    class Own(UpCat):
        pass

    network = make(Own)
    accelerate(network, precision=None)
    assert type(network[0]) is Own


def test_the_report_names_pools_and_blocks_of_a_basicunet():
    text = str(accelerate(BasicUNet(3, 1, 2), precision=None))
    assert "MaxPool3d: channels last (down_1.max_pooling and 3 more)" in text
    assert "UpCat: padded only if sizes differ, concatenated in one pass (upcat_4 and 3 more)" in text
