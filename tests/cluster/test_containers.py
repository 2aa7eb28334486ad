"""The scripts that an image is built with; they run inside it, without this package."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "containers" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_the_base_pins_wins():
    install = load("install")
    base = install.parse_pins("Jinja2==3.1.5  # theirs\nnumpy==2.1.0 ; python_version < '4'\n\ntorch @ file:///x.whl\n")
    assert base == {"jinja2": "3.1.5", "numpy": "2.1.0"}
    assert install.keep_base_pins({"jinja2": "3.1.6", "monai": "1.6.1"}, base) == ["jinja2==3.1.5", "monai==1.6.1"]


def test_names_are_compared_as_pip_does():
    assert load("install").parse_pins("Nvidia_ML.Py==1") == {"nvidia-ml-py": "1"}


def test_a_replaced_torch_and_a_missing_package_are_told():
    expected = {"torch": "2.10.0a0+nv25.12", "monai": "1.6.1", "nvtx": "0.2.11"}
    installed = {"torch": "2.13.0", "monai": "1.6.1", "nvtx": None}
    assert load("check").compare_versions(expected, installed) == [
        "torch: 2.13.0, expected 2.10.0a0+nv25.12",
        "nvtx: missing, expected 0.2.11",
    ]


def test_the_image_gets_the_versions_that_are_tested_and_not_torch():
    install = load("install")
    wanted = install.parse_pins((ROOT / "containers/requirements.txt").read_text())
    locked = install.parse_pins((ROOT / "requirements.lock").read_text())
    assert {name: locked[name] for name in wanted} == wanted
    project = (ROOT / "pyproject.toml").read_text().split("dependencies = [")[1].split("]")[0]
    needed = {re.split(r"[=<>]", name)[0] for name in re.findall(r'"([^"]+)"', project)}
    assert set(wanted) == needed - {"torch"}


@pytest.mark.parametrize("file", ["speedproof.def", "Dockerfile"])
def test_both_definitions_build_the_same_upon_the_same(file):
    text = (ROOT / "containers" / file).read_text()
    assert "BASE=nvcr.io/nvidia/pytorch:25.12-py3" in text
    for part in ["requirements.txt", "install.py", "check.py"]:
        assert part in text
