"""Two real CTs, one of them awkward on purpose, load, transform and pass through a training step and a validation."""

import pytest
import torch

from speedproof.api import Dataset, read_epochs
from speedproof_spleen.config import load_config
from speedproof_spleen.training.run import Request, run_training
from workloads.spleen.tests.training.conftest import ROOT


@pytest.mark.parametrize("variant", ["baseline", "fast"])
def test_real_cts_train_and_validate(samples, tmp_path, variant):
    names = ["spleen_8.nii.gz", "ts_example_ct.nii.gz"]
    files = [{"image": f"{samples}/ct/imagesTr/{name}", "label": f"{samples}/ct/labelsTr/{name}"} for name in names]
    values = load_config(ROOT / "config.yaml").model_dump(mode="json")
    # The documented transforms; small patches and windows, so that a processor computes them in seconds.
    values["workload"] |= {
        "patch_size": [32, 32, 32],
        "window_size": [96, 96, 96],
        "validation_cases": 1,
        "spacing_mm": [3, 3, 4],
    }
    values["measurement"] |= {"epochs": 1, "validate_every": 1, "device": "cpu"}
    config = type(load_config(ROOT / "config.yaml")).model_validate(values)
    dataset = Dataset(source="local", name="samples", version="1", licence="", synthetic=False, folder=".", cases=[])
    run = run_training(config, dataset, files, Request(variant, "timed", 0, 0, "none"), tmp_path / "run")
    assert run.outcome == "completed"
    epochs = read_epochs(tmp_path / "run")
    assert epochs.loss.notna().all()
    assert 0 <= epochs.quality[0] <= 1
    assert torch.load(tmp_path / "run/best.pt", weights_only=True)
