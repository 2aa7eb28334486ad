"""Convolutions of few channels compute what their references do: values and every gradient, in fp32 and in half precision."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from speedproof_accelerate.kernels.strided_implementations import choose_strided, choose_transposed
from workloads.spleen.tests.training.kernel_checks import (
    CONVOLUTIONS,
    DEVICE,
    FP32,
    HALF,
    SHAPE,
    assert_convolves_as_its_reference,
    convolution_inputs,
    differentiate,
    few,
    on_device,
)

pytestmark = pytest.mark.usefixtures("exact_products")


@pytest.mark.parametrize(
    ("kind", "parameter_kind"),
    [(torch.float32, torch.float32), (torch.float16, torch.float32), (torch.float16, torch.float16)],
    ids=["fp32", "half", "half with weights in half"],
)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_is_its_reference(kernels, name, kind, parameter_kind):
    torch.manual_seed(0)
    shape = SHAPE if kind is torch.float32 else (1, *SHAPE[1:])  # items are told apart alike in any precision
    volumes, parameters, without = convolution_inputs(name, shape, kind=kind)
    # Of a layer as wide as these, weights are about as small; sums then are about 1, as a network has them.
    parameters = [(one / 8).to(kind).double() for one in parameters]
    tolerance = FP32 if kind is torch.float32 else HALF
    assert_convolves_as_its_reference(kernels, name, volumes, parameters, kind, tolerance, without, parameter_kind)


@few
@given(
    st.sampled_from(["conv3d_strided", "conv_transpose3d", "conv3d_strided_wide", "conv_transpose3d_wide"]),
    st.tuples(st.integers(1, 3), *[st.integers(1, 5).map(lambda half: 2 * half)] * 3),
    st.sampled_from([8, 16, 32]),
    st.sampled_from([1, 2]),
)
def test_a_convolution_is_its_reference_for_any_even_sides(kernels, name, shape, channels, images):
    torch.manual_seed(1)
    volumes, parameters, without = convolution_inputs(name, shape, channels, images)
    assert_convolves_as_its_reference(kernels, name, volumes, parameters, without=without)


@few
@given(
    st.sampled_from(["conv3d_plus_input", "conv3d", "conv3d_and_input"]),
    st.tuples(st.integers(1, 3), *[st.integers(1, 5)] * 2, st.integers(1, 20)),
    st.sampled_from([8, 16, 32]),
)
def test_a_convolution_of_stride_1_is_its_reference_for_any_sides(kernels, name, shape, channels):
    """Rows of whole cells, and rows whose last cell reaches beyond their end."""
    torch.manual_seed(1)
    volumes, parameters, without = convolution_inputs(name, shape, channels)
    assert_convolves_as_its_reference(kernels, name, volumes, parameters, without=without)


WEIGHT_LAYOUTS = {
    "channels last": lambda weight, _: weight.contiguous(memory_format=torch.channels_last_3d),
    "cut out of wider ones": lambda weight, _: torch.cat([weight, weight], dim=1)[:, weight.shape[1] :],
    "each in an order of its own": lambda weight, number: weight.contiguous(memory_format=ORDERS[number % 2]),
}
ORDERS = [torch.contiguous_format, torch.channels_last_3d]


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_any_layout_of_weights_serves_and_dense_ones_have_gradients_in_it(kernels, name):
    torch.manual_seed(0)
    volumes, parameters, _ = convolution_inputs(name, (1, 2, 4, 6), channels=8, images=2)
    volumes = list(map(on_device, volumes))
    results = {}
    for layout, lay_out in {"as they are": lambda weight, _: weight, **WEIGHT_LAYOUTS}.items():
        lying = [lay_out(on_device(one), number) if one.dim() == 5 else on_device(one) for number, one in enumerate(parameters)]
        needed = [one.detach().requires_grad_() for one in lying]
        out = getattr(kernels, CONVOLUTIONS[name])(*volumes, *needed)
        results[layout] = differentiate(out if isinstance(out, tuple) else (out,), needed)
        assert all(torch.equal(one, other) for one, other in zip(results[layout], results["as they are"], strict=True)), layout
        if layout == "channels last":
            assert [one.stride() for one in results[layout][-len(needed) :]] == [one.stride() for one in needed]


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_gradients_of_weights_whose_channels_come_last_are_kept_without_a_copy(kernels, name):
    volumes, parameters, _ = convolution_inputs(name, (1, 2, 2, 4), channels=8)
    orders = (torch.channels_last_3d if one.dim() == 5 else torch.contiguous_format for one in parameters)
    lying = [one.to(DEVICE, torch.float16, memory_format=order) for one, order in zip(parameters, orders, strict=True)]
    needed = [one.requires_grad_() for one in lying]
    made = []
    for one in needed:
        one.register_hook(lambda gradient: made.append(gradient.data_ptr()))
    out = getattr(kernels, CONVOLUTIONS[name])(*(on_device(one, torch.float16) for one in volumes), *needed)
    sum(one.sum() for one in (out if isinstance(out, tuple) else (out,))).backward()
    assert sorted(made) == sorted(one.grad.data_ptr() for one in needed)


def weights_of_whole_numbers(*shape):
    """Return weights all different from each other, exact in any precision."""
    return torch.arange(1.0, 1 + math.prod(shape) * 27).view(*shape, 3, 3, 3)


def test_a_bright_voxel_gives_the_mirrored_weights_worked_out_by_hand(kernels):
    weights, bias = weights_of_whole_numbers(2, 2), torch.tensor([1000.0, 2000.0])
    volume = torch.zeros(1, 2, 4, 6, 8)
    volume[0, 1, 2, 3, 0] = 1  # at the side of z: what would lie outside is cut off
    expected = bias.view(1, 2, 1, 1, 1) + volume
    expected[0, :, 1:4, 2:5, 0:2] += weights[:, 1].flip(1, 2, 3)[..., 1:]
    found = kernels.conv3d_plus_input(on_device(volume), weights.to(DEVICE), bias.to(DEVICE))
    assert torch.equal(found.cpu(), expected)


def test_a_bright_voxel_of_images_gives_every_other_weight(kernels):
    # Result p of a stride of 2 reads voxels 2p−1, 2p, 2p+1: voxel 2 is in the middle of result 1; voxel 3 comes last in 1, and
    # first in 2.
    first, second = weights_of_whole_numbers(16, 1), -weights_of_whole_numbers(16, 1)
    images = torch.zeros(1, 1, 8, 6, 10)
    images[0, 0, 2, 3, 3] = 1
    expected = torch.zeros(1, 16, 4, 3, 5)
    expected[0, :, 1, 1:3, 1:3] = first[:, 0, 1].flip(1, 2)[:, ::2, ::2]
    found = kernels.conv3d_strided_pair(on_device(images), first.to(DEVICE), second.to(DEVICE))
    assert [torch.equal(one.cpu(), other) for one, other in zip(found, (expected, -expected), strict=True)] == [True, True]


def test_a_bright_cell_gives_the_weights_themselves_where_a_convolution_is_transposed(kernels):
    # Cell p writes voxels 2p−1, 2p, 2p+1. The second volume's channels come behind the first's 16.
    weights = weights_of_whole_numbers(32, 2)
    first, second = torch.zeros(2, 1, 16, 2, 3, 2)
    first[0, 5, 0, 1, 1] = 1
    second[0, 3, 1, 2, 0] = 1
    expected = torch.zeros(1, 2, 4, 6, 4)
    expected[0, :, 0:2, 1:4, 1:4] += weights[5, :, 1:]
    expected[0, :, 1:4, 3:6, 0:2] += weights[16 + 3, ..., 1:]
    found = kernels.conv_transpose3d_pair(on_device(first), on_device(second), weights.to(DEVICE))
    assert torch.equal(found.cpu(), expected)


def test_a_bright_voxel_is_convolved_to_the_mirrored_weights_worked_out_by_hand(kernels):
    # Result p reads voxels 2p−1, 2p, 2p+1: an even voxel by its middle weight, an odd one by the last and the first.
    first, second = weights_of_whole_numbers(32, 16), -weights_of_whole_numbers(32, 16)
    x = torch.zeros(1, 16, 8, 6, 4)
    x[0, 7, 2, 3, 1] = 1
    expected = torch.zeros(1, 32, 4, 3, 2)
    expected[0, :, 1, 1:3, 0:2] = first[:, 7, 1].flip(1, 2)[:, ::2, ::2]
    found = kernels.conv3d_strided_pair(on_device(x), first.to(DEVICE), second.to(DEVICE))
    assert [torch.equal(one.cpu(), other) for one, other in zip(found, (expected, -expected), strict=True)] == [True, True]


def test_a_bright_cell_of_many_channels_gives_the_weights_themselves_transposed(kernels):
    # Cell p writes voxels 2p−1, 2p, 2p+1. The second volume's channels come behind the first's 32.
    weights = weights_of_whole_numbers(64, 16)
    first, second = torch.zeros(2, 1, 32, 2, 3, 2)
    first[0, 5, 0, 1, 1] = 1
    second[0, 3, 1, 2, 0] = 1
    expected = torch.zeros(1, 16, 4, 6, 4)
    expected[0, :, 0:2, 1:4, 1:4] += weights[5, :, 1:]
    expected[0, :, 1:4, 3:6, 0:2] += weights[32 + 3, ..., 1:]
    found = kernels.conv_transpose3d_pair(on_device(first), on_device(second), weights.to(DEVICE))
    assert torch.equal(found.cpu(), expected)


def test_planes_of_several_tiles_are_convolved_strided_and_transposed(kernels):
    """More cells than a program takes at once, and a last tile beyond the plane's end: 11 · 13 cells in tiles of 64 and 32."""
    torch.manual_seed(0)
    for name in ("conv3d_strided_wide", "conv_transpose3d_wide"):
        volumes, parameters, _ = convolution_inputs(name, (1, 4, 22, 26))
        assert_convolves_as_its_reference(kernels, name, volumes, parameters)


