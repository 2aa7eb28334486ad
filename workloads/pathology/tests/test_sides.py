"""What workload.yaml says of a side is what the side does; claims and configurations speak of sides there are."""

import json
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import pytest

from speedproof.api import ConfigError, load_config
from speedproof_pathology.data import complete
from speedproof_pathology.sides import SIDES
from tests.instrument import Level, Speedup, Workload, find_workload, load_claims

FOLDER = Path(__file__).parents[1]
FULL = FOLDER / "config/full.yaml"
DECLARED = find_workload("pathology").declared
LADDER = ["baseline", "gpu_transforms", "pinned", "autotuned", "half", "novograd", "optimised"]


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
    """The workload's own command costs a process each."""
    monkeypatch.setattr(
        Workload,
        "ask",
        lambda workload, name, origin, said: complete(json.loads(said), origin.removeprefix("--origin=")),
    )


def test_what_is_said_of_a_side_is_what_it_does():
    assert {name: side.settings for name, side in DECLARED.sides.items()} == {
        name: asdict(side) for name, side in SIDES.items()
    }
    for name, side in DECLARED.sides.items():
        assert side.command.split()[-4:] == ["--side", name, "--data", "{data}"]


def test_each_rung_is_one_setting_further():
    for before, after in pairwise(LADDER):
        assert sum(asdict(SIDES[before])[key] != value for key, value in asdict(SIDES[after]).items()) == 1
    assert list(load_config(FULL, FOLDER / "config/ladder.yaml").measurement.ladder) == LADDER
    assert all(value != asdict(SIDES["optimised"])[key] for key, value in asdict(SIDES["baseline"]).items())


@pytest.mark.parametrize("path", sorted(set((FOLDER / "config").glob("*.yaml")) - {FULL}), ids=lambda path: path.stem)
def test_a_configuration_names_sides_there_are(path):
    config = load_config(FULL, path)
    assert config.workload_name == "pathology"
    reader = config.shared["reader"]
    for name in config.measurement.variants:
        assert f"--side {name} --data {{data}} --reader={reader} --region={config.data['region']}" in config.sides[name].command


def test_the_full_measurement_needs_a_folder_and_says_which():
    with pytest.raises(ConfigError, match=r"needs `local_folder`: CAMELYON16 \(CC0-1\.0, some 900 GiB\)"):
        load_config(FULL)


def test_claims_are_of_sides_there_are_and_each_number_stands_once():
    file = load_claims(FOLDER / "claims.yaml")
    of = [claim.quantity for claim in file.claims]
    named = {one.variant for one in of if isinstance(one, Level)}
    named |= {name for one in of if isinstance(one, Speedup) for name in (one.numerator, one.denominator)}
    assert named == set(file.variants) == {"baseline", "optimised"}
    for name, documented in file.variants.items():
        assert DECLARED.sides[name].settings == documented
    assert (
        file.workload
        == complete({"data": {"source": "stand_in", "weights": "w"}, "completed": {"sides": {}}}, "")["completed"]["shared"]
    )
    values = [claim.expected.value for claim in file.claims]
    assert values == [14 * 3600 + 60 + 48, 4 * 3600 + 12 * 60 + 7, 3.34, 3.3, 0.70, 0.69, 6]
    assert values[0] / values[1] == pytest.approx(3.34, abs=0.005)
