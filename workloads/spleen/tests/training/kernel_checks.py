"""Inputs of kernels, and how their results are compared with references.

References are computed by torch in float64 on the processor, from the same numbers. Without a GPU, Triton interprets the
kernels (see conftest.py); with one, they are compiled and run there.
"""

import copy

import torch
from hypothesis import settings
from torch import nn

from speedproof_accelerate.kernels import reference
from speedproof_spleen.training.fused_network import Operations

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# Sums of up to some thousand products, each rounded by at most 2^-24 of its value: less than 2^-16 of the largest result.
FP32 = 2**-16
# Half precision besides rounds each result once, to 11 bits; sums are of fp32.
HALF = 2**-11 + FP32
SHAPE = (2, 4, 6, 10)  # items, x, y, z: interpreted, each plane takes its time

# A variant that goes by all kernels, as the default `turbo` does.
TURBO = {
    "title": "Turbo",
    "cache": "resident",
    "track_meta": False,
    "scoring": "device",
    "toolkit": "torch",
    "batch_size": 2,
    "loss": {"name": "dice_ce", "smooth": 0.1, "weight": 0.5},
    "optimizer": {"name": "adam", "learning_rate": 0.01, "fused": True},
    "kernels": ["norm", "convolutions", "loss", "crops"],
    "launch": "graphs",
    "epochs": 1,
    "validate_every": 1,
}

few = settings(max_examples=5)  # interpreted, a kernel takes a tenth of a second and more

references = Operations.of(reference)

CONVOLUTIONS = {  # cases, and the operation of each
    "conv3d": "conv3d",
    "conv3d_and_input": "conv3d_and_input",
    "conv3d_plus_input": "conv3d_plus_input",
    "conv3d_strided": "conv3d_strided_pair",
    "conv3d_strided_wide": "conv3d_strided_pair",
    "conv_transpose3d": "conv_transpose3d_pair",
    "conv_transpose3d_wide": "conv_transpose3d_pair",
}


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


def results_of(operation, volumes, parameters, kind=None, without=(), parameter_kind=torch.float32):
    """Return outputs and gradients of an operation of volumes and parameters; `kind`: of a kernel's volumes, None: reference.

    Parameters are in fp32, as autocast has them, unless `parameter_kind` says otherwise. `without`: numbers of the inputs that
    need no gradient.
    """
    if kind is None:
        inputs = [one.clone() for one in (*volumes, *parameters)]
    else:
        inputs = [*(on_device(one, kind) for one in volumes), *(on_device(one, parameter_kind) for one in parameters)]
    needed = [one.requires_grad_() for number, one in enumerate(inputs) if number not in without]
    out = operation(*inputs)
    return differentiate(out if isinstance(out, tuple) else (out,), needed)


def assert_close(found, expected, tolerance=FP32):
    """Compare lists of tensors, each by its largest value."""
    assert len(found) == len(expected)
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert one.shape == other.shape
        one, other = one.detach().cpu().double(), other.detach().cpu().double()
        apart = float((one - other).abs().max())
        allowed = tolerance * max(float(other.abs().max()), 1.0)
        assert apart <= allowed, f"result {number} is off by {apart:.2e}, more than {allowed:.2e}"


def assert_convolves_as_its_reference(
    kernels, name, volumes, parameters, kind=torch.float32, tolerance=FP32, without=(), parameter_kind=torch.float32
):
    found = results_of(getattr(kernels, CONVOLUTIONS[name]), volumes, parameters, kind, without, parameter_kind)
    expected = results_of(getattr(references, CONVOLUTIONS[name]), volumes, parameters, None, without)
    assert {one.dtype for one in found[: -len(parameters)]} == {kind}
    assert {one.dtype for one in found[-len(parameters) :]} == {parameter_kind}
    assert_close(found, expected, tolerance)


def convolution_inputs(name, shape=SHAPE, channels=16, images=1, kind=torch.float32):
    """Return volumes, weights, and the numbers of the inputs without a gradient, of each case of a convolution.

    The wide ones always have 16 channels at full resolution and 32 in each volume at half of it.
    """
    items, *sides = shape
    halves = [side // 2 for side in sides]
    if name == "conv3d_strided":
        weights = [draw(channels, images, 3, 3, 3, kind=kind) for _ in range(2)]
        return [draw(items, images, *sides, kind=kind)], weights, (0,)
    if name == "conv3d_plus_input":
        return [draw(items, 2, *sides, kind=kind)], [draw(2, 2, 3, 3, 3, kind=kind), draw(2)], ()
    if name == "conv_transpose3d":
        return [draw(items, channels, *halves, kind=kind) for _ in range(2)], [draw(2 * channels, 2, 3, 3, 3, kind=kind)], ()
    if name == "conv3d_strided_wide":
        return [draw(items, 16, *sides, kind=kind)], [draw(32, 16, 3, 3, 3, kind=kind) for _ in range(2)], ()
    if name == "conv_transpose3d_wide":
        return [draw(items, 32, *halves, kind=kind) for _ in range(2)], [draw(64, 16, 3, 3, 3, kind=kind)], ()
    return [draw(items, channels, *sides, kind=kind)], [draw(channels, channels, 3, 3, 3, kind=kind)], ()


def take_patches(resident, chosen, corners, precision):
    """Return the patches of resident volumes at these corners: images in this precision, and labels."""
    patches = resident.empty_patches(len(chosen), precision)
    resident.gather(chosen, corners, *patches)
    return patches


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
    out = operations.batch_norm_prelu(needed[0], norm, needed[1], conv_bias, *needed[2:])
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
