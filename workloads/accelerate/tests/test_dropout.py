"""A dropout behind a norm is computed in the norm's passes: it drops as torch's does, in training only, and as it is told."""

import copy
import pickle

import pytest
import torch
from monai.networks.blocks import Convolution
from monai.networks.nets import UNet
from torch import nn

from speedproof_accelerate import accelerate
from speedproof_accelerate.parts import Absorbed, NormActivation
from workloads.accelerate.tests.test_accelerate import hooked, vary
from workloads.accelerate.tests.test_choosing import clock  # noqa: F401 (a fixture)
from workloads.spleen.tests.training.kernel_checks import DEVICE, FP32, assert_close, differentiate

pytestmark = pytest.mark.usefixtures("interpreted", "full_products")
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU: CUDA graphs are recorded on one")


def make(p=0.3, norm=None, activation=None):
    """Return a plain sequence of norm, dropout and activation, and an accelerated copy."""
    modules = norm or nn.BatchNorm3d(4), nn.Dropout(p), activation or nn.LeakyReLU(0.5)
    plain = vary(nn.Sequential(*modules)).to(DEVICE)
    fast = copy.deepcopy(plain)
    accelerate(fast, precision=None)
    assert [type(one) for one in fast] == [NormActivation, Absorbed, Absorbed]
    return plain, fast


def draw(*shape):
    return torch.randn(shape, device=DEVICE)


def compute(network, x, seed=0):
    torch.manual_seed(seed)
    with torch.no_grad():
        return network(x)


def test_as_many_values_are_dropped_as_the_probability_says_and_others_are_scaled():
    plain, fast = make(p=0.3)
    x = draw(2, 4, 16, 16, 17)
    out, whole = compute(fast, x), compute(plain.eval().requires_grad_(False)[0].train(), x)
    dropped = out == 0
    count, mean = x.numel(), 0.3 * x.numel()
    assert abs(float(dropped.sum()) - mean) < 5 * (0.7 * 0.3 * count) ** 0.5  # five standard deviations
    for one in (dropped[0], dropped[1], dropped[:, :1], dropped[..., 0]):
        assert 0.25 < float(one.double().mean()) < 0.35
    expected = torch.where(dropped, 0.0, nn.functional.leaky_relu(whole, 0.5) / 0.7)
    assert_close([out], [expected], 4 * FP32)


def test_each_pass_draws_anew_and_a_seed_draws_the_same():
    _, fast = make()
    x = draw(2, 4, 4, 4, 4)
    first = compute(fast, x)
    with torch.no_grad():
        second = fast(x)
    assert ((first == 0) != (second == 0)).any()
    assert torch.equal(compute(fast, x), first)
    assert not torch.equal(compute(fast, x, seed=1), first)


def set_training(network):
    """Set the mode of each module, as some training loops do to restore it."""
    for module in network.modules():
        module.training = False


CHANGES = {"network": nn.Module.eval, "dropout alone": lambda network: network[1].eval(), "by attribute": set_training}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_in_evaluation_nothing_is_dropped(change):
    plain, fast = make()
    change(plain)
    change(fast)
    x = draw(2, 4, 4, 4, 4)
    assert_close([compute(fast, x)], [compute(plain, x)], 4 * FP32)
    fast.train()
    assert (compute(fast, x) == 0).any()


@pytest.mark.parametrize("gradients", [False, True], ids=["by a kernel", "by torch"])
def test_a_dropout_alone_may_be_in_training(gradients):
    """As for Monte Carlo dropout: the norm is in evaluation. With gradients, torch's own modules compute."""
    plain, fast = make()
    plain.eval()
    fast.eval()
    for part in fast.modules():
        if isinstance(getattr(part, "replaced", part), nn.Dropout):
            part.train()
    x = draw(2, 4, 4, 4, 5)
    with torch.set_grad_enabled(gradients):
        assert bool(fast[0].find_misfit(x)) is gradients
        out = fast(x)
    dropped = out == 0
    assert 0.15 < float(dropped.double().mean()) < 0.45
    assert_close([out], [torch.where(dropped, 0.0, compute(plain, x) / 0.7)], 4 * FP32)


def test_where_no_kernel_fits_torchs_own_modules_drop():
    plain, fast = make()
    x = draw(2, 4, 3, 4, 5).double()
    assert torch.equal(compute(fast.double(), x), compute(plain.double(), x))


def test_a_probability_may_change_also_to_none_and_all():
    _, fast = make()
    x = draw(2, 4, 6, 6, 6)
    for p in (0.0, 0.6, 1.0):
        fast[1].replaced.p = p
        assert float((compute(fast, x) == 0).double().mean()) == pytest.approx(p, abs=0.1)


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_a_convolution_with_dropout_is_itself(training):
    """MONAI's: its bias is not added. All gradients are torch's for the values that were dropped."""
    plain = vary(nn.Sequential(Convolution(3, 2, 4, norm="batch", dropout=0.4)))
    fast = copy.deepcopy(plain).to(DEVICE).train(training)
    accelerate(fast, precision=None)
    x = torch.randn(2, 2, 4, 3, 5)
    inputs = [x.to(DEVICE).requires_grad_(), *fast.parameters()]
    found = differentiate([fast(inputs[0])], inputs)
    conv, adn = plain.double().train(training)[0]
    kept = (found[0] != 0).cpu() if training else torch.full(x[:, :1].shape, 0.6)
    exact = x.double().requires_grad_()
    out = adn.A(adn.N(conv(exact)) * kept / 0.6)
    expected = differentiate([out], [exact, *plain.parameters()])
    largest = max(float(one.detach().abs().max()) for one in expected)
    assert_close(found, expected, 16 * FP32 * largest)
    assert_close([fast[0].adn.N.running_mean], [adn.N.running_mean], FP32)
    assert not training or not found[3].any()  # the gradient of the bias


