"""The configurations and variants that are here fit each other."""

import json
import sys
from pathlib import Path

import pytest

from speedproof.api import load_config
from speedproof_classifier.data.prepare import complete
from tests.instrument import Workload, find_workload, load_claims, program_command

FOLDER = Path(__file__).parents[1]
FULL = FOLDER / "config/full.yaml"


@pytest.mark.parametrize("path", sorted((FOLDER / "config").glob("*.yaml")), ids=lambda path: path.stem)
def test_each_configuration_laid_over_the_full_one_is_understood(path, monkeypatch):
    if path != FULL:  # which alone is completed by a process
        monkeypatch.setattr(Workload, "ask", lambda _, command, origin, said: complete(json.loads(said), origin))
    config = load_config(FULL, path)
    assert config.data["source"] == ("download" if path == FULL else "stand_in")
    assert config.workload_name == "classifier"
    assert config.completed_variants.keys() >= set(config.measurement.variants)


def test_only_what_the_documented_variants_are_watched_by_differs_between_them():
    config = load_config(FULL)
    variants = {
        name: {key: value for key, value in variant.settings.items() if key != "command"}
        for name, variant in config.completed_variants.items()
    }
    assert variants["train_nvtx"] == variants["train"] | {"profiler": "nvtx"}
    assert variants["train_profiler"] == variants["train"] | {"profiler": "torch"}
    assert variants["resident"] == variants["train"] | {"images": "gpu", "workers": 0}
    assert {name: config.completed_variants[name].epochs for name in ("train", "train_nvtx", "train_profiler")} == {
        "train": 2,
        "train_nvtx": 5,
        "train_profiler": 2,
    }


def test_each_variant_is_a_program_here():
    workload = find_workload("classifier")
    for variant in workload.declared.variants.values():
        python, option, module, folder = program_command(workload, variant, Path("/data of mine"))
        assert (python, option, folder) == (sys.executable, "-m", "/data of mine")
        assert (FOLDER / f"{module.replace('.', '/')}.py").is_file()


def test_nothing_is_documented_of_its_times():
    assert load_claims(find_workload("classifier").claims).claims == []
