import copy
from pathlib import Path

import pytest
import yaml

from speedproof.api import ConfigError
from speedproof_spleen.config import check_config
from speedproof_spleen.variant import TECHNIQUES, SpleenVariant

VALUES = yaml.safe_load((Path(__file__).parents[3] / "config.yaml").read_text())
# What says how a run is called, how long it lasts and how its trace is marked.
NO_TECHNIQUES = {"title", "range_style", "epochs", "validate_every"}


def config_with(ablation=(), **variants):
    values = copy.deepcopy(VALUES)
    values["variants"] |= variants
    values["measurement"]["ablation"] = list(ablation)
    return check_config(values)


def test_a_variant_that_extends_another_has_its_keys_and_its_own():
    config = config_with(
        one={"extends": "fast", "title": "One", "batch_size": 4},
        two={"extends": "one", "title": "Two", "loss": {"name": "dice"}},
    )
    fast, two = config.variants["fast"], config.variants["two"]
    assert (two.title, two.batch_size, two.loss.name) == ("Two", 4, "dice")
    assert two.model_copy(update={"title": fast.title, "batch_size": fast.batch_size, "loss": fast.loss}) == fast


def test_a_checked_configuration_can_be_checked_again():
    config = config_with(one={"extends": "fast", "title": "One", "batch_size": 4})
    assert check_config(config.model_dump(mode="json")) == config


@pytest.mark.parametrize(
    ("variants", "said"),
    [
        ({"one": {"extends": "fats", "title": "One"}}, ["variants.one.extends", "unknown variant `fats`", "fast"]),
        ({"one": {"extends": "one"}}, ["variants.one.extends", "cannot extend itself"]),
        ({"one": {"extends": "two"}, "two": {"extends": "one"}}, ["leads back", "cannot extend itself"]),
        ({"one": {"extends": "fast", "bach_size": 2}}, ["variants.one.bach_size", "batch_size"]),
    ],
)
def test_a_mistake_in_extending_is_one_line(variants, said):
    with pytest.raises(ConfigError) as caught:
        config_with(**variants)
    assert "\n" not in str(caught.value)
    assert all(words in str(caught.value) for words in said)


def test_every_key_of_a_variant_belongs_to_one_technique_or_to_none():
    keys = [key for technique in TECHNIQUES.values() for key in technique]
    assert sorted(keys) == sorted(set(SpleenVariant.model_fields) - NO_TECHNIQUES)


def test_changed_techniques_are_named():
    config = config_with()
    baseline, fast = (config.completed_variants[name].settings for name in ("baseline", "fast"))
    assert config.changed_techniques(fast, fast) == []
    assert config.changed_techniques(baseline, fast) == [
        "cache",
        "foreground index",
        "loader",
        "batch size",
        "loss",
        "optimizer",
        "precision",
    ]


@pytest.mark.parametrize(
    ("ablation", "said"),
    [
        (["regular", "both"], "`both` changes cache and batch size against `regular`"),
        (["regular", "same"], "`same` changes nothing"),
        (["regular", "nowhere"], "measurement.ablation: unknown variant `nowhere`"),
    ],
)
def test_an_ablation_changes_single_techniques(ablation, said):
    both = {"extends": "regular", "title": "Both", "cache": "ram", "batch_size": 4}
    with pytest.raises(ConfigError) as caught:
        config_with(ablation, both=both, same={"extends": "regular", "title": "Same"})
    assert said in str(caught.value)
