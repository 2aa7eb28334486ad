"""A convolution that adds a residual, and one of few channels, widened or not, are torch's: values, and every gradient."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from speedproof_accelerate.parts import FewChannelConvolution, WidenedConvolution
from workloads.spleen.tests.training.kernel_checks import DEVICE, FP32, HALF, assert_close, differentiate, draw, few, results_of

pytestmark = pytest.mark.usefixtures("interpreted")


@few
@given(st.tuples(st.integers(1, 2), st.sampled_from([2, 8, 16, 32]), *[st.integers(1, 5)] * 3))
def test_a_residual_is_added_and_has_the_results_gradient(shape):
    from speedproof_accelerate.kernels.conv3d import conv3d

    def convolve(x, residual, weight):
        return functional.conv3d(x, weight, padding=1) + residual

    def by_kernel(x, residual, weight):
        return conv3d(x, weight, residual)

    torch.manual_seed(0)
    volumes, weights = [draw(*shape), draw(*shape)], [draw(shape[1], shape[1], 3, 3, 3)]
    assert_close(results_of(by_kernel, volumes, weights, torch.float32), results_of(convolve, volumes, weights), 4 * FP32)


@few
@given(st.integers(1, 16), st.sampled_from([8, 16, 32]), st.lists(st.integers(1, 5), min_size=2, max_size=3), st.booleans())
def test_a_convolution_of_few_channels_is_torchs(inputs, results, sides, differentiated):
    """Of images and volumes; of the first ones of a network, which need no gradient, and of others."""
    torch.manual_seed(0)
    kind = torch.float16
    convolution = nn.Conv2d if len(sides) == 2 else nn.Conv3d
    channels, replace = (results, FewChannelConvolution) if inputs > 7 else (inputs, WidenedConvolution)
    plain = convolution(channels, results, 3, padding=1).to(kind).double()
    part = replace(convolution(channels, results, 3, padding=1).to(DEVICE, kind))
    part.load_state_dict(plain.state_dict())
    x = draw(2, channels, *sides, kind=kind)
    found, expected = x.to(DEVICE, kind).requires_grad_(differentiated), x.clone().requires_grad_(differentiated)
    gradients = [found] if differentiated else []
    assert part.find_misfit(found) is None
    of_found = differentiate([part(found)], [*gradients, *part.parameters()])
    of_expected = differentiate([plain(expected)], [*([expected] if differentiated else []), *plain.parameters()])
    assert_close(of_found, of_expected, 4 * HALF)
