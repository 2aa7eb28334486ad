"""The whole workflow on a handful of images: `--config case=classifier` and what is laid over it is all that it takes."""

import json
import os
import subprocess
import sys

import pytest

from tests.workflow.checkout import ROOT

SMALLEST = {
    "results": "results",
    "data": {
        "source": "stand_in",
        "stand_in": {"classes": 2, "images_per_class": 4, "validation_images": 2, "test_images": 2, "pixels": 16},
    },
    "measurement": {
        "variants": ["train", "resident"],
        "pairs": [],
        "control": False,
        "rounds": 1,
        "profiled": 0,
        "epochs": 1,
        "device": "cpu",
    },
}


@pytest.mark.whole
@pytest.mark.dear
def test_two_variants_are_measured_and_reported(tmp_path):
    (tmp_path / "smallest.yaml").write_text(json.dumps(SMALLEST))
    words = [
        "--snakefile",
        str(ROOT / "Snakefile"),
        "--cores",
        "1",
        "--configfile",
        "smallest.yaml",
        "--config",
        "case=classifier",
    ]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", *words], cwd=tmp_path, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    comparison = json.loads((tmp_path / "results/comparison.json").read_text())
    ratios = {(one["reference"], one["candidate"]) for one in comparison["ratios"] if one["metric"] == "training_epoch_s"}
    assert ratios == {("train", "resident")}
    assert comparison["conditions"]["packages"].keys() == {"torch", "numpy", "nvtx", "pillow"}
    assert comparison["claims"] == []
    assert "KAUST train.py" in (tmp_path / "results/report.md").read_text()
