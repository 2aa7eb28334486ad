"""A kernel is launched as Triton launches it, and Triton is asked once for each kind of call (launching_program.py)."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support import require


@pytest.fixture(scope="module")
def launched(tmp_path_factory):
    require("triton", find_spec("triton") is not None, "triton is not installed")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("triton")), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(Path(__file__).with_name("launching_program.py"))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_triton_is_asked_once_for_equal_calls(launched):
    assert (launched["first"]["asked"], launched["again"]["asked"]) == (1, 0)
    assert {**launched["again"], "asked": 1} == launched["first"]
    assert launched["again"]["grid"] == [2, 1, 1]
    assert launched["again"]["given"] == [2, 8, True, 8, 256]


def test_other_numbers_take_the_same_kernel(launched):
    assert launched["numbers"]["kernel"] == launched["first"]["kernel"]
    assert launched["numbers"]["given"] == [3, 8, True, 8, 256]


@pytest.mark.parametrize("what", ["constant", "type", "alignment"])
def test_what_distinguishes_kernels_is_distinguished(launched, what):
    assert launched[what]["asked"] == 1
    assert launched[what]["kernel"] != launched["first"]["kernel"]


def test_profilers_of_triton_see_each_launch(launched):
    assert (launched["watched"]["asked"], launched["hooked"]) == (1, 1)
