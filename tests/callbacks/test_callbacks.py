"""Callbacks in the real frameworks: the examples, run as programs that are measured, leave the marks of their epochs."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from speedproof.marks import MARKS_FILE
from speedproof.run.read_marks import read_marks
from speedproof.run.working_folder import providing_marks
from tests.workflow.checkout import ROOT


def run_example(folder: Path, name: str):
    with providing_marks() as provided:
        environ = {**os.environ, "PYTHONPATH": str(provided), "SPEEDPROOF_RUN": str(folder), "KERAS_BACKEND": "torch"}
        words = [sys.executable, str(ROOT / "examples" / f"train_{name}.py")]
        done = subprocess.run(words, cwd=folder, env={**environ, "CUDA_VISIBLE_DEVICES": ""}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return read_marks(folder / MARKS_FILE)


@pytest.mark.parametrize("name", ["lightning", "transformers", "keras", "ignite"])
def test_a_framework_marks_epochs_validation_and_quality(name, tmp_path):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed; `pip install '.[frameworks]'` does so")
    found = run_example(tmp_path, name)
    assert len(found.epochs) == 3
    assert all(epoch.train_s > 0 and (epoch.validation_s or 0) > 0 for epoch in found.epochs)
    assert [number for number, _, _ in found.qualities] == [1, 2, 3]
    assert 0.6 < found.qualities[-1][1] <= 1
    ends = [epoch.ends_s for epoch in found.epochs]
    assert all(end <= following.begins_s for end, following in zip(ends, found.epochs[1:], strict=False))
