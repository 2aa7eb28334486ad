"""The norm of groups with activation computes what torch's own do: values, every gradient, running statistics."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

from speedproof_accelerate import accelerate
from speedproof_accelerate.parts import NormActivation
from workloads.spleen.tests.training.kernel_checks import DEVICE, FP32, HALF, assert_close, differentiate, draw

pytestmark = pytest.mark.usefixtures("interpreted")

# Kind, channels that share statistics, shape, whether there are weights, slope (a number, or how many parameters).
CASES = {
    "batch, a slope": ("batch", 1, (2, 6, 5, 3, 3), True, "one"),
    "instance, images": ("instance", 1, (2, 5, 9, 7), False, 0.01),
    "instance, slopes": ("instance", 1, (1, 16, 3, 5, 4), True, "each"),
    "group": ("group", 4, (2, 8, 3, 5, 7), True, 0.0),
    "groups of three, alone": ("group", 3, (2, 6, 9, 31), False, 1.0),
    "more channels than a tile": ("instance", 1, (1, 68, 3, 3, 1), True, 0.1),
}


def compute_as_torch(kind, per_group, x, weight, bias, slope, left_out, running, factors=1.0):
    if left_out is not None:
        x = x + left_out.view(1, -1, *[1] * (x.dim() - 2))
    if kind == "batch":
        y = functional.batch_norm(x, *running, weight, bias, training=True, momentum=0.1)
    elif kind == "instance":
        y = functional.instance_norm(x, weight=weight, bias=bias)
    else:
        y = functional.group_norm(x, x.shape[1] // per_group, weight, bias)
    y = y * factors
    return functional.prelu(y, slope) if isinstance(slope, torch.Tensor) else functional.leaky_relu(y, slope)


def results(case, kind_of_volumes=None, drops=False):
    """Return outputs, gradients and running statistics; by torch in double precision, or by the kernel in this precision.

    `drops`: a fifth of the normed values is dropped.
    """
    from speedproof_accelerate.kernels.group_norm import Dropout, Norm, group_norm_and_input

    kind, per_group, shape, affine, slope = case
    torch.manual_seed(0)
    half = torch.float32 if kind_of_volumes is None else kind_of_volumes
    channels = shape[1]
    x = (2 * torch.randn(shape) + 3).to(half).double()
    weight, bias = (draw(channels), draw(channels)) if affine else (None, None)
    left_out = draw(channels) if per_group == 1 else None
    running = (draw(channels), torch.rand(channels).double() + 0.5) if kind == "batch" else None
    if isinstance(slope, str):
        slope = draw(1 if slope == "one" else channels)
    kept = torch.rand(shape) < 0.8
    named = {"x": x, "weight": weight, "bias": bias, "slope": slope, "left_out": left_out}
    if kind_of_volumes is not None:
        kinds = {name: half if one.dim() > 3 else torch.float32 for name, one in named.items() if is_tensor(one)}
        named |= {name: named[name].to(DEVICE, kind) for name, kind in kinds.items()}
        running = None if running is None else tuple(one.float().to(DEVICE) for one in running)
    inputs = [one.requires_grad_() for one in named.values() if is_tensor(one)]
    if kind_of_volumes is None:
        out = compute_as_torch(kind, per_group, *named.values(), running, kept / 0.8 if drops else 1.0)
    else:
        named |= {"dropout": Dropout(kept.to(DEVICE, torch.uint8), 1 / 0.8) if drops else None, "running": running}
        out, _ = group_norm_and_input(norm=Norm(per_group, kind == "batch", 1e-5, 0.1), **named)
    return [*differentiate((out,), inputs), *(running or ())]


def is_tensor(one):
    return isinstance(one, torch.Tensor)


@pytest.mark.parametrize("drops", [False, True], ids=["all values", "dropout"])
@pytest.mark.parametrize("name", CASES)
def test_a_norm_is_torchs(name, drops):
    found, expected = results(CASES[name], torch.float32, drops), results(CASES[name], drops=drops)
    assert_close(found, expected, 4 * FP32)  # sums of sums, and a square root


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])
def test_a_norm_in_half_precision_is_torchs_rounded(kind):
    case = ("group", 4, (2, 8, 3, 5, 4), True, 0.0)
    found = results(case, kind)
    assert [one.dtype for one in found[:2]] == [kind, kind]
    assert_close(
        found, results_of_rounded(case, kind), HALF if kind == torch.float16 else 2**-7 + FP32
    )  # Triton's interpreter cuts off bf16


def results_of_rounded(case, kind):
    """Return torch's results, of what this precision can hold."""
    _, per_group, shape, *_ = case
    torch.manual_seed(0)
    x = (2 * torch.randn(shape) + 3).to(kind).double()
    inputs = [one.requires_grad_() for one in (x, draw(shape[1]), draw(shape[1]))]
    return differentiate((compute_as_torch("group", per_group, *inputs, 0.0, None, None),), inputs)


