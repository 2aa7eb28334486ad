"""The norm with activation and residual computes what its reference does: values, every gradient and running statistics."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from workloads.spleen.tests.training.kernel_checks import (
    DEVICE,
    HALF,
    assert_close,
    draw_norm,
    few,
    norm_results,
    on_device,
    references,
)

pytestmark = pytest.mark.usefixtures("exact_products")


@pytest.mark.parametrize("training", [True, False], ids=["training", "validation"])
@pytest.mark.parametrize("others", [0, 1, 2], ids=["alone", "with residual", "with residual and bias"])
@pytest.mark.parametrize("channels", [2, 16, 32])
def test_a_norm_is_its_reference(kernels, channels, others, training):
    torch.manual_seed(0)
    x, norm, values = draw_norm(channels, (4, 8, 4, 6), residual=True)
    values = values[: 2 + others]
    expected = norm_results(references, x, norm, values, training=training)
    assert_close(norm_results(kernels, x, norm, values, torch.float32, training), expected)


def test_a_norm_in_half_precision_is_its_reference(kernels):
    torch.manual_seed(0)
    x, norm, values = draw_norm(16, (2, 8, 6, 10), residual=True, kind=torch.float16)
    found = norm_results(kernels, x, norm, values, torch.float16)
    assert [one.dtype for one in found[:2]] == [torch.float16] * 2
    assert_close(found, norm_results(references, x, norm, values), HALF)


@few
@given(
    st.integers(0, 8).map(lambda power: 2**power),
    st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.integers(1, 4)),
    st.booleans(),
)
def test_a_norm_is_its_reference_for_any_shape_of_whole_rows(kernels, channels, shape, residual):
    """Of four voxels at least: the gradient of two alike is a difference of what is rounded."""
    torch.manual_seed(1)
    items, x, *sides = shape
    x, norm, values = draw_norm(channels, (items, x * max(256 // channels, 4), *sides), residual)
    assert_close(norm_results(kernels, x, norm, values, torch.float32), norm_results(references, x, norm, values))


def test_a_norm_of_four_voxels_worked_out_by_hand(kernels):
    """A channel of 5, 1, 5 and 1: mean 3, variance 4; normed 1 and −1, whatever the two numbers are: their gradient is 0."""
    x = on_device(torch.tensor([5.0, 1.0]).view(1, 1, 2, 1, 1).repeat(2, 64, 1, 1, 1)).requires_grad_()
    norm = nn.BatchNorm3d(64, eps=0.0).to(DEVICE)
    nn.init.constant_(norm.weight, 3.0)
    nn.init.constant_(norm.bias, 1.0)
    slope = torch.tensor([0.25], device=DEVICE, requires_grad=True)
    conv_bias, residual_bias = (torch.full((64,), value, device=DEVICE, requires_grad=True) for value in (10.0, 1000.0))
    out = kernels.batch_norm_prelu(x, norm, slope, conv_bias, torch.full_like(x, 100.0), residual_bias)
    out.backward(torch.full_like(out, 2.0))
    # 3 · 1 + 1 stays 4; 3 · −1 + 1 = −2 is made −½.
    assert torch.equal(out.cpu(), torch.tensor([1104.0, 1099.5]).view(1, 1, 2, 1, 1).expand(x.shape))
    # Of what comes out of the norm, gradients are 2 and 2 · ¼, of two voxels each.
    gradients = [norm.weight.grad, norm.bias.grad, residual_bias.grad, conv_bias.grad, x.grad]
    for found, value in zip(gradients, [2 * (2 - 0.5), 2 * (2 + 0.5), 4 * 2.0, 0.0, 0.0], strict=True):
        assert torch.allclose(found.cpu(), torch.tensor(value), atol=1e-6)
    assert slope.grad.tolist() == [64 * 2 * 2 * -2.0]
    # A tenth of what was found is taken over: of the mean with the bias, 13, and of the variance of a sample, 4 · 4/3.
    assert torch.allclose(norm.running_mean.cpu(), torch.tensor(1.3))
    assert torch.allclose(norm.running_var.cpu(), torch.tensor(0.9 + 1.6 / 3))


@pytest.mark.parametrize("channels", [1, 2, 4, 16, 32, 64, 128, 256])
def test_what_programs_found_is_merged_as_worked_out_by_hand(kernels, channels):
    """Of 22 rows, the last of three or six programs has fewer than the others. Channel c: 0, c, 2 c … (n − 1) c."""
    voxels = 22 * 256 // channels
    factors = torch.arange(1, channels + 1).float()
    x = on_device((torch.arange(voxels).float()[None, :] * factors[:, None]).view(1, channels, voxels, 1, 1)).requires_grad_()
    norm = nn.BatchNorm3d(channels, eps=0.0).to(DEVICE)
    slope, conv_bias = (torch.ones(length, device=DEVICE, requires_grad=True) for length in (1, channels))
    out = kernels.batch_norm_prelu(x, norm, slope, conv_bias)
    out.backward(x.detach())
    # n numbers in a row have a variance of (n² − 1) / 12; that of a sample is n / (n − 1) times as large.
    deviation = math.sqrt((voxels**2 - 1) / 12)
    expected = [
        (norm.running_mean, 0.1 * (factors * (voxels - 1) / 2 + 1)),
        (norm.running_var, 0.9 + 0.1 * factors**2 * voxels * (voxels + 1) / 12),
        (norm.bias.grad, factors * voxels * (voxels - 1) / 2),
        (norm.weight.grad, factors * voxels * deviation),
    ]
    for found, value in expected:
        torch.testing.assert_close(found.cpu(), value, rtol=1e-5, atol=0.0)


@pytest.mark.parametrize(("channels", "voxels"), [(24, 32), (512, 2), (16, 17)])
def test_a_volume_that_makes_no_whole_rows_is_refused(kernels, channels, voxels):
    x = torch.zeros(1, channels, voxels, 1, 1, device=DEVICE)
    bias = torch.zeros(channels, device=DEVICE)
    with pytest.raises(ValueError, match=f"{channels} channels over {voxels} voxels"):
        kernels.batch_norm_prelu(x, nn.BatchNorm3d(channels).to(DEVICE), bias[:1], bias)


def test_a_norm_trains_on_more_than_one_voxel(operations):
    x, bias, norm = torch.ones(1, 256, 1, 1, 1, device=DEVICE), torch.zeros(256, device=DEVICE), nn.BatchNorm3d(256).to(DEVICE)
    with pytest.raises(ValueError, match="more than"):
        operations.batch_norm_prelu(x, norm, bias[:1], bias)
    assert torch.equal(norm.running_var, torch.ones(256, device=DEVICE))
    # In validation it norms by what it knows, a mean of 0 and a variance of 1.
    torch.testing.assert_close(operations.batch_norm_prelu(x, norm.eval(), bias[:1], bias), x)
