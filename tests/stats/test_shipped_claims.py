"""Each documented number of the workloads is one that a run can decide, or says why none can."""

from pathlib import Path

import pytest

from speedproof.stats.claims_file import Level, Speedup, load_claims
from speedproof.util.errors import ConfigError
from speedproof.util.yaml_input import read_yaml

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(ROOT.glob("workloads/*/claims.yaml"))


def list_variants(workload: Path) -> set[str]:
    """Return the variants that the workload, or a shipped configuration of it, declares."""
    configured = [ROOT / "config.yaml", *ROOT.glob("workflow/config/*.yaml"), *workload.glob("config/*.yaml")]
    declared = [
        read_yaml(workload / "workload.yaml").get("variants") or {},
        *(read_yaml(path).get("variants") for path in configured),
    ]
    return {name for variants in declared for name in variants or {}}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_each_documented_number_has_variants_that_can_be_measured_or_a_reason(path):
    file, variants = load_claims(path), list_variants(path.parent)
    undecidable = {}
    for claim in file.claims:
        match claim.quantity:
            case Level(variant=variant):
                named = {variant}
            case Speedup(reference=reference, candidate=candidate):
                named = {reference, candidate}
            case _:
                continue
        if unknown := (named - variants) | (named - set(file.variants)):
            undecidable[claim.id] = unknown
    assert not undecidable


def test_a_number_that_cannot_be_measured_needs_a_reason(tmp_path):
    stated = "{comparator: more than, value: '1'}"
    claim = f"{{id: one, text: a, source: s, place: p, unit: s, quantity: {{missing: ' '}}, stated: {stated}}}"
    source = "{title: t, url: 'https://example.org', hardware: h, gpu: g, profiled: false, epochs: 1}"
    (tmp_path / "claims.yaml").write_text(f"sources: {{s: {source}}}\nclaims: [{claim}]\n")
    with pytest.raises(ConfigError, match=r"claims\.yaml: claims\.0\.quantity.*correct the claim"):
        load_claims(tmp_path / "claims.yaml")
