"""Dice and cross entropy in one are MONAI's: the loss and its gradient, in fp32 and in half precision."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from monai.losses import DiceCELoss

from workloads.spleen.tests.training.kernel_checks import DEVICE, FP32, HALF, assert_close, draw, few, on_device

pytestmark = pytest.mark.usefixtures("exact_products")


def two_logits(differences):
    """Return logits of background and foreground, shape (1, 2, voxels, 1, 1), of these differences."""
    foreground = torch.tensor(differences).view(1, 1, -1, 1, 1)
    return torch.cat([torch.zeros_like(foreground), foreground], dim=1)


def test_the_loss_of_two_voxels_worked_out_by_hand(modules):
    """Chances of the foreground ½, which it is, and ¾, which it is not; no smoothing."""
    logits = on_device(two_logits([0.0, math.log(3)])).requires_grad_()
    labels = torch.tensor([1, 0], dtype=torch.uint8, device=DEVICE).view(1, 1, 2, 1, 1)
    lost = modules.dice_ce_loss.dice_ce_loss(logits, labels, 0.0, 2.0)
    # Dice of squares: foreground 2·½ / (1/4 + 9/16 + 1) = 16/29; background 2·¼ / (1/4 + 1/16 + 1) = 8/21.
    dice, entropy = 1 - (16 / 29 + 8 / 21) / 2, (math.log(2) + math.log(4)) / 2
    assert float(lost.detach()) == pytest.approx(2 * (dice + entropy), rel=1e-6)
    lost.backward()
    # Of the first voxel's chance p: (2 − 2p · 16/29) / (29/16) of the foreground's Dice; of its 1−p: −2(1−p) · (8/21) / (21/16)
    # of the background's. Of the logit: these by p(1−p) = ¼; and of the entropy, of two voxels, (½ − 1) / 2.
    of_dice = -0.5 * ((2 - 16 / 29) / (29 / 16) + (8 / 21) / (21 / 16)) / 4
    gradient = logits.grad.cpu()[0, :, 0, 0, 0].tolist()
    assert gradient == pytest.approx([-2 * (of_dice - 0.25), 2 * (of_dice - 0.25)], rel=1e-5)


@pytest.mark.parametrize(("programs", "unit"), [(1, 1), (3, 1), (1056, 1), (1024, 2**20)])
def test_what_programs_found_is_added_up_to_the_loss_and_its_factors_worked_out_by_hand(modules, programs, unit):
    """Of five voxels each, or so many times more that their number takes more than 32 bits."""
    found = unit * torch.tensor([1.0, 1.0, 3.0, 2.0, 3.0, 2.5], device=DEVICE)  # of each program
    partial = found[:, None].repeat(1, programs)
    lost, factors = torch.empty((), device=DEVICE), torch.empty(5, device=DEVICE)
    every = programs * unit
    numbers = {"programs": programs, "voxels": 5 * every, "smooth": 0.0, "weight": 20.0}
    modules.dice_ce_loss.dice_ce_finish[(1,)](partial, lost, factors, **numbers, PARTS=modules.dice_ce_loss._PARTS)
    # Dice of the foreground 2·1 / (1 + 3), of the background 2·2 / (3 + 5 − 3); entropy 2.5 / 5.
    assert float(lost) == pytest.approx(20 * ((1 / 2 + 1 / 5) / 2 + 1 / 2), rel=1e-6)
    expected = [-20 / 4, 20 / 4 * 1 / 2, -20 / 5, 20 / 5 * 4 / 5, 20 / 5]
    assert (factors * every).tolist() == pytest.approx(expected, rel=1e-6)


def test_little_weighs_where_nearly_all_is_of_the_other_class(modules):
    """2²⁴ voxels, all of the foreground; the squares of the background's chances sum to ½, and 2²⁴ + ½ is 2²⁴ in fp32."""
    partial = torch.tensor([[2.0**24], [2.0**24], [2.0**24], [0.0], [0.5], [0.0]], device=DEVICE)
    lost, factors = torch.empty((), device=DEVICE), torch.empty(5, device=DEVICE)
    modules.dice_ce_loss.dice_ce_finish[(1,)](partial, lost, factors, 1, 2**24, 0.5, 1.0, PARTS=modules.dice_ce_loss._PARTS)
    # Dice of the foreground 1, of the background ½ / (½ + ½).
    assert float(lost) == pytest.approx(1 / 4, rel=1e-6)
    assert factors[2:4].tolist() == pytest.approx([-1, 1 / 2], rel=1e-6)


@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.float64], ids=["fp32", "half", "double"])
@pytest.mark.parametrize("lies", ["alone", "in a row", "expanded"])
def test_the_gradient_grows_with_that_of_the_loss(modules, lies, kind):
    torch.manual_seed(4)
    logits = on_device(draw(2, 2, 6, 5, 4)).requires_grad_()
    labels = torch.randint(0, 2, (2, 1, 6, 5, 4), device=DEVICE).byte()
    lost = modules.dice_ce_loss.dice_ce_loss(logits, labels, 0.1, 0.5)
    (plain,) = torch.autograd.grad(lost, logits, retain_graph=True)
    row = torch.tensor([3.0, 1024.0], dtype=kind, device=DEVICE)
    above = {"alone": row[1].clone(), "in a row": row[1], "expanded": row[1:].expand(5)[4]}[lies]
    (scaled,) = torch.autograd.grad(lost, logits, above)
    assert float(plain.abs().max()) > 0
    assert torch.equal(scaled, 1024 * plain)


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
    for kind_of, loss in ((None, monais), (kind, lambda *inputs: modules.dice_ce_loss.dice_ce_loss(*inputs, 0.1, 0.5))):
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
    found = modules.dice_ce_loss.dice_ce_loss(on_device(values), labels.to(DEVICE), smooth, weight)
    assert_close([found], [monais(values, labels)])


@pytest.mark.parametrize("shape", [(2, 1, 4, 4, 4), (1, 1, 4, 4, 5), (1, 1, 4, 8, 2), (1, 2, 4, 4, 4)])
def test_labels_of_other_voxels_than_the_logits_are_refused(modules, shape):
    logits, labels = torch.zeros(1, 2, 4, 4, 4, device=DEVICE), torch.zeros(shape, dtype=torch.uint8, device=DEVICE)
    with pytest.raises(ValueError, match="do not go with labels of shape"):
        modules.dice_ce_loss.dice_ce_loss(logits, labels, 0.1, 1.0)
