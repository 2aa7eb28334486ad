"""Average pooling is torch's: values, and the gradient."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from speedproof_accelerate import accelerate
from speedproof_accelerate.resampling import AveragePool
from workloads.spleen.tests.training.kernel_checks import DEVICE, FP32, HALF, assert_close, draw, on_device, results_of

pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.mark.parametrize(("kind", "tolerance"), [(torch.float32, FP32), (torch.float16, HALF)], ids=["fp32", "half"])
@pytest.mark.parametrize(
    ("shape", "window"),
    [((2, 8, 2, 4, 6), (2, 2, 2)), ((1, 24, 3, 4, 3), (1, 2, 3)), ((2, 16, 4, 6), (2, 2))],
    ids=["cubes", "in a plane", "an image"],
)
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


@pytest.mark.parametrize("shape", [(1, 4, 4, 4), (1, 8, 5, 4)], ids=["four channels", "an odd side"])
def test_what_the_kernel_does_not_divide_is_torchs(shape):
    from speedproof_accelerate.kernels.avg_pool import avg_pool

    images = draw(*shape)
    with pytest.raises(ValueError, match="channels must be a multiple of 8, and sizes of the window"):
        avg_pool(images, (2, 2))
    assert torch.equal(AveragePool(nn.AvgPool2d(2)).to(DEVICE)(images), nn.AvgPool2d(2)(images))


@pytest.mark.parametrize(
    ("pool", "fits"),
    [
        (nn.AvgPool3d(2), True),
        (nn.AvgPool2d((1, 2), (1, 2)), True),
        (nn.AvgPool3d(2, 1), False),
        (nn.AvgPool3d(2, padding=1), False),
        (nn.AvgPool2d(2, ceil_mode=True), False),
        (nn.AvgPool2d(2, divisor_override=3), False),
    ],
)
def test_only_windows_beside_each_other_are_replaced(pool, fits):
    network = nn.Sequential(pool).to(DEVICE)
    report = accelerate(network, precision=None)
    assert isinstance(network[0], AveragePool) == fits
    assert bool(report.kept) != fits


def test_a_single_image_is_torchs_also_if_a_tuple_has_one_size():
    pool, image = nn.AvgPool2d((2,)), draw(3, 8, 4).to(DEVICE)
    network = nn.Sequential(pool)
    accelerate(network, precision=None)
    assert torch.equal(network(image), pool(image))
