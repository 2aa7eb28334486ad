"""A convolution of 1 × 1 × 1 to few results is torch's: values, and every gradient."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from workloads.spleen.tests.training.kernel_checks import FP32, HALF, assert_close, draw, few, on_device, results_of

pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.mark.parametrize(("kind", "tolerance"), [(torch.float32, FP32), (torch.float16, HALF)], ids=["fp32", "half"])
@pytest.mark.parametrize(
    ("shape", "results", "bias"),
    [((2, 16, 7, 5, 9), 3, True), ((1, 5, 3, 2, 1), 1, False), ((3, 33, 11, 6), 4, True)],
    ids=["regions", "one, alone", "images"],
)
def test_a_pointwise_convolution_is_torchs(shape, results, bias, kind, tolerance):
    from speedproof_accelerate.kernels.pointwise_conv import pointwise_conv

    torch.manual_seed(0)
    convolve = functional.conv3d if len(shape) == 5 else functional.conv2d
    x = draw(*shape, kind=kind)
    parameters = [draw(results, shape[1], *[1] * (len(shape) - 2)), *([draw(results)] if bias else [])]
    assert_close(results_of(pointwise_conv, [x], parameters, kind), results_of(convolve, [x], parameters), 4 * tolerance)


@few
@given(st.tuples(st.integers(1, 3), st.integers(1, 40), *[st.integers(1, 9)] * 3), st.integers(1, 4), st.booleans())
def test_it_is_torchs_for_any_sides_and_channels(shape, results, bias):
    from speedproof_accelerate.kernels.pointwise_conv import pointwise_conv

    torch.manual_seed(1)
    x, parameters = draw(*shape), [draw(results, shape[1], 1, 1, 1), *([draw(results)] if bias else [])]
    found = results_of(pointwise_conv, [x], parameters, torch.float32)
    assert_close(found, results_of(functional.conv3d, [x], parameters), 4 * FP32)


def test_a_pointwise_convolution_worked_out_by_hand():
    from speedproof_accelerate.kernels.pointwise_conv import pointwise_conv

    x = on_device(torch.tensor([[1.0, 2.0], [3.0, 5.0]]).view(1, 2, 1, 1, 2)).requires_grad_()  # two channels of two voxels
    weight = torch.tensor([[10.0, 1.0]], device=x.device).view(1, 2, 1, 1, 1).requires_grad_()
    out = pointwise_conv(x, weight, torch.tensor([100.0], device=x.device))
    assert out.flatten().tolist() == [113.0, 125.0]
    out.sum().backward()
    assert weight.grad.flatten().tolist() == [3.0, 8.0]
    assert x.grad.flatten().tolist() == [10.0, 10.0, 1.0, 1.0]


def test_more_channels_than_the_kernel_supports_are_refused():
    from speedproof_accelerate.kernels.pointwise_conv import pointwise_conv

    with pytest.raises(ValueError, match="65 channels and 2 results: the kernel supports up to 64 and 4; use torch's"):
        pointwise_conv(torch.rand(1, 65, 2, 2), torch.rand(2, 65, 1, 1))
