"""The scripts that an image is built with; they run inside it, without this package."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMAGE_FILE = "containers/requirements.txt"
NNUNET_FILE = "requirements.nnunet.lock"


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "containers" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_the_base_pins_wins_and_all_else_needs_its_hash():
    install = load("install")
    base = install.parse_pins("Jinja2==3.1.5  # theirs\nnumpy==2.1.0 ; python_version < '4'\n\ntorch @ file:///x.whl\n")
    assert {name: pin.version for name, pin in base.items()} == {"jinja2": "3.1.5", "numpy": "2.1.0"}
    text = "# head\njinja2==3.1.6 \\\n    --hash=sha256:aa\n"
    text += "monai==1.6.1 ; sys_platform == 'linux' \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\n"
    theirs, ours = install.keep_base_pins(install.parse_pins(text).values(), base)
    assert (theirs.name, theirs.version, theirs.hashes) == ("jinja2", "3.1.5", "")
    assert (ours.name, ours.version, ours.marker) == ("monai", "1.6.1", "; sys_platform == 'linux'")
    assert ours.hashes.split() == ["--hash=sha256:bb", "--hash=sha256:cc"]


def test_of_what_pip_finds_wrong_only_our_packages_count():
    said = "monai 1.6.1 has requirement numpy>=2, but you have numpy 1.26.4.\nTheir_Own 1 requires x, which is not installed.\n"
    assert load("install").find_conflicts(said, ["monai", "numpy"]) == [said.splitlines()[0]]


def test_names_are_compared_as_pip_does():
    assert list(load("install").parse_pins("Nvidia_ML.Py==1")) == ["nvidia-ml-py"]


def test_a_replaced_torch_and_a_missing_package_are_told():
    expected = {"torch": "2.10.0a0+nv25.12", "monai": "1.6.1", "nvtx": "0.2.11"}
    installed = {"torch": "2.13.0", "monai": "1.6.1", "nvtx": None}
    assert load("check").compare_versions(expected, installed) == [
        "torch: 2.13.0, expected 2.10.0a0+nv25.12",
        "nvtx: missing, expected 0.2.11",
    ]


@pytest.fixture(scope="module")
def pins():
    parse = load("install").parse_pins
    return {
        name: parse((ROOT / name).read_text())
        for name in ["requirements.lock", "requirements.cpu.lock", NNUNET_FILE, IMAGE_FILE]
    }


def test_every_package_is_pinned_with_its_hashes(pins):
    for name, entries in pins.items():
        lines = [line for line in (ROOT / name).read_text().splitlines() if re.match(r"[^\s#]", line)]
        assert len(lines) == len(entries), name  # nothing but pins: no addresses, no options
        assert all(re.fullmatch(r"(--hash=sha256:[0-9a-f]{64}\s*)+", pin.hashes) for pin in entries.values()), name


def test_all_files_pin_the_same_versions(pins):
    everything = {name: pin.version for name, pin in pins["requirements.lock"].items()}
    without_gpu = {name: pin.version for name, pin in pins["requirements.cpu.lock"].items()}
    assert without_gpu.pop("torch") == everything["torch"] + "+cpu"
    assert without_gpu.items() <= everything.items()
    assert all(re.match("nvidia|cuda|torch", name) for name in everything.keys() - without_gpu.keys())
    assert {name: pin.version for name, pin in pins[IMAGE_FILE].items()}.items() <= everything.items()
    assert not pins[NNUNET_FILE].keys() & everything.keys()  # it comes on top


def test_the_image_gets_what_the_package_imports_and_not_torch(pins):
    project = (ROOT / "pyproject.toml").read_text().split("dependencies = [")[1].split("]")[0]
    needed = {re.split(r"[=<>]", name)[0] for name in re.findall(r'"([^"]+)"', project)}
    assert needed - {"torch"} <= pins[IMAGE_FILE].keys()
    assert not pins[IMAGE_FILE].keys() & {"torch", "setuptools", "triton"}


@pytest.mark.parametrize("file", ["speedproof.def", "Dockerfile"])
def test_both_definitions_build_the_same_upon_the_same(file):
    text = (ROOT / "containers" / file).read_text()
    assert "BASE=nvcr.io/nvidia/pytorch:25.12-py3" in text
    for part in ["requirements.txt", "install.py", "check.py"]:
        assert part in text


def test_a_docker_image_runs_as_no_root():
    users = re.findall(r"^USER (\S+)", (ROOT / "containers/Dockerfile").read_text(), re.MULTILINE)
    assert users[-1:] == ["1000:1000"]
