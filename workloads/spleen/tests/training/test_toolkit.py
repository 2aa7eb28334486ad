"""The parts in plain torch are MONAI's: the same weights, values and gradients. And who takes them waits for no MONAI."""

import subprocess
import sys

import pytest
import torch
from pydantic import ValidationError

from speedproof_spleen.segmentation import build_case
from speedproof_spleen.variant import SpleenVariant

CPU = torch.device("cpu")
TURBO = {
    "title": "Turbo",
    "cache": "resident",
    "track_meta": False,
    "scoring": "device",
    "batch_size": 2,
    "optimizer": {"name": "adam", "learning_rate": 1e-3},
    "epochs": 1,
    "validate_every": 1,
}


def cases_with(config, **techniques):
    """Return the spleen case twice, of MONAI's parts and of those in plain torch."""
    variants = (SpleenVariant.model_validate(TURBO | techniques | {"toolkit": toolkit}) for toolkit in ("monai", "torch"))
    return [build_case("spleen", config.workload, variant, CPU) for variant in variants]


@pytest.mark.parametrize(
    "network",
    [{}, {"channels": [32, 64, 128], "dropout": 0.2}, {"channels": [4, 8]}],
    ids=["documented", "wider", "two levels"],
)
def test_the_network_has_monais_weights_and_gives_its_values_and_gradients(full_config, network):
    networks = []
    for case in cases_with(full_config, network=network):
        torch.manual_seed(7)
        networks.append(case.network())
    theirs, ours = networks
    assert {name: weight.shape for name, weight in ours.state_dict().items()} == {
        name: weight.shape for name, weight in theirs.state_dict().items()
    }
    assert all(torch.equal(weight, theirs.state_dict()[name]) for name, weight in ours.state_dict().items())
    images = torch.randn(2, 1, 32, 32, 16)
    results = []
    for one in networks:
        torch.manual_seed(3)  # of the dropout
        logits = one(images)
        logits.square().mean().backward()
        results.append([logits, *(weight.grad for weight in one.parameters()), *one.buffers()])
    assert all(torch.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(*results, strict=True))
    assert torch.allclose(theirs.eval()(images), ours.eval()(images), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "loss",
    [
        {"name": "dice"},
        {"name": "dice_ce"},
        {"name": "dice_ce", "include_background": False, "smooth": 1e-2, "weight": 0.5},
    ],
)
@pytest.mark.parametrize("empty", [False, True])
def test_the_loss_is_monais_and_so_is_its_gradient(full_config, loss, empty):
    torch.manual_seed(0)
    values = torch.randn(3, 2, 5, 6, 4)
    labels = torch.zeros(3, 1, 5, 6, 4, dtype=torch.uint8) if empty else torch.randint(0, 2, (3, 1, 5, 6, 4)).byte()
    results = []
    for case in cases_with(full_config, loss=loss):
        logits = values.clone().requires_grad_()
        lost = case.loss()(logits, labels)
        lost.backward()
        results.append((lost.detach(), logits.grad))
    assert torch.allclose(results[0][0], results[1][0], rtol=1e-5)
    assert torch.allclose(results[0][1], results[1][1], rtol=1e-4, atol=1e-8)


def test_the_loss_of_two_voxels_is_worked_out_by_hand(full_config):
    _, case = cases_with(full_config, loss={"name": "dice"})
    logits = torch.tensor([[[[[0.0, 0.0]]], [[[0.0, 0.0]]]]])  # both classes one half in both voxels
    labels = torch.tensor([[[[[0, 1]]]]])
    # Dice of either class: 2 · 0.5 / (1 + 1)
    assert float(case.loss()(logits, labels)) == pytest.approx(0.5, abs=1e-5)


def test_reading_begins_without_torch():
    program = "import sys, speedproof_spleen.cli, speedproof_spleen.training.reading; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip() == "False"


def test_a_training_process_does_not_import_what_it_does_not_use():
    program = (
        "import sys, speedproof_spleen.cli, speedproof_spleen.training.run\n"
        "heavy = {'monai', 'pandas', 'pyarrow', 'matplotlib', 'scipy.stats', 'triton', 'tensorboard', 'rich.progress'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip() == "[]"


@pytest.mark.parametrize("change", [{"cache": "gpu"}, {"scoring": "monai"}])
def test_the_plain_toolkit_goes_with_resident_volumes_and_scores_on_the_device(change):
    with pytest.raises(ValidationError, match="`toolkit: torch` needs `cache: resident` and `scoring: device`"):
        SpleenVariant.model_validate(TURBO | {"toolkit": "torch"} | change)