@pytest.mark.parametrize(("name", "images"), [("conv3d_strided", 1), ("conv3d_strided", 2), ("conv_transpose3d", 2)])
def test_planes_of_several_tiles_of_runs_are_convolved(kernels, name, images):
    """The same of 22 rows of 13 voxels, which are three runs of four and a single one, or six of two and a single one."""
    torch.manual_seed(0)
    volumes, parameters, without = convolution_inputs(name, (1, 4, 44, 26), images=images)
    assert_convolves_as_its_reference(kernels, name, volumes, parameters, without=without)


def test_two_volumes_of_sixteen_channels_become_a_single_one(kernels):
    """The kernels of runs make two channels of them, those of cells of either number."""
    torch.manual_seed(0)
    volumes, (weights,), without = convolution_inputs("conv_transpose3d")
    assert_convolves_as_its_reference(kernels, "conv_transpose3d", volumes, [weights[:, :1].contiguous()], without=without)


def test_the_gradient_of_one_result_is_the_weights_it_was_made_of(kernels):
    weights = weights_of_whole_numbers(16, 16)
    x = on_device(torch.zeros(1, 16, 4, 5, 6)).requires_grad_()
    kernels.conv3d(x, weights.to(DEVICE))[0, 3, 1, 2, 3].backward()
    expected = torch.zeros(1, 16, 4, 5, 6)
    expected[0, :, 0:3, 1:4, 2:5] = weights[3]
    assert torch.equal(x.grad.cpu(), expected)


