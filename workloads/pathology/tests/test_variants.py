"""What workload.yaml says of a variant is what the variant does; claims and configurations speak of variants there are."""

import json
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import pytest

from speedproof.api import ConfigError, load_config
from speedproof_pathology.data import complete
from speedproof_pathology.variants import VARIANTS
from tests.instrument import Level, Speedup, Workload, find_workload, load_claims

FOLDER = Path(__file__).parents[1]
FULL = FOLDER / "config/full.yaml"
DECLARED = find_workload("pathology").declared
ABLATION = ["baseline", "gpu_transforms", "pinned", "autotuned", "half", "novograd", "optimised"]


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
    """The workload's own command costs a process each."""
    monkeypatch.setattr(
        Workload,
        "ask",
        lambda workload, name, origin, said: complete(json.loads(said), origin.removeprefix("--origin=")),
    )


def test_what_is_said_of_a_variant_is_what_it_does():
    assert {name: variant.settings for name, variant in DECLARED.variants.items()} == {
        name: asdict(variant) for name, variant in VARIANTS.items()
    }
    for name, variant in DECLARED.variants.items():
        assert variant.command.split()[-4:] == ["--variant", name, "--data", "{data}"]


def test_each_stage_is_one_setting_further():
    for before, after in pairwise(ABLATION):
        assert sum(asdict(VARIANTS[before])[key] != value for key, value in asdict(VARIANTS[after]).items()) == 1
    assert list(load_config(FULL, FOLDER / "config/ablation.yaml").measurement.ablation) == ABLATION
    assert all(value != asdict(VARIANTS["optimised"])[key] for key, value in asdict(VARIANTS["baseline"]).items())


@pytest.mark.parametrize("path", sorted(set((FOLDER / "config").glob("*.yaml")) - {FULL}), ids=lambda path: path.stem)
def test_a_configuration_names_variants_there_are(path):
    config = load_config(FULL, path)
    assert config.workload_name == "pathology"
    reader = config.shared["reader"]
    for name in config.measurement.variants:
        assert (
            f"--variant {name} --data {{data}} --reader={reader} --region={config.data['region']}"
            in config.completed_variants[name].command
        )


def test_the_full_measurement_needs_a_folder_and_says_which():
    with pytest.raises(ConfigError, match=r"needs `local_folder`: CAMELYON16 \(CC0-1\.0, some 900 GiB\)"):
        load_config(FULL)


def test_claims_are_of_variants_there_are_and_each_number_stands_once():
    file = load_claims(FOLDER / "claims.yaml")
    of = [claim.quantity for claim in file.claims]
    named = {one.variant for one in of if isinstance(one, Level)}
    named |= {name for one in of if isinstance(one, Speedup) for name in (one.reference, one.candidate)}
    assert named == set(file.variants) == {"baseline", "optimised"}
    for name, documented in file.variants.items():
        assert DECLARED.variants[name].settings == documented
    assert (
        file.workload
        == complete({"data": {"source": "stand_in", "weights": "w"}, "completed": {"variants": {}}}, "")["completed"]["shared"]
    )
    values = [claim.stated.value for claim in file.claims]
    assert values == [str(14 * 3600 + 60 + 48), str(4 * 3600 + 12 * 60 + 7), "3.3", "0.70", "0.69", "6"]
    low, high = file.list_bounds(file.claims[2])
    assert low < float(values[0]) / float(values[1]) < high  # 3.34, of ten epochs as a whole
    assert file.claims[2].quantity.metric == "all_epochs_s"
