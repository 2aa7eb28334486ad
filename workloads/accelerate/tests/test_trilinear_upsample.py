"""Trilinear enlargement by two is torch's: values, and the gradient."""

import pytest
import torch
from torch.nn import functional

from workloads.spleen.tests.training.kernel_checks import FP32, HALF, assert_close, draw, on_device, results_of

pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.mark.parametrize(("kind", "tolerance"), [(torch.float32, FP32), (torch.float16, HALF)], ids=["fp32", "half"])
@pytest.mark.parametrize("shape", [(2, 5, 3, 4, 2), (1, 8, 1, 2, 3)], ids=["odd", "a plane"])
def test_an_enlargement_is_torchs(shape, kind, tolerance):
    from speedproof_accelerate.kernels.trilinear_upsample import trilinear_upsample

    torch.manual_seed(0)
    x = draw(*shape, kind=kind)

    def enlarge(volume):
        return functional.interpolate(volume, scale_factor=2, mode="trilinear")

    found, expected = results_of(trilinear_upsample, [x], [], kind), results_of(enlarge, [x], [])
    assert_close(found, expected, tolerance)


def test_an_enlargement_worked_out_by_hand():
    from speedproof_accelerate.kernels.trilinear_upsample import trilinear_upsample

    line = on_device(torch.tensor([0.0, 4.0, 8.0]).view(1, 1, 1, 1, 3)).requires_grad_()
    out = trilinear_upsample(line)
    assert out[0, 0, 1, 0].tolist() == [0.0, 1.0, 3.0, 5.0, 7.0, 8.0]
    out[0, 0, 1, 0, 0].backward()  # the outermost is made of the edge alone
    assert line.grad.flatten().tolist() == [1.0, 0.0, 0.0]
