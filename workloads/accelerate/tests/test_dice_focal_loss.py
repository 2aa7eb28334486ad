"""Dice and focal loss of overlapping regions in one are MONAI's: the loss and its gradient."""

import math

import pytest
import torch
from monai.losses import DiceFocalLoss

from workloads.spleen.tests.training.kernel_checks import DEVICE, FP32, HALF, assert_close, draw, on_device

pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.mark.parametrize(("kind", "tolerance"), [(torch.float32, FP32), (torch.float16, HALF)], ids=["fp32", "half"])
def test_the_loss_and_its_gradient_are_monais(kind, tolerance):
    from speedproof_accelerate.kernels.dice_focal_loss import dice_focal_loss

    torch.manual_seed(0)
    logits = 3 * draw(2, 3, 5, 4, 7, kind=kind)
    labels = torch.randint(0, 8, (2, 1, 5, 4, 7), dtype=torch.uint8)
    regions = torch.cat([labels >> number & 1 for number in range(3)], dim=1).double()
    own = logits.to(kind).double().requires_grad_()
    expected = DiceFocalLoss(smooth_nr=1e-5, smooth_dr=1e-5, squared_pred=True, sigmoid=True, batch=True)(own, regions)
    ours = on_device(logits, kind).requires_grad_()
    found = dice_focal_loss(ours, labels.to(DEVICE), 1e-5)
    scale = 2.0**10  # as a gradient scaler has it: gradients of single voxels are small
    (below,), (of_own,) = torch.autograd.grad(scale * found, ours), torch.autograd.grad(scale * expected, own)
    assert_close([found, below], [expected, of_own], tolerance)


def test_the_loss_of_a_voxel_worked_out_by_hand():
    """Chances of ¾ and ½, of which the first is right: Dice 2·¾ / (9/16 + 1) and 0; focal (¼)² · ln(4/3) and ¼ · ln 2."""
    from speedproof_accelerate.kernels.dice_focal_loss import dice_focal_loss

    logits = on_device(torch.tensor([math.log(3), 0.0]).view(1, 2, 1, 1, 1))
    labels = torch.ones((1, 1, 1, 1, 1), dtype=torch.uint8, device=DEVICE)
    dice = 1 - (2 * 0.75 / (9 / 16 + 1) + 0) / 2
    focal = (math.log(4 / 3) / 16 + math.log(2) / 4) / 2
    assert dice_focal_loss(logits, labels, 0.0).item() == pytest.approx(dice + focal, rel=1e-6)


def test_labels_of_other_voxels_are_refused():
    from speedproof_accelerate.kernels.dice_focal_loss import dice_focal_loss

    with pytest.raises(
        ValueError, match=r"logits of shape \(1, 3, 2, 2, 2\) do not go with torch.uint8 of shape \(1, 1, 2, 2, 3\)"
    ):
        dice_focal_loss(torch.rand(1, 3, 2, 2, 2), torch.zeros(1, 1, 2, 2, 3, dtype=torch.uint8), 1e-5)