@pytest.mark.parametrize("name", ["conv3d_strided", "conv3d_strided_wide"])
@pytest.mark.parametrize("sides", [(5, 4, 4), (4, 5, 4), (4, 4, 5)])
def test_a_volume_that_makes_no_whole_cells_is_refused(kernels, name, sides):
    volumes, parameters, _ = convolution_inputs(name, (1, *sides))
    with pytest.raises(ValueError, match="{} × {} × {} voxels does not divide into cells".format(*sides)):
        getattr(kernels, CONVOLUTIONS[name])(*map(on_device, volumes + parameters))


@pytest.mark.parametrize(
    ("first", "second", "weights"),
    [
        ((16, 5), (16, 6), (32, 2)),
        ((16, 5), (8, 5), (24, 2)),
        ((16, 5), (16, 5), (48, 2)),
        ((32, 5), (32, 6), (64, 16)),
        ((32, 5), (32, 5), (32, 16)),
    ],
    ids=str,
)
def test_volumes_that_do_not_fit_each_other_or_the_weights_are_not_transposed(kernels, first, second, weights):
    """A side of 5, halved and doubled again, is one of 6: what a concatenation would refuse."""
    volumes = [torch.zeros(1, *one, 4, 4) for one in (first, second)]
    with pytest.raises(ValueError, match=rf"do not fit weights of shape \({weights[0]}, {weights[1]}, "):
        kernels.conv_transpose3d_pair(*map(on_device, [*volumes, torch.zeros(*weights, 3, 3, 3)]))