def unet(**settings):
    return UNet(3, 1, 2, (2, 4, 8), (2, 2), num_res_units=2, norm="batch", dropout=0.2, **settings)


@pytest.mark.parametrize("copy_of", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))], ids=["deepcopy", "pickle"])
def test_a_network_with_dropouts_is_the_network(copy_of):
    plain = vary(unet()).to(DEVICE)
    fast = copy.deepcopy(plain)
    report = accelerate(fast, precision=None)
    assert "BatchNorm3d: with its dropout and activation (model.0.conv.unit0.adn.N and 8 more)" in str(report)
    assert list(fast.state_dict()) == list(plain.state_dict())
    fast = copy_of(fast)
    x = draw(2, 1, 8, 8, 8)
    fast(x).square().mean().backward()
    assert all(one.grad is not None and one.grad.isfinite().all() for one in fast.parameters())
    assert not torch.equal(compute(fast, x), compute(fast, x, seed=1))
    plain.load_state_dict(fast.state_dict())
    assert_close([compute(fast.eval(), x)], [compute(plain.eval(), x)], 32 * FP32)


def test_an_activation_of_two_norms_and_a_dropout_of_two_are_computed_by_both():
    drop, act = nn.Dropout(0.4), nn.PReLU()
    plain = vary(nn.Sequential(nn.BatchNorm2d(3), drop, act, nn.Conv2d(3, 3, 1), nn.InstanceNorm2d(3), drop, act)).to(DEVICE)
    fast = copy.deepcopy(plain)
    report = accelerate(fast, precision=None)
    assert [entry.note for entry in report.replaced[:2]] == ["with its dropout and activation"] * 2
    assert list(fast.state_dict()) == list(plain.state_dict())
    x = draw(2, 3, 16, 16)
    assert float((compute(fast, x) == 0).double().mean()) == pytest.approx(0.4, abs=0.1)
    fast[5].eval()  # of either place: it is one dropout
    plain[5].eval()
    assert_close([compute(fast, x)], [compute(plain, x)], 8 * FP32)


def test_a_norm_and_a_dropout_without_an_activation():
    network = nn.Sequential(nn.InstanceNorm2d(2), nn.Dropout(0.5), nn.Conv2d(2, 2, 1)).to(DEVICE)
    assert [entry.note for entry in accelerate(network, precision=None).replaced] == ["with its dropout"]
    out = compute(network[:2], draw(1, 2, 32, 32))
    assert float((out == 0).double().mean()) == pytest.approx(0.5, abs=0.1)
    assert (out < 0).any() and (out > 0).any()


class Stronger(nn.Dropout):
    def forward(self, x):
        return super().forward(super().forward(x))


OTHERS = {
    "of channels": lambda: nn.Dropout3d(0.3),
    "alpha": lambda: nn.AlphaDropout(0.3),
    "subclass": lambda: Stronger(0.3),
    "hooked": lambda: hooked(nn.Dropout(0.3)),
    "of all": lambda: nn.Dropout(1.0),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_dropouts_stay(name):
    dropout = OTHERS[name]()
    network = nn.Sequential(nn.BatchNorm3d(4), dropout, nn.ReLU())
    assert [entry.note for entry in accelerate(network, precision=None).replaced] == ["alone"]
    assert network[1] is dropout and type(network[2]) is nn.ReLU


def test_a_norm_that_torch_computes_faster_leaves_its_dropout_and_activation_too(clock):  # noqa: F811
    """Kernels take half of torch's time for volumes of more than 100 voxels, else twice."""
    network = unet().to(DEVICE)
    clock(network, lambda _, call: 0.5 if call.shape[2:].numel() > 100 else 2.0, lambda count, _: 1.0 if count else 2.0)
    report = accelerate(network, draw(1, 1, 16, 16, 8), precision=None)
    norms = [entry.name.removesuffix(".N") for entry in report.replaced if entry.module == "BatchNorm3d"]
    kinds = {name: [type(adn.D), type(adn.A)] for name, adn in network.named_modules() if name.endswith("adn")}
    assert 0 < len(norms) < len(kinds)
    assert kinds == {name: [Absorbed, Absorbed] if name in norms else [nn.Dropout, nn.PReLU] for name in kinds}


@gpu
def test_each_launch_of_a_graph_draws_anew():
    fast = nn.Sequential(nn.BatchNorm3d(4), nn.Dropout(0.3), nn.LeakyReLU(0.5)).cuda()
    x = draw(2, 4, 16, 16, 16)
    assert accelerate(fast, x, None, compare=False, graphs=True).graphed
    outs = []
    for seed in (0, 1, 0, None):
        if seed is not None:
            torch.manual_seed(seed)
        out = fast(x)
        out.sum().backward()
        outs.append(out.detach() == 0)
    assert torch.equal(outs[0], outs[2])
    assert not torch.equal(outs[0], outs[1]) and not torch.equal(outs[2], outs[3])
    assert all(0.25 < float(one.double().mean()) < 0.35 for one in outs)
    fast[1].eval()  # recorded again
    assert not (fast(x) == 0).any()
