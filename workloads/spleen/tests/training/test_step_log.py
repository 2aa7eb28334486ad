"""What a step tells of itself: nothing, a line as MONAI's notebooks, or a scalar besides as the profiling pair."""

import pytest

from speedproof.api import LOG_FILE, Dataset, read_epochs
from speedproof_spleen.config import check_config
from speedproof_spleen.training.run import Request, run_training

DATASET = Dataset(source="local", name="balls", version="1", licence="none", synthetic=True, folder=".", cases=[])


@pytest.mark.parametrize(("step_log", "lines", "scalars"), [(False, 0, False), ("printed", 3, False), (True, 3, True)])
def test_a_step_tells_its_loss_as_asked(ci_config, volumes, tmp_path, step_log, lines, scalars):
    values = ci_config.model_dump(mode="json")
    values["variants"]["baseline"] |= {"cache": "none", "batch_size": 1, "precision": "fp32", "step_log": step_log}
    values["variants"]["baseline"]["network"]["channels"] = [8] * 5
    values["workload"]["validation_cases"] = 2
    values["measurement"] |= {"epochs": 1, "validate_every": 1, "device": "cpu"}
    request = Request(variant="baseline", mode="timed", round=0, seed=0, profiler="none", fingerprint="0123")
    run_training(check_config(values), DATASET, volumes, request, tmp_path)
    told = [line for line in (tmp_path / LOG_FILE).read_text().splitlines() if " step " in line]
    losses = [float(line.split("loss ")[1].split()[0]) for line in told]
    assert len(told) == lines
    assert (tmp_path / "scalars").exists() == scalars
    (loss,) = read_epochs(tmp_path).loss
    assert not losses or sum(losses) / lines == pytest.approx(loss, abs=1e-4)
