"""Adam's kernel updates as torch's Adam does, from gradients of half-precision copies, which it writes."""

import pytest
import torch
from torch import nn

from speedproof_accelerate.copies import WeightCopies
from speedproof_accelerate.optimizer import Scaler
from workloads.spleen.tests.training.kernel_checks import DEVICE, assert_close

triton = pytest.importorskip("triton")
from speedproof_accelerate.kernels.fused_adam import FusedAdam  # noqa: E402

RATE, BETAS = 0.01, (0.9, 0.95)


def build(seed=0):
    """Return a network whose last weight takes several programs, channels last."""
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Conv3d(1, 8, 3, bias=False), nn.BatchNorm3d(8), nn.PReLU(), nn.Conv3d(8, 16, 3))
    return network.to(DEVICE, memory_format=torch.channels_last_3d)


def build_pair(half):
    """Return a network with its copies and our Adam, and the same network with torch's."""
    network, other = build(), build()
    copies = WeightCopies(network, half)
    return network, copies, FusedAdam(copies, RATE, BETAS), other, torch.optim.Adam(other.parameters(), RATE, BETAS)


def give_gradients(copies, other, factor=1.0):
    """Give both the same random gradients, such as half precision can hold; ours times a factor."""
    for pair, parameter in zip(copies.pair_weights(), other.parameters(), strict=True):
        gradient = torch.randn(parameter.shape).to(pair.leaf.dtype)
        pair.leaf.grad = torch.empty_like(pair.leaf).copy_(gradient * factor)
        parameter.grad = torch.empty_like(parameter).copy_(gradient)


@pytest.mark.parametrize(("half", "rounding"), [(torch.float16, 2**-11), (torch.bfloat16, 2**-7)])
def test_weights_become_what_torch_makes_them_and_copies_are_theirs(half, rounding):
    network, copies, ours, other, torchs = build_pair(half)
    for step in range(3):
        give_gradients(copies, other)
        for optimizer in (ours, torchs):
            for group in optimizer.param_groups:  # as a schedule sets it
                group["lr"] = torch.full((), RATE / (1 + step), device=DEVICE) if optimizer is ours else RATE / (1 + step)
            optimizer.step()
    assert_close(list(network.parameters()), list(other.parameters()), 2**-20)
    pairs = copies.pair_weights()
    assert [pair.leaf.dtype for pair in pairs] == [half, *[torch.float32] * 3, half, torch.float32]
    assert_close([pair.leaf for pair in pairs], [pair.weight for pair in pairs], rounding)


def test_the_first_step_by_hand():
    """Both means over their corrections are the gradient and its square: a step is the rate along the gradient's sign."""
    network, copies, ours, *_ = build_pair(torch.float16)
    before = [parameter.detach().clone() for parameter in network.parameters()]
    for pair in copies.pair_weights():
        pair.leaf.grad = torch.full_like(pair.leaf, -2.0)
    ours.step()
    assert_close(list(network.parameters()), [one + RATE for one in before], 2**-20)


def test_gradients_are_divided_by_the_scale():
    network, copies, ours, other, torchs = build_pair(torch.float16)
    for _ in range(2):
        give_gradients(copies, other, factor=64.0)
        ours.grad_scale, ours.found_inf = torch.tensor(64.0, device=DEVICE), torch.zeros((), device=DEVICE)
        ours.step()
        torchs.step()
    assert_close(list(network.parameters()), list(other.parameters()), 2**-20)


@pytest.mark.parametrize(
    ("scaler_of", "number", "value"),
    [
        (Scaler, 0, torch.inf),
        (Scaler, 0, -torch.inf),
        (Scaler, 4, torch.nan),
        (Scaler, 1, torch.nan),
        (torch.amp.GradScaler, 0, torch.inf),
        (torch.amp.GradScaler, 1, torch.nan),
    ],
)
def test_a_step_that_overflowed_is_left_out(scaler_of, number, value):
    """It does not count, either, and halves the scale. Weights 0 and 4 have copies, the other has none."""
    network, copies, ours, other, torchs = build_pair(torch.float16)
    scaler = scaler_of(DEVICE.type, init_scale=64.0)
    for overflow in (False, True, False):
        give_gradients(copies, other, factor=scaler.scale(torch.ones((), device=DEVICE)).item())
        if overflow:
            copies.pair_weights()[number].leaf.grad[-1] = value
        else:
            torchs.step()
        scaler.step(ours)
        scaler.update()
    assert scaler.get_scale() == 32.0
    assert_close(list(network.parameters()), list(other.parameters()), 2**-20)


def test_gradients_of_half_precision_are_not_unscaled_for_clipping():
    """They stay scaled, which whoever asks must learn: torch's own search refuses them."""
    _, copies, ours, other, _ = build_pair(torch.float16)
    scaler = Scaler(DEVICE.type, init_scale=64.0)
    give_gradients(copies, other, factor=scaler.scale(torch.ones((), device=DEVICE)).item())
    with pytest.raises(ValueError, match="unscale FP16 gradients"):
        scaler.unscale_(ours)


def test_a_parameter_without_a_gradient_stays():
    network, copies, ours, other, _ = build_pair(torch.float16)
    before = [parameter.detach().clone() for parameter in network.parameters()]
    give_gradients(copies, other)
    copies.pair_weights()[1].leaf.grad = None
    ours.step()
    stayed = [torch.equal(one, parameter) for one, parameter in zip(before, network.parameters(), strict=True)]
    assert stayed == [False, True, False, False, False, False]


def test_a_training_goes_on_from_a_saved_state():
    network, copies, ours, other, torchs = build_pair(torch.float16)
    give_gradients(copies, other)
    ours.step()
    torchs.step()
    saved = network.state_dict(), ours.state_dict()
    second = build(seed=1)
    copies = WeightCopies(second, torch.float16)
    continued = FusedAdam(copies, 1.0, BETAS)
    second.load_state_dict(saved[0])
    continued.load_state_dict(saved[1])
    give_gradients(copies, other)
    continued.step()
    torchs.step()
    assert_close(list(second.parameters()), list(other.parameters()), 2**-20)


def test_the_network_computes_with_the_copies():
    network = build()
    copies = WeightCopies(network, torch.bfloat16)
    images = torch.rand((2, 1, 8, 8, 8), device=DEVICE)
    with torch.autocast(DEVICE.type, torch.bfloat16):
        expected, found = network(images), copies(images)
        found.float().sum().backward()
    assert torch.equal(found, expected)
    assert network[0].weight.grad is None
    assert copies.pair_weights()[0].leaf.grad.dtype == torch.bfloat16
    assert network[1].weight.grad is not None
