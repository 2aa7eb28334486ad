"""Average and maximum pooling are torch's: values, and the gradient."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from speedproof_accelerate import accelerate
from speedproof_accelerate.resampling import Pool
from workloads.spleen.tests.training.kernel_checks import (
    DEVICE,
    FP32,
    HALF,
    assert_close,
    differentiate,
    draw,
    on_device,
    results_of,
)

pytestmark = pytest.mark.usefixtures("interpreted")

WINDOWS = pytest.mark.parametrize(
    ("shape", "window"),
    [((2, 8, 2, 4, 6), (2, 2, 2)), ((1, 24, 3, 4, 3), (1, 2, 3)), ((2, 16, 4, 6), (2, 2))],
    ids=["cubes", "in a plane", "an image"],
)


@pytest.mark.parametrize(("kind", "tolerance"), [(torch.float32, FP32), (torch.float16, HALF)], ids=["fp32", "half"])
@WINDOWS
def test_an_average_is_torchs(shape, window, kind, tolerance):
    from speedproof_accelerate.kernels.avg_pool import avg_pool

    torch.manual_seed(0)
    x = draw(*shape, kind=kind)
    own = functional.avg_pool3d if len(window) == 3 else functional.avg_pool2d
    found, expected = results_of(lambda x: avg_pool(x, window), [x], [], kind), results_of(lambda x: own(x, window), [x], [])
    assert_close(found, expected, tolerance)


def test_an_average_worked_out_by_hand():
    from speedproof_accelerate.kernels.avg_pool import avg_pool

    image = on_device(torch.arange(4.0).view(1, 1, 2, 2).expand(1, 8, 2, 2).contiguous()).requires_grad_()
    out = avg_pool(image, (2, 2))
    assert out.flatten().tolist() == [1.5] * 8
    out[0, 3].sum().backward()
    assert image.grad[0, 3].flatten().tolist() == [0.25] * 4
    assert not image.grad[0, 2].any()


@pytest.mark.parametrize("kind", [torch.float32, torch.float16], ids=["fp32", "half"])
@WINDOWS
def test_a_maximum_is_torchs_bit_for_bit(shape, window, kind):
    """Also of equal values, of infinite ones and of NaN."""
    from speedproof_accelerate.kernels.max_pool import max_pool

    torch.manual_seed(0)
    x = torch.tensor([-torch.inf, -1.5, 0.25, 3, torch.nan])[torch.randint(5, shape)]
    x[1:, 0] = -torch.inf
    own = functional.max_pool3d if len(window) == 3 else functional.max_pool2d
    given = on_device(x, kind).requires_grad_()
    out = max_pool(given, window)
    assert out.dtype == kind
    found, expected = differentiate((out,), [given]), differentiate((own(x.requires_grad_(), window),), [x])
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.cpu(), other.to(kind), rtol=0, atol=0, equal_nan=True)


def test_a_maximum_worked_out_by_hand():
    """The first of two equal values gets the gradient, but the last NaN."""
    from speedproof_accelerate.kernels.max_pool import max_pool

    image = torch.tensor([[1.0, 2, torch.nan, 5], [2, 0, torch.nan, 7]]).expand(1, 8, 2, 4).contiguous()
    image = on_device(image).requires_grad_()
    out = max_pool(image, (2, 2))
    assert torch.equal(out.isnan(), torch.tensor([False, True], device=DEVICE).expand(1, 8, 1, 2))
    assert out[0, :, 0, 0].tolist() == [2] * 8
    out[0, 3].sum().backward()
    assert image.grad[0, 3].tolist() == [[0, 1, 0, 0], [0, 0, 1, 0]]
    assert not image.grad[0, 2].any()


@pytest.mark.parametrize("own", [nn.AvgPool2d(2), nn.MaxPool2d(2)], ids=["average", "maximum"])
@pytest.mark.parametrize("shape", [(1, 4, 4, 4), (1, 8, 5, 4)], ids=["four channels", "an odd side"])
def test_what_the_kernel_does_not_divide_is_torchs(shape, own):
    from speedproof_accelerate.kernels.avg_pool import avg_pool
    from speedproof_accelerate.kernels.max_pool import max_pool

    images = draw(*shape)
    for pool in (avg_pool, max_pool):
        with pytest.raises(ValueError, match="channels must be a multiple of 8, and sizes of the window"):
            pool(images, (2, 2))
    assert torch.equal(Pool(own).to(DEVICE)(images), own(images))


@pytest.mark.parametrize(
    ("pool", "fits"),
    [
        (nn.AvgPool3d(2), True),
        (nn.AvgPool2d((1, 2), (1, 2)), True),
        (nn.AvgPool3d(2, 1), False),
        (nn.AvgPool3d(2, padding=1), False),
        (nn.AvgPool2d(2, ceil_mode=True), False),
        (nn.AvgPool2d(2, divisor_override=3), False),
        (nn.MaxPool3d(2), True),
        (nn.MaxPool2d((1, 2), (1, 2)), True),
        (nn.MaxPool2d(3, 2, padding=1), False),
        (nn.MaxPool3d(2, padding=(0, 0, 1)), False),
        (nn.MaxPool2d(2, ceil_mode=True), False),
        (nn.MaxPool2d(2, dilation=2), False),
        (nn.MaxPool2d(2, return_indices=True), False),
        (nn.MaxPool2d((1, 257)), False),
    ],
)
def test_only_windows_beside_each_other_are_replaced(pool, fits):
    network = nn.Sequential(pool).to(DEVICE)
    report = accelerate(network, precision=None)
    assert isinstance(network[0], Pool) == fits
    assert bool(report.kept) != fits


@pytest.mark.parametrize("pool", [nn.AvgPool2d((2,)), nn.MaxPool2d((2,))], ids=["average", "maximum"])
def test_a_single_image_is_torchs_also_if_a_tuple_has_one_size(pool):
    image = draw(3, 8, 4).to(DEVICE)
    network = nn.Sequential(pool)
    accelerate(network, precision=None)
    assert torch.equal(network(image), pool(image))