def test_a_norm_worked_out_by_hand():
    """Values of 5, 1, 5 and 1: mean 3, variance 4; normed 1 and −1; by 3 and 1, 4 and −2; the slope makes a half of −2 −1."""
    from speedproof_accelerate.kernels.group_norm import Norm, group_norm_and_input

    x = torch.tensor([5.0, 1.0, 5.0, 1.0], device=DEVICE).view(1, 1, 2, 2)
    weight, bias = torch.tensor([3.0], device=DEVICE), torch.tensor([1.0], device=DEVICE)
    mean, variance = torch.tensor([10.0], device=DEVICE), torch.tensor([1.0], device=DEVICE)
    norm = Norm(1, True, 0.0, momentum=0.5)
    left_out = torch.tensor([7.0], device=DEVICE)
    out, _ = group_norm_and_input(x, norm, weight, bias, slope=0.5, left_out=left_out, running=(mean, variance))
    assert out.flatten().tolist() == [4.0, -1.0, 4.0, -1.0]
    assert mean.item() == 0.5 * 10 + 0.5 * (3 + 7)
    assert variance.item() == pytest.approx(0.5 * 1 + 0.5 * 4 * 4 / 3)


@pytest.mark.parametrize("mean, first", [(1000.0, 0.0), (0.0, 10_000.0)], ids=["a mean far from 0", "a first voxel far away"])
def test_digits_are_kept(mean, first, monkeypatch):
    """By few programs of several tiles each; the second was wrong by 0.1 % where all sums began at that voxel."""
    from speedproof_accelerate.kernels import group_norm
    from speedproof_accelerate.kernels.group_norm import Norm, group_norm_and_input

    monkeypatch.setattr(group_norm, "_PROGRAMS", 3)
    torch.manual_seed(0)
    x = torch.randn(1, 2, 17, 31, 32) + mean  # 17 tiles, the last not full
    x[:, :, 0, 0, 0] += first
    out, _ = group_norm_and_input(x.to(DEVICE), Norm(1, False, 1e-5))
    expected = functional.instance_norm(x.double())
    assert (out.cpu() - expected).abs().max().item() < 4 * FP32 * expected.abs().max().item()


def test_what_goes_beside_a_norm_has_its_gradient_added_in_the_norms_pass():
    from speedproof_accelerate.kernels.group_norm import Norm, group_norm_and_input

    torch.manual_seed(0)
    x = draw(2, 8, 3, 5, 4)
    found, expected = (x.to(DEVICE, torch.float32).requires_grad_(), x.clone().requires_grad_())
    outs = group_norm_and_input(found, Norm(4, False, 1e-5), slope=0.0)
    references = (functional.relu(functional.group_norm(expected, 2)), expected)
    assert_close(differentiate(outs, [found]), differentiate(references, [expected]), 4 * FP32)
    _, beside = group_norm_and_input(found, Norm(1, False, 1e-5))
    assert torch.equal(torch.autograd.grad(beside.sum(), found)[0], torch.ones_like(found))  # nobody takes what is normed


def test_what_cannot_be_is_refused():
    from speedproof_accelerate.kernels.group_norm import Norm, draw_dropout, group_norm_and_input

    x = torch.rand(1, 6, 2, 2, device=DEVICE)
    with pytest.raises(ValueError, match="6 channels do not make groups of 4"):
        group_norm_and_input(x, Norm(4, False, 1e-5))
    with pytest.raises(ValueError, match="groups of 3 channels does not take away"):
        group_norm_and_input(x, Norm(3, False, 1e-5), left_out=torch.rand(6, device=DEVICE))
    with pytest.raises(ValueError, match=r"a dropout of \(1, 5, 2, 2\), for \(1, 6, 2, 2\)"):
        group_norm_and_input(x, Norm(1, False, 1e-5), dropout=draw_dropout(x[:, :5], 0.5))


@pytest.mark.parametrize("activation", [nn.ReLU(), nn.LeakyReLU(0.1)], ids=["relu", "leaky relu"])
def test_overflows_pass_an_evaluated_norm_as_in_torch(activation):
    plain = nn.Sequential(nn.BatchNorm2d(3), activation).to(DEVICE).eval()
    fast = copy.deepcopy(plain)
    accelerate(fast, precision=None)
    assert isinstance(fast[0], NormActivation)
    x = torch.randn(1, 3, 2, 2, device=DEVICE)
    x[0, :, 0, 0] = torch.tensor([torch.inf, -torch.inf, torch.nan])
    with torch.no_grad():
        torch.testing.assert_close(fast(x), plain(x), equal_nan=True)
