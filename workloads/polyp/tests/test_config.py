"""The configurations, variants and claims that are here fit each other."""

import json
from pathlib import Path

import pytest

from speedproof.api import load_config
from speedproof_polyp.data.prepare import complete
from tests.instrument import Workload, find_workload, load_claims, program_command

FOLDER = Path(__file__).parents[1]
FULL = FOLDER / "config/full.yaml"


@pytest.mark.parametrize("name", ["full", "gpu", "demo", "ci", "tensorflow"])
def test_each_configuration_laid_over_the_full_one_is_understood(name, monkeypatch):
    if name != "full":  # which alone is completed by a process, as all are where they are measured
        monkeypatch.setattr(Workload, "ask", lambda _, command, origin, said: complete(json.loads(said), origin))
    path = FOLDER / f"config/{name}.yaml"
    config = load_config(FULL, path)
    assert config.data["source"] == ("download" if path == FULL else "stand_in")
    assert config.completed_variants.keys() >= set(config.measurement.variants)
    asked = f"--pixels {config.data['pixels']} --filters {config.data['filters']}"
    assert all((variant.command or "").endswith(asked) for variant in config.completed_variants.values())
    assert config.shared == {"pixels": config.data["pixels"], "filters": config.data["filters"]}


def test_documented_variants_are_as_the_claims_say_and_differ_as_documented():
    declared = find_workload("polyp").declared.variants
    for name, documented in load_claims(FOLDER / "claims.yaml").variants.items():
        assert documented.items() <= declared[name].settings.items()
    plain, optimised = declared["plain"].settings, declared["optimised"].settings
    assert {key for key in plain if plain[key] != optimised[key]} == {"loading", "shuffled", "colours"}
    assert {variant.epochs for variant in declared.values()} == {100}


def test_each_variant_is_a_program_here():
    workload = find_workload("polyp")
    for variant in workload.declared.variants.values():
        words = program_command(workload, variant, Path("/data of mine"))
        module = words[words.index("-m") + 1]
        assert (FOLDER / f"{module.replace('.', '/')}.py").is_file()
        assert words[-2:] == ["--data", "/data of mine"]
        if variant.settings["framework"] == "tensorflow":
            assert words[:2] == ["sh", str(FOLDER / "tensorflow.sh")]
            assert Path(words[1]).is_file()


def test_each_claim_has_no_number_of_a_run_and_says_why():
    claims = load_claims(FOLDER / "claims.yaml").claims
    assert [claim.id for claim in claims] == ["tutorial_weights", "paper_dice", "paper_iou"]
    assert all(claim.quantity.missing for claim in claims)
