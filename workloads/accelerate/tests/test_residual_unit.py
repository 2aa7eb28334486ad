"""Two convolutions of one input, computed as one, are MONAI's residual unit: values, and every gradient."""

import copy

import pytest
import torch
from monai.networks.blocks import ResidualUnit
from torch import nn

from speedproof_accelerate import accelerate
from speedproof_accelerate.residual_unit import PairedUnit
from workloads.accelerate.tests.test_accelerate import vary
from workloads.spleen.tests.training.kernel_checks import DEVICE, HALF, assert_close, differentiate

pytestmark = pytest.mark.usefixtures("interpreted")

UNITS = {  # of a network's images, which need no gradient, and of what is inside
    "by a kernel, images": (lambda: ResidualUnit(3, 1, 16, strides=2, norm="batch"), (2, 1, 4, 4, 4), False),
    "by a kernel": (lambda: ResidualUnit(3, 16, 32, strides=2), (1, 16, 4, 4, 2), True),
    "as one": (lambda: ResidualUnit(3, 8, 16, strides=2), (2, 8, 4, 6, 4), True),
    "as one, images": (lambda: ResidualUnit(2, 3, 8, strides=2, norm="batch"), (2, 3, 8, 6), False),
    "as one, an odd side": (lambda: ResidualUnit(3, 16, 32, strides=2), (1, 16, 5, 4, 4), True),
    "as one, a bias that shows": (
        lambda: ResidualUnit(3, 8, 8, strides=2, norm=("group", {"num_groups": 2})),
        (2, 8, 4, 4, 4),
        True,
    ),
}


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_is_monais(name):
    make, shape, differentiated = UNITS[name]
    torch.manual_seed(0)
    plain = nn.Sequential(vary(make())).to(DEVICE)
    fast = copy.deepcopy(plain)
    assert "both convolutions of its input as one" in str(accelerate(fast))
    assert isinstance(fast[0], PairedUnit)
    assert list(fast.state_dict()) == list(plain.state_dict())
    torch.manual_seed(1)
    x = torch.randn(shape).half().double()
    expected = copy.deepcopy(plain).double()
    inputs = [x.to(DEVICE).requires_grad_(differentiated) for _ in range(2)]
    with torch.autocast(DEVICE.type, torch.float16):
        out = fast(inputs[0].float() if not differentiated else inputs[0].half())
    results = [
        differentiate([one], [*([given] if differentiated else []), *network.parameters()])
        for one, given, network in ((out, inputs[0], fast), (expected(inputs[1]), inputs[1], expected))
    ]
    assert_close(*results, 32 * HALF)  # autocast of the plain unit is off by up to 8, too


@pytest.mark.parametrize(
    "unit",
    [ResidualUnit(3, 8, 16), ResidualUnit(3, 8, 8), ResidualUnit(3, 8, 2, strides=2, last_conv_only=True, subunits=1)],
    ids=["a residual of another size", "no residual", "a convolution alone"],
)
def test_other_units_stay(unit):
    network = nn.Sequential(unit).to(DEVICE)
    accelerate(network)
    assert isinstance(network[0], ResidualUnit)


class Doubled(nn.Conv2d):
    """A convolution that does more than torch's."""

    def forward(self, x):
        return 2 * super().forward(x)


@pytest.mark.parametrize("name", ["conv.unit0.conv", "conv.unit0", "residual", "conv"])
@pytest.mark.parametrize("other", [Doubled(8, 8, 3, 2, 1), nn.Conv2d(8, 8, 1, 2)], ids=["more", "of another size"])
def test_a_convolution_that_is_exchanged_later_computes(name, other):
    torch.manual_seed(0)
    plain = nn.Sequential(ResidualUnit(2, 8, 8, strides=2, subunits=1, norm="batch")).to(DEVICE)
    fast = copy.deepcopy(plain)
    accelerate(fast)
    for network in (plain, fast):
        network[0].set_submodule(name, copy.deepcopy(other).to(DEVICE))
    x = torch.randn(2, 8, 6, 6, device=DEVICE)
    with torch.autocast(DEVICE.type, torch.float16):
        assert_close([fast(x)], [plain(x)], 8 * HALF)
