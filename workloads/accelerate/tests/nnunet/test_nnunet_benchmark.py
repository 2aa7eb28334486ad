"""The benchmark of the augmentation runs on any device."""

import json
import runpy
from pathlib import Path

import pytest

pytest.importorskip("nnunetv2", reason="nnU-Net is not installed: make nnunet")

PROGRAM = Path(__file__).parents[2] / "benchmarks/nnunet_augmentation.py"


@pytest.mark.parametrize("patch", [(16, 20, 12), (24, 20)], ids=["volumes", "images"])
def test_it_times_each_transformation(patch, tmp_path, monkeypatch):
    out = tmp_path / "times.json"
    command = [PROGRAM, "--out", out, "--patch", *patch, "--calls", 2, "--device", "cpu"]
    monkeypatch.setattr("sys.argv", list(map(str, command)))
    runpy.run_path(str(PROGRAM), run_name="__main__")
    found = json.loads(out.read_text())
    assert {"Spatial", "GaussianBlur", "Gamma", "Gamma inverted", "targets"} <= found["certain"].keys()
    assert min(found["whole"], found["published_whole_one_core"], *found["certain"].values()) > 0