@pytest.mark.parametrize(("channels", "results"), [(16, 3), (32, 8), (24, 2)])
def test_channels_without_a_kernel_are_not_transposed(kernels, channels, results):
    inputs = [*[torch.zeros(1, channels, 4, 4, 4)] * 2, torch.zeros(2 * channels, results, 3, 3, 3)]
    with pytest.raises(ValueError, match=f"no kernel convolves two volumes of {channels} channels, transposed, to {results}"):
        kernels.conv_transpose3d_pair(*map(on_device, inputs))


@pytest.mark.parametrize(("first", "second"), [((16, 2), (16, 2)), ((16, 1), (8, 1)), ((16, 3), (16, 3))], ids=str)
def test_weights_that_do_not_fit_the_volume_or_each_other_are_refused(kernels, first, second):
    images = torch.zeros(1, 1, 4, 4, 4)
    with pytest.raises(ValueError, match="a volume of 1 channels does not fit weights of shapes"):
        kernels.conv3d_strided_pair(*map(on_device, [images, *(torch.zeros(*one, 3, 3, 3) for one in (first, second))]))


@pytest.mark.parametrize(("channels", "results"), [(8, 32), (16, 16), (3, 16), (1, 24)])
def test_channels_without_a_kernel_are_not_convolved(kernels, channels, results):
    inputs = [torch.zeros(1, channels, 4, 4, 4), *[torch.zeros(results, channels, 3, 3, 3)] * 2]
    with pytest.raises(ValueError, match=f"no kernel convolves {channels} channels to two volumes of {results};"):
        kernels.conv3d_strided_pair(*map(on_device, inputs))


def test_images_that_require_a_gradient_are_refused(kernels):
    images, first, second = torch.zeros(1, 1, 4, 4, 4), torch.zeros(16, 1, 3, 3, 3), torch.zeros(16, 1, 3, 3, 3)
    with pytest.raises(ValueError, match="to two volumes of 16, with a gradient of the input; use torch's"):
        kernels.conv3d_strided_pair(on_device(images).requires_grad_(), first.to(DEVICE), second.to(DEVICE))


def name_module(found):
    return found and found.module.removeprefix("conv3d_strided_")


def test_strided_convolutions_go_by_the_implementation_of_their_channels():
    chosen = {}
    for full, half in ((16, 32), (1, 16), (2, 16), (1, 8), (2, 256), (3, 16), (1, 24), (16, 16)):
        chosen[full, half] = name_module(choose_strided(full, half, input_gradient=False))
    fast, other = dict.fromkeys(((1, 16), (2, 16)), "vectorized"), dict.fromkeys(((3, 16), (1, 24), (16, 16)))
    assert chosen == {(16, 32): "wide", **fast, (1, 8): "generic", (2, 256): "generic", **other}
    assert name_module(choose_strided(16, 32, input_gradient=True)) == "wide"
    assert choose_strided(1, 16, input_gradient=True) is None


def test_transposed_convolutions_go_by_the_implementation_of_their_channels():
    pairs = ((32, 16), (16, 2), (16, 1), (64, 2), (16, 16), (32, 32))
    chosen = {pair: name_module(choose_transposed(*pair)) for pair in pairs}
    expected = {(32, 16): "wide", (16, 2): "vectorized", (16, 1): "generic", (64, 2): "generic"}
    assert chosen == {**expected, (16, 16): None, (32, 32): None}
