"""The kernels compute what their references do: values, every gradient and running statistics, in fp32 and in half precision.

References are computed by torch in float64 on the processor, from the same numbers. Without a GPU, Triton interprets the
kernels (see conftest.py); with one, they are compiled and run there.
"""

import copy
import math
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from monai.losses import DiceCELoss
from torch import nn

from speedproof.cases.unet import ResidualUNet
from speedproof.training.kernels import reference
from speedproof.training.kernels.network import Operations, fuse
from tests.conftest import require

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# Sums of up to some thousand products, each rounded by at most 2^-24 of its value: less than 2^-16 of the largest result.
FP32 = 2**-16
# Half precision besides rounds each result once, to 11 bits; sums are of fp32.
HALF = 2**-11 + FP32
SHAPE = (2, 8, 6, 10)  # items, x, y, z

few = settings(max_examples=5)  # interpreted, a kernel takes a tenth of a second and more


@pytest.fixture(scope="module", autouse=True)
def _exact_products():
    """Let the library multiply in full precision, where it takes part: its TF32 has 11 bits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.backends.cudnn, "allow_tf32", False)
        yield


@pytest.fixture(scope="module")
def modules():
    """The modules of kernels: imported only where Triton is there."""
    require("triton", find_spec("triton") is not None, "triton is not installed")
    return SimpleNamespace(
        **{name: import_module(f"speedproof.training.kernels.{name}") for name in ("norm", "few_channels", "mirrored", "loss")}
    )


@pytest.fixture(scope="module")
def kernels(modules):
    return Operations.of(modules.norm, modules.few_channels, modules.mirrored)


references = Operations.of(reference)


@pytest.fixture(params=["references", "kernels"])
def operations(request):
    return references if request.param == "references" else request.getfixturevalue("kernels")


def draw(*shape, kind=torch.float32):
    """Return numbers that this precision can hold, in float64 on the processor: what references are computed from."""
    return torch.randn(shape).to(kind).double()


def on_device(values, kind=torch.float32):
    """Return values as a kernel takes them: volumes channels last."""
    volume = values.dim() == 5 and values.shape[-3:] != (3, 3, 3)
    return values.detach().to(DEVICE, kind, memory_format=torch.channels_last_3d if volume else torch.preserve_format)


def differentiate(outs, inputs):
    """Return outputs, and the gradients of the inputs for the same random gradients of the outputs each time."""
    torch.manual_seed(3)
    above = [torch.randn(out.shape).half().to(out) for out in outs]  # the same numbers in any precision
    return [*outs, *torch.autograd.grad(outs, inputs, above)]


def results_of(operation, volumes, parameters, kind=None, without=()):
    """Return outputs and gradients of an operation of volumes and parameters; `kind`: of a kernel's volumes, None: reference.

    Half precision has parameters in fp32, as autocast does. `without`: numbers of the inputs that need no gradient.
    """
    if kind is None:
        inputs = [one.clone() for one in (*volumes, *parameters)]
    else:
        inputs = [*(on_device(one, kind) for one in volumes), *(on_device(one) for one in parameters)]
    needed = [one.requires_grad_() for number, one in enumerate(inputs) if number not in without]
    out = operation(*inputs)
    return differentiate(out if isinstance(out, tuple) else (out,), needed)


def assert_close(found, expected, tolerance=FP32):
    """Compare lists of tensors, each by its largest value."""
    assert len(found) == len(expected)
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert one.shape == other.shape
        apart = float((one.detach().cpu().double() - other.detach().double()).abs().max())
        allowed = tolerance * max(float(other.detach().abs().max()), 1.0)
        assert apart <= allowed, f"result {number} is off by {apart:.2e}, more than {allowed:.2e}"


def assert_convolves_as_its_reference(kernels, name, volumes, parameters, kind=torch.float32, tolerance=FP32, without=()):
    found = results_of(getattr(kernels, name), volumes, parameters, kind, without)
    expected = results_of(getattr(references, name), volumes, parameters, None, without)
    assert all(one.dtype == kind for one in found[: len(volumes)])
    assert_close(found, expected, tolerance)


def convolution_inputs(name, shape=SHAPE, channels=16, images=1, kind=torch.float32):
    """Return volumes, weights, and the numbers of the inputs without a gradient, of each operation but the norm."""
    items, *sides = shape
    if name == "convolve_strided_pair":
        weights = [draw(channels, images, 3, 3, 3, kind=kind) for _ in range(2)]
        return [draw(items, images, *sides, kind=kind)], weights, (0,)
    if name == "convolve_with_residual":
        return [draw(items, 2, *sides, kind=kind)], [draw(2, 2, 3, 3, 3, kind=kind), draw(2)], ()
    if name == "convolve_transposed":
        halves = [side // 2 for side in sides]
        return [draw(items, channels, *halves, kind=kind)], [draw(channels, 2, 3, 3, 3, kind=kind)], ()
    return [draw(items, channels, *sides, kind=kind)], [draw(channels, channels, 3, 3, 3, kind=kind)], ()


CONVOLUTIONS = ["convolve_strided_pair", "convolve_with_residual", "convolve_transposed", "convolve_mirrored"]


@pytest.mark.parametrize("kind", [torch.float32, torch.float16], ids=["fp32", "half"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_is_its_reference(kernels, name, kind):
    torch.manual_seed(0)
    volumes, parameters, without = convolution_inputs(name, kind=kind)
    # Of a layer as wide as these, weights are about as small; sums then are about 1, as a network has them.
    parameters = [(one / 8).to(kind).double() for one in parameters]
    tolerance = FP32 if kind is torch.float32 else HALF
    assert_convolves_as_its_reference(kernels, name, volumes, parameters, kind, tolerance, without)


@few
@given(
    st.sampled_from(CONVOLUTIONS[:3]),
    st.tuples(st.integers(1, 3), *[st.integers(1, 5).map(lambda half: 2 * half)] * 3),
    st.sampled_from([16, 32]),
    st.sampled_from([1, 2]),
)
def test_a_convolution_is_its_reference_for_any_even_sides(kernels, name, shape, channels, images):
    torch.manual_seed(1)
    volumes, parameters, without = convolution_inputs(name, shape, channels, images)
    assert_convolves_as_its_reference(kernels, name, volumes, parameters, without=without)


def weights_of_whole_numbers(*shape):
    """Return weights all different from each other, exact in any precision."""
    return torch.arange(1.0, 1 + math.prod(shape) * 27).view(*shape, 3, 3, 3)


def test_a_bright_voxel_gives_the_mirrored_weights_worked_out_by_hand(kernels):
    weights, bias = weights_of_whole_numbers(2, 2), torch.tensor([1000.0, 2000.0])
    volume = torch.zeros(1, 2, 4, 6, 8)
    volume[0, 1, 2, 3, 0] = 1  # at the side of z: what would lie outside is cut off
    expected = bias.view(1, 2, 1, 1, 1) + volume
    expected[0, :, 1:4, 2:5, 0:2] += weights[:, 1].flip(1, 2, 3)[..., 1:]
    found = kernels.convolve_with_residual(on_device(volume), weights.to(DEVICE), bias.to(DEVICE))
    assert torch.equal(found.cpu(), expected)


def test_a_bright_voxel_of_images_gives_every_other_weight(kernels):
    # Result p of a stride of 2 reads voxels 2p−1, 2p, 2p+1: voxel 2 is in the middle of result 1; voxel 3 comes last in 1, and
    # first in 2.
    first, second = weights_of_whole_numbers(16, 1), -weights_of_whole_numbers(16, 1)
    images = torch.zeros(1, 1, 8, 6, 10)
    images[0, 0, 2, 3, 3] = 1
    expected = torch.zeros(1, 16, 4, 3, 5)
    expected[0, :, 1, 1:3, 1:3] = first[:, 0, 1].flip(1, 2)[:, ::2, ::2]
    found = kernels.convolve_strided_pair(on_device(images), first.to(DEVICE), second.to(DEVICE))
    assert [torch.equal(one.cpu(), other) for one, other in zip(found, (expected, -expected), strict=True)] == [True, True]


def test_a_bright_cell_gives_the_weights_themselves_where_a_convolution_is_transposed(kernels):
    # Cell p writes voxels 2p−1, 2p, 2p+1.
    weights = weights_of_whole_numbers(16, 2)
    cells = torch.zeros(1, 16, 2, 3, 2)
    cells[0, 5, 0, 1, 1] = 1
    expected = torch.zeros(1, 2, 4, 6, 4)
    expected[0, :, 0:2, 1:4, 1:4] = weights[5, :, 1:]
    assert torch.equal(kernels.convolve_transposed(on_device(cells), weights.to(DEVICE)).cpu(), expected)


def test_the_gradient_of_one_result_is_the_weights_it_was_made_of(kernels):
    weights = weights_of_whole_numbers(16, 16)
    x = on_device(torch.zeros(1, 16, 4, 5, 6)).requires_grad_()
    kernels.convolve_mirrored(x, weights.to(DEVICE))[0, 3, 1, 2, 3].backward()
    expected = torch.zeros(1, 16, 4, 5, 6)
    expected[0, :, 0:3, 1:4, 2:5] = weights[3]
    assert torch.equal(x.grad.cpu(), expected)


def norm_results(operations, x, norm, values, kind=None, training=True):
    """Return outputs, gradients and running statistics of a norm.

    `values`: PReLU's slope, what the convolution left out, and, where there is a residual, it and its bias.
    """
    slope, conv_bias, *residual = values
    norm = copy.deepcopy(norm).double() if kind is None else copy.deepcopy(norm).to(DEVICE)
    norm.train(training)
    if kind is not None:
        x, slope, conv_bias = on_device(x, kind), on_device(slope), on_device(conv_bias)
        residual = [on_device(one, kind if one.dim() == 5 else torch.float32) for one in residual]
    needed = [one.clone().requires_grad_() for one in (x, slope, *residual)]
    out = operations.norm_activate(needed[0], norm, needed[1], conv_bias, *needed[2:])
    if not training:
        return [out]
    return [*differentiate((out,), [*needed, norm.weight, norm.bias]), norm.running_mean, norm.running_var]


def draw_norm(channels, shape, residual, kind=torch.float32):
    """Return a volume, a norm of some state, and the rest that a norm is computed from."""
    items, *sides = shape
    norm = nn.BatchNorm3d(channels)
    for values in (norm.weight, norm.bias, norm.running_mean):
        nn.init.normal_(values)
    nn.init.uniform_(norm.running_var, 0.5, 2.0)
    x = (2 * torch.randn(items, channels, *sides) + 3).to(kind).double()
    values = [torch.tensor([0.25]).double(), draw(channels)]
    return x, norm, [*values, draw(*x.shape, kind=kind), draw(channels)] if residual else values


@pytest.mark.parametrize("training", [True, False], ids=["training", "validation"])
@pytest.mark.parametrize("residual", [False, True], ids=["alone", "with residual"])
@pytest.mark.parametrize("channels", [2, 16, 32])
def test_a_norm_is_its_reference(kernels, channels, residual, training):
    torch.manual_seed(0)
    x, norm, values = draw_norm(channels, (4, 8, 4, 6), residual)
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
    st.integers(0, 5).map(lambda power: 2**power),
    st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.integers(1, 4)),
    st.booleans(),
)
def test_a_norm_is_its_reference_for_any_shape_of_whole_rows(kernels, channels, shape, residual):
    torch.manual_seed(1)
    items, x, *sides = shape
    x, norm, values = draw_norm(channels, (items, x * max(256 // channels, 2), *sides), residual)
    assert_close(norm_results(kernels, x, norm, values, torch.float32), norm_results(references, x, norm, values))


def test_a_norm_of_four_voxels_worked_out_by_hand(kernels):
    """A channel of 5, 1, 5 and 1: mean 3, variance 4; normed 1 and −1, whatever the two numbers are: their gradient is 0."""
    x = on_device(torch.tensor([5.0, 1.0]).view(1, 1, 2, 1, 1).repeat(2, 64, 1, 1, 1)).requires_grad_()
    norm = nn.BatchNorm3d(64, eps=0.0).to(DEVICE)
    nn.init.constant_(norm.weight, 3.0)
    nn.init.constant_(norm.bias, 1.0)
    slope = torch.tensor([0.25], device=DEVICE, requires_grad=True)
    conv_bias, residual_bias = (torch.full((64,), value, device=DEVICE, requires_grad=True) for value in (10.0, 1000.0))
    out = kernels.norm_activate(x, norm, slope, conv_bias, torch.full_like(x, 100.0), residual_bias)
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


@pytest.mark.parametrize(("channels", "voxels"), [(24, 32), (512, 2), (16, 17)])
def test_a_volume_that_makes_no_whole_rows_is_refused(kernels, channels, voxels):
    x = torch.zeros(1, channels, voxels, 1, 1, device=DEVICE)
    bias = torch.zeros(channels, device=DEVICE)
    with pytest.raises(ValueError, match=f"{channels} channels over {voxels} voxels"):
        kernels.norm_activate(x, nn.BatchNorm3d(channels).to(DEVICE), bias[:1], bias)


def test_a_norm_trains_on_more_than_one_voxel(operations):
    x, bias, norm = torch.ones(1, 256, 1, 1, 1, device=DEVICE), torch.zeros(256, device=DEVICE), nn.BatchNorm3d(256).to(DEVICE)
    with pytest.raises(ValueError, match="more than"):
        operations.norm_activate(x, norm, bias[:1], bias)
    assert torch.equal(norm.running_var, torch.ones(256, device=DEVICE))
    # In validation it norms by what it knows, a mean of 0 and a variance of 1.
    torch.testing.assert_close(operations.norm_activate(x, norm.eval(), bias[:1], bias), x)


@pytest.mark.parametrize("sides", [(5, 4, 4), (4, 5, 4), (4, 4, 5)])
@pytest.mark.parametrize("name", ["convolve_strided_pair", "convolve_with_residual"])
def test_a_volume_that_makes_no_whole_cells_is_refused(kernels, name, sides):
    volumes, parameters, _ = convolution_inputs(name, (1, *sides))
    with pytest.raises(ValueError, match="{} × {} × {} voxels does not divide into cells".format(*sides)):
        getattr(kernels, name)(*map(on_device, volumes + parameters))


def test_images_that_require_a_gradient_are_refused(kernels):
    images, first, second = torch.zeros(1, 1, 4, 4, 4), torch.zeros(16, 1, 3, 3, 3), torch.zeros(16, 1, 3, 3, 3)
    with pytest.raises(ValueError, match="no gradient of their images"):
        kernels.convolve_strided_pair(on_device(images).requires_grad_(), first.to(DEVICE), second.to(DEVICE))


LAYOUTS = {
    "channels first": lambda volume: volume.contiguous(),
    "cut out of a wider one": lambda volume: torch.cat([volume, volume], dim=1)[:, volume.shape[1] :],
    "one number for all voxels": lambda volume: volume.mean().expand(volume.shape),
}


@pytest.mark.parametrize("name", [*CONVOLUTIONS, "norm_activate"])
@pytest.mark.parametrize("lay_out", LAYOUTS.values(), ids=LAYOUTS)
def test_any_layout_of_volumes_and_gradients_serves(kernels, name, lay_out):
    torch.manual_seed(0)
    operation = getattr(kernels, name)
    if name == "norm_activate":
        x, norm, (slope, conv_bias, residual, residual_bias) = draw_norm(4, SHAPE, residual=True)
        norm, conv_bias = norm.to(DEVICE), on_device(conv_bias)
        volumes, parameters, without = [x, residual], [slope, residual_bias], ()

        def operation(x, residual, slope, residual_bias):
            return kernels.norm_activate(x, norm, slope, conv_bias, residual, residual_bias)
    else:
        volumes, parameters, without = convolution_inputs(name)
    results = []
    for lies in (lambda volume: on_device(lay_out(volume)), lay_out):
        inputs = [*(lies(on_device(one)) for one in volumes), *(on_device(one) for one in parameters)]
        needed = [one.detach().requires_grad_() for number, one in enumerate(inputs) if number not in without]
        out = operation(*inputs[: len(without)], *needed)
        outs = out if isinstance(out, tuple) else (out,)
        torch.manual_seed(3)
        results.append([*outs, *torch.autograd.grad(outs, needed, [lies(on_device(torch.randn(one.shape))) for one in outs])])
    assert_close(results[1], results[0])


def two_logits(differences):
    """Return logits of background and foreground, shape (1, 2, voxels, 1, 1), of these differences."""
    foreground = torch.tensor(differences).view(1, 1, -1, 1, 1)
    return torch.cat([torch.zeros_like(foreground), foreground], dim=1)


def test_the_loss_of_two_voxels_worked_out_by_hand(modules):
    """Chances of the foreground ½, which it is, and ¾, which it is not; no smoothing."""
    logits = on_device(two_logits([0.0, math.log(3)])).requires_grad_()
    labels = torch.tensor([1, 0], dtype=torch.uint8, device=DEVICE).view(1, 1, 2, 1, 1)
    lost = modules.loss.dice_cross_entropy(logits, labels, 0.0, 2.0)
    # Dice of squares: foreground 2·½ / (1/4 + 9/16 + 1) = 16/29; background 2·¼ / (1/4 + 1/16 + 1) = 8/21.
    dice, entropy = 1 - (16 / 29 + 8 / 21) / 2, (math.log(2) + math.log(4)) / 2
    assert float(lost.detach()) == pytest.approx(2 * (dice + entropy), rel=1e-6)
    lost.backward()
    # Of the first voxel's chance p: (2 − 2p · 16/29) / (29/16) of the foreground's Dice; of its 1−p: −2(1−p) · (8/21) / (21/16)
    # of the background's. Of the logit: these by p(1−p) = ¼; and of the entropy, of two voxels, (½ − 1) / 2.
    of_dice = -0.5 * ((2 - 16 / 29) / (29 / 16) + (8 / 21) / (21 / 16)) / 4
    gradient = logits.grad.cpu()[0, :, 0, 0, 0].tolist()
    assert gradient == pytest.approx([-2 * (of_dice - 0.25), 2 * (of_dice - 0.25)], rel=1e-5)


@pytest.mark.filterwarnings("ignore:overflow encountered in exp")  # the interpreter's: 1 / (1 + infinity) is right
@pytest.mark.parametrize("labelled", ["some", "none", "all"])
@pytest.mark.parametrize("kind", [torch.float32, torch.float16], ids=["fp32", "half"])
def test_the_loss_and_its_gradient_are_monais(modules, kind, labelled):
    torch.manual_seed(0)
    values = (3 * torch.randn(3, 2, 12, 10, 8)).to(kind).double()  # more voxels than one program takes at a time
    values[0, :, :2] *= 40  # and some that are all but certain
    labels = {
        "some": torch.randint(0, 2, (3, 1, 12, 10, 8)),
        "none": torch.zeros(3, 1, 12, 10, 8),
        "all": torch.ones(3, 1, 12, 10, 8),
    }[labelled].byte()
    common = {"to_onehot_y": True, "softmax": True, "squared_pred": True, "batch": True}
    monais = DiceCELoss(**common, smooth_nr=0.1, smooth_dr=0.1, lambda_dice=0.5, lambda_ce=0.5)
    results = []
    for kind_of, loss in ((None, monais), (kind, lambda *inputs: modules.loss.dice_cross_entropy(*inputs, 0.1, 0.5))):
        logits = (values.clone() if kind_of is None else on_device(values, kind_of)).requires_grad_()
        lost = loss(logits, labels.to(logits.device))
        (1000 * lost).backward()  # scaled, as half precision has it; that makes each voxel's gradient about 1
        results.append([lost, logits.grad])
    assert_close(results[1], results[0], FP32 if kind is torch.float32 else HALF)


@few
@given(
    st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 9), st.integers(1, 40)),
    st.floats(1e-5, 1),
    st.floats(0.1, 2),
)
def test_the_loss_is_monais_for_any_shape(modules, shape, smooth, weight):
    torch.manual_seed(2)
    items, *sides = shape
    values, labels = draw(items, 2, *sides), torch.randint(0, 2, (items, 1, *sides)).byte()
    common = {"to_onehot_y": True, "softmax": True, "squared_pred": True, "batch": True}
    monais = DiceCELoss(**common, smooth_nr=smooth, smooth_dr=smooth, lambda_dice=weight, lambda_ce=weight)
    found = modules.loss.dice_cross_entropy(on_device(values), labels.to(DEVICE), smooth, weight)
    assert_close([found], [monais(values, labels)])


@pytest.mark.parametrize("shape", [(2, 1, 4, 4, 4), (1, 1, 4, 4, 5), (1, 1, 4, 8, 2), (1, 2, 4, 4, 4)])
def test_labels_of_other_voxels_than_the_logits_are_refused(modules, shape):
    logits, labels = torch.zeros(1, 2, 4, 4, 4, device=DEVICE), torch.zeros(shape, dtype=torch.uint8, device=DEVICE)
    with pytest.raises(ValueError, match="do not go with labels of shape"):
        modules.loss.dice_cross_entropy(logits, labels, 0.1, 1.0)


def test_few_programs_share_much_work(modules, kernels, monkeypatch):
    """As on a GPU, where a volume has more tiles than there are programs: each goes on until all are done."""
    torch.manual_seed(0)
    for module in (modules.norm, modules.few_channels, modules.loss):
        monkeypatch.setattr(module, "_PROGRAMS", 3)
    x, norm, values = draw_norm(32, (4, 8, 6, 10), residual=False)
    assert_close(norm_results(kernels, x, norm, values, torch.float32), norm_results(references, x, norm, values))
    for name in CONVOLUTIONS[:3]:
        volumes, parameters, without = convolution_inputs(name)
        assert_convolves_as_its_reference(kernels, name, volumes, parameters, without=without)
    logits, labels = draw(2, 2, 21, 10, 20), torch.randint(0, 2, (2, 1, 21, 10, 20)).byte()
    monais = DiceCELoss(to_onehot_y=True, softmax=True, squared_pred=True, batch=True, smooth_nr=0.1, smooth_dr=0.1)
    found = modules.loss.dice_cross_entropy(on_device(logits), labels.to(DEVICE), 0.1, 1.0)
    assert_close([found], [monais(logits, labels)])


# The whole network. A bias in front of a norm has a gradient of 0 but for rounding.

CHANNELS = (16, 16)  # as the documented network's first level: 2·16 channels are transposed to the logits


def counting(operations, calls):
    """Return operations that note their calls."""

    def noting(name):
        def call(*inputs):
            calls.add(name)
            return getattr(operations, name)(*inputs)

        return call

    return Operations(**{name: noting(name) for name in Operations.__dataclass_fields__})


def test_a_fused_network_is_the_network(operations):
    torch.manual_seed(0)
    plain = ResidualUNet(1, 2, CHANNELS)
    for parameter in plain.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)  # norms and slopes of their own
    calls: set[str] = set()
    fused = fuse(copy.deepcopy(plain), counting(operations, calls), direct=True)
    fused = fused.to(DEVICE, memory_format=torch.channels_last_3d)
    plain = plain.double()
    assert list(fused.state_dict()) == list(plain.state_dict())
    images = torch.rand(2, 1, 16, 8, 8)
    outs = [plain(images.double()), fused(images.to(DEVICE))]
    assert calls == set(Operations.__dataclass_fields__)
    for out in outs:
        out.square().sum().backward()
    logits, gradients, statistics = [], [], []
    for out, network in zip(outs, (plain, fused), strict=True):
        logits.append([out])
        gradients.append([p.grad if p.grad is not None else torch.zeros_like(p) for p in network.parameters()])
        statistics.append([values for name, values in network.named_buffers() if "running" in name])
    # Through all layers rounding adds up.
    assert_close(logits[1], logits[0], 16 * FP32)
    assert_close(statistics[1], statistics[0], 16 * FP32)
    scale = max(float(one.abs().max()) for one in gradients[0])
    for found, expected in zip(gradients[1], gradients[0], strict=True):
        assert float((found.cpu().double() - expected).abs().max()) < 16 * FP32 * scale
    plain.eval()
    fused.eval()
    with torch.no_grad():
        assert_close([fused(images.to(DEVICE))], [plain(images.double())], 16 * FP32)


def test_norms_alone_may_be_fused(operations):
    calls: set[str] = set()
    torch.manual_seed(0)
    plain = ResidualUNet(1, 2, CHANNELS)
    fused = fuse(copy.deepcopy(plain), counting(operations, calls), direct=False).to(DEVICE)
    images = torch.rand(2, 1, 16, 8, 8)
    assert_close([fused(images.to(DEVICE))], [plain.double()(images.double())], 16 * FP32)
    assert calls == {"norm_activate"}


def test_dropout_is_refused():
    with pytest.raises(ValueError, match=r"dropout of 0\.1"):
        fuse(ResidualUNet(1, 2, (4, 8), dropout=0.1), references, direct=False)


def test_weights_of_a_fused_network_serve_the_plain_one_and_the_other_way_round():
    torch.manual_seed(0)
    plain, other = ResidualUNet(1, 2, (4, 8)), ResidualUNet(1, 2, (4, 8))
    fused = fuse(other, references, direct=True)
    fused.load_state_dict(plain.state_dict())
    plain.load_state_dict(fused.state_dict())
    images = torch.rand(1, 1, 8, 8, 8)
    torch.testing.assert_close(fused.eval()(images), plain.eval()(images))
