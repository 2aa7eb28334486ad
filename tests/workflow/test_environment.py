"""The environment in which the workflow's steps run."""

import os
import subprocess
import sys

import pytest

from speedproof.util.environment import step_environment
from tests.workflow.checkout import ROOT


@pytest.mark.parametrize("inherited", [{}, {"PYTHONPATH": ""}, {"PYTHONPATH": f"{os.pathsep}/nowhere"}])
def test_a_step_runs_no_module_of_the_working_folder(tmp_path, inherited):
    for name in ("argparse", "math", "nibabel", "typer"):
        (tmp_path / f"{name}.py").write_text(f"open('{tmp_path}/planted', 'w')")
    environment = {"PATH": os.environ["PATH"], **inherited}
    environment |= step_environment(environment)
    shown = subprocess.run(
        [sys.executable, "-m", "speedproof", "--version"], cwd=tmp_path, env=environment, capture_output=True
    )
    assert shown.returncode == 0, shown.stderr
    assert not (tmp_path / "planted").exists()


def test_make_lets_python_keep_bytecode_whatever_the_environment_says():
    shown = subprocess.run(
        ["make", "--silent", "--eval", 'shown: ; @echo "[$$PYTHONDONTWRITEBYTECODE]"', "shown"],
        cwd=ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == "[]\n"
