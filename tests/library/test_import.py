"""`import speedproof` loads nothing until something is asked of it."""

import json
import subprocess
import sys

import pytest
from setuptools import find_packages

import speedproof
from tests.workflow.checkout import ROOT

PROGRAM = """
import json, sys, time
before = set(sys.modules)
begin_s = time.perf_counter()
import speedproof
took_s = time.perf_counter() - begin_s
print(json.dumps([took_s, sorted(set(sys.modules) - before), dir(speedproof)]))
"""


@pytest.mark.timed
def test_to_import_it_is_fast_and_loads_nothing():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    took_s, loaded, names = json.loads(done.stdout)
    assert took_s < 0.1
    assert {name for name in loaded if name.partition(".")[0] == "speedproof"} == {"speedproof"}
    assert {"numpy", "pandas", "pydantic", "pyarrow", "typer"} & set(loaded) == set()
    assert {"prove", "compare", "load", "open_trace", "diff_traces", "SpeedproofError"} <= set(names)


def test_each_name_is_there_with_its_documentation():
    for name in speedproof.__all__:
        assert getattr(speedproof, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = speedproof.nonsense


def test_a_wheel_has_it():
    assert "speedproof.library" in find_packages(ROOT / "src")
