"""A norm with a residual and an activation computes what torch's own operations do: values and every gradient."""

import pytest
import torch
from torch.nn import functional

from workloads.spleen.tests.training.kernel_checks import DEVICE, FP32, HALF, assert_close, differentiate, draw

pytestmark = pytest.mark.usefixtures("interpreted")

# Channels that share statistics, shape, whether there are weights, slope.
CASES = {
    "instance, leaky ReLU": (1, (2, 8, 3, 5, 4), True, 0.01),
    "instance, images, ReLU": (1, (2, 5, 9, 7), False, 0.0),
    "group, no activation": (4, (2, 8, 5, 7), True, 1.0),
    "more channels than a tile": (1, (1, 68, 3, 3, 1), True, 0.1),
}


def results(case, kind=None):
    """Return result and gradients; by torch in double precision, or by the kernel in this precision."""
    from speedproof_accelerate.kernels.group_norm import Norm
    from speedproof_accelerate.kernels.group_norm_residual import group_norm_residual

    per_group, shape, affine, slope = case
    torch.manual_seed(0)
    rounded = torch.float32 if kind is None else kind
    x, residual = ((2 * torch.randn(shape) + shift).to(rounded).double() for shift in (3, 0))
    left_out = draw(shape[1]) if per_group == 1 else None
    named = {"x": x, "residual": residual, "weight": None, "bias": None, "left_out": left_out}
    if affine:
        named |= {"weight": draw(shape[1]), "bias": draw(shape[1])}
    if kind is not None:
        kinds = {name: kind if one.dim() > 3 else torch.float32 for name, one in named.items() if one is not None}
        named |= {name: named[name].to(DEVICE, one) for name, one in kinds.items()}
    inputs = [one.requires_grad_() for one in named.values() if one is not None]
    if kind is not None:
        return differentiate((group_norm_residual(norm=Norm(per_group, False, 1e-5), slope=slope, **named),), inputs)
    x = x if left_out is None else x + left_out.view(1, -1, *[1] * (x.dim() - 2))
    y = functional.group_norm(x, shape[1] // per_group, named["weight"], named["bias"])
    return differentiate((functional.leaky_relu(y + residual, slope),), inputs)


@pytest.mark.parametrize("name", CASES)
def test_it_is_torchs(name):
    assert_close(results(CASES[name], torch.float32), results(CASES[name]), 8 * FP32)  # sums of sums, and a square root


def test_in_half_precision_it_is_torchs_rounded(monkeypatch):
    from speedproof_accelerate.kernels import group_norm

    monkeypatch.setattr(group_norm, "_PROGRAMS", 3)
    case = (1, (2, 8, 3, 5, 4), True, 0.01)
    found = results(case, torch.float16)
    assert [one.dtype for one in found[:3]] == [torch.float16] * 3
    rounded = [one.to(other.dtype).double() for one, other in zip(results_of_rounded(case), found, strict=True)]
    assert_close(found, rounded, 2 * HALF)


def results_of_rounded(case):
    """Return torch's results, of what half precision can hold."""
    _, shape, _, slope = case
    torch.manual_seed(0)
    x, residual = ((2 * torch.randn(shape) + shift).half().double() for shift in (3, 0))
    left_out, weight, bias = draw(shape[1]), draw(shape[1]), draw(shape[1])
    inputs = [one.requires_grad_() for one in (x, residual, weight, bias, left_out)]
    y = functional.group_norm(x + left_out.view(1, -1, 1, 1, 1), shape[1], weight, bias)
    return differentiate((functional.leaky_relu(y + residual, slope),), inputs)


def test_what_cannot_be_is_refused():
    from speedproof_accelerate.kernels.group_norm import Norm
    from speedproof_accelerate.kernels.group_norm_residual import group_norm_residual

    x = torch.rand(1, 6, 2, 2, device=DEVICE)
    with pytest.raises(ValueError, match=r"a residual of \(1, 6, 2, 1\), torch.float32, for \(1, 6, 2, 2\), torch.float32"):
        group_norm_residual(x, x[..., :1], Norm(1, False, 1e-5))
    with pytest.raises(ValueError, match=r"the slope -0.1 is negative"):
        group_norm_residual(x, x, Norm(1, False, 1e-5), slope=-0.1)
    with pytest.raises(ValueError, match="groups of 3 channels does not take away"):
        group_norm_residual(x, x, Norm(3, False, 1e-5), left_out=torch.rand(6, device=DEVICE))
