"""The network in PyTorch and in Keras: as large as documented, and the same function of the same weights."""

import importlib.util
import os

import numpy as np
import pytest
import torch

from speedproof_polyp.torch_network import Excitation, ResUNetPlusPlus, SameConvolution, count_weights

needs_keras = pytest.mark.skipif(importlib.util.find_spec("keras") is None, reason="needs Keras: `pip install '.[frameworks]'`")


@pytest.fixture
def keras():
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras

    return keras


def test_it_has_the_documented_number_of_weights():
    """4,070,385, as Keras' summary of the documented network says."""
    assert count_weights(ResUNetPlusPlus()) == 4_070_385


@needs_keras
def test_keras_builds_it_of_the_documented_number_of_weights(keras):
    from speedproof_polyp.keras_network import build_network

    assert build_network(keras, pixels=32).count_params() == 4_070_385


def test_it_gives_a_probability_of_each_pixel():
    network = ResUNetPlusPlus(filters=2)
    found = network(torch.rand(2, 3, 32, 24))
    assert found.shape == (2, 1, 32, 24)
    assert 0 <= found.min() < found.max() <= 1


def test_a_convolution_of_stride_2_pads_as_keras_does():
    """Of 4 columns 3 taps start at columns 0 and 2; the last one reaches over the end, where Keras' `same` adds a zero."""
    layer = SameConvolution(1, 1, 3, 2)
    with torch.no_grad():
        layer.weight.fill_(1)
        layer.bias.zero_()
    image = torch.arange(16.0).reshape(1, 1, 4, 4)
    assert layer(image).flatten().tolist() == [45, 39, 66, 50]  # 0+1+2+4+5+6+8+9+10, 2+3+6+7+10+11, 8+…+14, 10+11+14+15


def test_excitations_begin_with_hes_weights():
    """Of 64 inputs their deviation is √(2 / 64) = 0.177, and none is beyond 2 · 0.177 / 0.8796 = 0.402."""
    torch.manual_seed(0)
    weights = Excitation(512).excite.weight
    assert weights.shape == (512, 64)
    assert weights.std().item() == pytest.approx(0.177, rel=0.02)
    assert 0.37 < weights.abs().max().item() <= 0.402


@needs_keras
def test_keras_draws_initial_weights_as_documented(keras):
    """He's in squeeze and excitation alone; the dilated convolutions before the plain one."""
    from speedproof_polyp.keras_network import build_network

    layers = build_network(keras, pixels=32, filters=2).layers
    kinds = {(type(layer).__name__, type(layer.kernel_initializer).__name__) for layer in layers if hasattr(layer, "kernel")}
    assert kinds == {("Conv2D", "GlorotUniform"), ("Dense", "HeNormal")}
    rates = [layer.dilation_rate[0] for layer in layers if getattr(layer, "dilation_rate", (1,))[0] > 1]
    assert rates == [6, 12, 18] * 2


def transfer(network, ours):
    """Give `ours` the weights of Keras' network: layers of one kind and shape come in the same order in both."""
    arranged = {4: (3, 2, 0, 1), 2: (1, 0), 1: (0,)}
    free = [[np.asarray(weight) for weight in layer.get_weights()] for layer in network.layers if layer.get_weights()]
    for module in order_as_keras(ours):
        is_norm = isinstance(module, torch.nn.BatchNorm2d)
        shapes = [w[0].transpose(arranged[w[0].ndim]).shape if (len(w) == 4) == is_norm else None for w in free]
        weights = free.pop(shapes.index(tuple(module.weight.shape)))
        with torch.no_grad():
            module.weight.copy_(torch.from_numpy(weights[0].transpose(arranged[weights[0].ndim]).copy()))
            if len(weights) > 1:
                module.bias.copy_(torch.from_numpy(weights[1]))
            if is_norm:
                module.running_mean.copy_(torch.from_numpy(weights[2]))
                module.running_var.copy_(torch.from_numpy(weights[3]))
    assert not free


def order_as_keras(ours):
    """Yield modules with weights in the order in which Keras lists its layers of one kind and shape: that of the calls."""
    seen = []
    kinds = (torch.nn.Conv2d, torch.nn.Linear, torch.nn.BatchNorm2d)
    own = [module for module in ours.modules() if isinstance(module, kinds)]
    hooks = [module.register_forward_pre_hook(lambda module, _: seen.append(module)) for module in own]
    ours(torch.zeros(1, 3, 32, 32))
    for hook in hooks:
        hook.remove()
    return seen


@needs_keras
def test_both_are_the_same_function_of_the_same_weights(keras):
    from speedproof_polyp.keras_network import build_network

    keras.utils.set_random_seed(0)
    network, ours = build_network(keras, pixels=32, filters=4), ResUNetPlusPlus(filters=4).eval()
    random = np.random.default_rng(0)
    # Nothing is left at 0 or 1: biases, running means and variances neither, nor, with half of the others, any probability.
    for layer in network.layers:
        layer.set_weights([w / 2 if w.ndim > 1 else random.uniform(0.5, 1.5, w.shape) for w in layer.get_weights()])
    transfer(network, ours)
    image = np.random.default_rng(0).random((2, 32, 32, 3), dtype=np.float32)
    theirs = keras.ops.convert_to_numpy(network(image, training=False))
    with torch.no_grad():
        found = ours(torch.from_numpy(image).permute(0, 3, 1, 2)).permute(0, 2, 3, 1).numpy()
    assert theirs.std() > 0.01
    assert 0.01 < theirs.min() < theirs.max() < 0.99
    np.testing.assert_allclose(found, theirs, atol=1e-5)
