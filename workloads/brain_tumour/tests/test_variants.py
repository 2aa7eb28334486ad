"""What workload.yaml says of a variant is what the variant does; claims and configurations speak of variants there are."""

import json
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import pytest

from speedproof.api import load_config
from speedproof_brain_tumour.data import complete
from speedproof_brain_tumour.variants import STEPS, VARIANTS
from tests.instrument import Level, Speedup, Workload, find_workload, load_claims

FOLDER = Path(__file__).parents[1]
DECLARED = find_workload("brain_tumour").declared


@pytest.mark.parametrize("name", DECLARED.variants)
def test_what_is_said_of_a_variant_is_what_it_does(name):
    variant = DECLARED.variants[name]
    words = variant.command.split()
    options = dict(zip(words[3::2], words[4::2], strict=True))
    does = {**asdict(VARIANTS[options["--variant"]]), "accumulate": int(options.get("--accumulate", 1))}
    said = {**variant.settings, "validate_every": variant.validate_every}
    assert said == {key: does[key] for key in said}
    assert set(does) - set(said) == {
        "learning_rate",
        "crop",
        "window",
        "partitioned",
    }  # the same on all variants, or nothing to see


def test_the_variants_differ_in_what_the_documents_say():
    assert VARIANTS["plain"].loss == "dice" and VARIANTS["fast"].loss == "dice_focal"
    differing = {key for key, value in asdict(VARIANTS["algorithm"]).items() if value != asdict(VARIANTS["fast"])[key]}
    assert differing == {"cache", "loader", "workers"}
    assert differing == {key for key, value in asdict(VARIANTS["cached"]).items() if value != asdict(VARIANTS["plain"])[key]}


def test_each_step_from_the_fast_variant_to_turbo_is_one_switch():
    names = ["fast", *STEPS]
    for before, name in pairwise(names):
        variants = asdict(VARIANTS[before]), asdict(VARIANTS[name])
        assert {key for key in variants[0] if variants[0][key] != variants[1][key]} == set(STEPS[name])
    assert list(STEPS)[-1] == "turbo"
    assert [name for name in DECLARED.variants if name in names] == names


@pytest.mark.parametrize("path", sorted((FOLDER / "config").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_configuration_names_variants_there_are(path, monkeypatch):
    if path.stem != "full":  # which alone is completed by a process
        monkeypatch.setattr(Workload, "ask", lambda _, command, origin, said: complete(json.loads(said), origin))
    assert load_config(FOLDER / "config/full.yaml", path).workload_name == "brain_tumour"


def test_claims_are_of_variants_there_are_and_each_number_stands_once():
    file = load_claims(FOLDER / "claims.yaml")
    of = [claim.quantity for claim in file.claims]
    named = {one.variant for one in of if isinstance(one, Level)}
    named |= {name for one in of if isinstance(one, Speedup) for name in (one.reference, one.candidate)}
    assert named | set(file.variants) <= set(DECLARED.variants)
    for name, documented in file.variants.items():
        assert documented.items() <= DECLARED.variants[name].settings.items()
    stated = [file.describe(claim).replace("\N{NO-BREAK SPACE}", " ") for claim in file.claims]
    assert stated == [
        "31430 s ± 10 %", "4766 s ± 10 %", "2691 s ± 10 %", "1980 s ± 10 %", "1114 s ± 10 %",
        "11.7× ± 10 %", "more than 11×", "more than 10×", "28.2× ± 10 %", "30×", "about 40 min",
        "110 epochs ± 10 %", "80 epochs ± 25 %", "about 100 % ± 5 %", "97 %",
    ]  # fmt: skip
    assert float(file.claims[5].stated.value) == pytest.approx(31430 / 2691, abs=0.05)
