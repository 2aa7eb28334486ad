"""The same seed on the same processor gives the same losses, scores and weights, bit by bit."""

import pytest
import torch

from speedproof.api import Dataset, read_epochs
from speedproof_spleen.training.run import Request, run_training

DATASET = Dataset(source="local", name="balls", version="1", licence="none", synthetic=True, folder=".", cases=[])


@pytest.mark.parametrize("variant", ["regular", "baseline", "fast", "turbo"])
def test_the_same_seed_gives_the_same_losses_scores_and_weights(ci_config, volumes, tmp_path, variant):
    """Of each variant its caches, loaders, worker processes, loss and optimizer, at a network that trains in a second.

    A convolution of 64 channels on 2 x 2 x 2 voxels is among them, whose bfloat16 gradient is another one in each call.
    """
    values = ci_config.model_dump(mode="json")
    values["measurement"]["device"] = "cpu"
    own = values["variants"][variant]
    own["network"]["channels"] = [8, 8, 16, 64]
    own |= {key: min(own[key], 1) for key in ("workers", "validation_workers")}
    config = type(ci_config).model_validate(values)
    results = []
    for number in range(2):
        torch.rand(number)  # what was drawn before a run changes nothing
        folder = tmp_path / str(number)
        run_training(config, DATASET, volumes, Request(variant, "profiled", 0, 3, "none"), folder)
        table = read_epochs(folder)
        results.append((table.loss.tolist(), table.quality.dropna().tolist(), torch.load(folder / "best.pt")))
    (losses, dice, weights), (losses_again, dice_again, weights_again) = results
    assert losses == losses_again
    assert dice == dice_again
    assert [name for name in weights if not torch.equal(weights[name], weights_again[name])] == []
