"""What tables are made of; in an example a training epoch takes 1.48 s (baseline), 1.30 s (cached), 1.08 s (fast)."""

from types import SimpleNamespace

import pytest

from speedproof.results.comparison_rows import Objection
from speedproof.results.folder import read_results
from speedproof.run.archive.rebuild import compare_results
from speedproof.stats import measurements
from speedproof.stats.compare import compare_experiments
from speedproof.stats.finding import State
from speedproof.stats.found_tables import Findings
from speedproof.stats.limits import list_limits
from tests.report.example import CLAIMS, Example, compare_example, rule_with, write_example

ABLATION = Example(
    experiments=1,
    rounds=4,
    variants=("baseline", "cached", "fast"),
    ablation=("baseline", "cached", "fast"),
    quality=rule_with(targets=[0.99]),
)


def find(example):
    return Findings(compare_example(example))


def test_stages_and_their_whole_are_findings(tmp_path):
    findings = Findings(compare_results(read_results(write_example(tmp_path, ABLATION)), CLAIMS).comparison)
    first, cached, fast = findings.stages
    assert first.gain is None and first.technique == ""
    assert (cached.gain.against.name, fast.gain.against.name, fast.gain.subject.name) == ("baseline", "cached", "fast")
    assert [stage.gain.state for stage in (cached, fast)] == [State.FASTER, State.FASTER]
    assert cached.gain.centre == pytest.approx(1.48 / 1.30, rel=5e-3) and cached.gain.pairs == 4
    (ablation,) = findings.ablations
    assert (ablation.whole.against.name, ablation.whole.subject.name) == ("baseline", "fast")
    assert ablation.whole.centre == pytest.approx(1.48 / 1.08, rel=5e-3)
    assert ablation.product == pytest.approx(cached.gain.centre * fast.gain.centre) and ablation.multiplies


def test_a_stage_that_learns_less_is_withheld_and_says_why():
    dice = (("baseline", 0.155), ("cached", 0.15), ("fast", 0.155))
    example = Example(**{**ABLATION.__dict__, "dice_per_epoch": dice, "modes": ("timed",)})
    stage = find(example).stages[1]
    assert stage.gain.state == State.WORSE_QUALITY and "lower by more than the margin" in stage.withheld


def test_a_stage_whose_ratio_is_contested_shows_nothing_unless_it_is_withheld(tmp_path, monkeypatch):
    spoilt = Objection(kind="spoilt", variant="cached", blocks=True, names=["a file"])
    monkeypatch.setattr(measurements, "find_objections", lambda examined: [spoilt])
    dice = (("baseline", 0.155), ("cached", 0.155), ("fast", 0.15))
    example = Example(**{**ABLATION.__dict__, "dice_per_epoch": dice, "modes": ("timed",)})
    _, cached, fast = Findings(compare_experiments(write_example(tmp_path, example), CLAIMS)).stages
    assert (cached.gain.state, cached.withheld) == (State.CONTESTED, None)
    assert fast.gain.state == State.WORSE_QUALITY and "lower by more than the margin" in fast.withheld


def test_a_ratio_of_the_further_metrics_is_the_first_variants():
    findings = find(Example(experiments=1, rounds=4, modes=("timed",)))
    further = {(level.metric, level.variant.name): gain for level, gain in findings.further}
    assert {name for _, name in further} == {"baseline", "fast"}
    assert all(gain is None for (_, name), gain in further.items() if name == "baseline")
    assert any(gain and gain.subject.name == "fast" for gain in further.values())
    assert not {level.metric for level, _ in findings.further} & {
        level.metric for level in findings.levels if not findings.is_further(level)
    }


def test_ways_to_a_quality_hold_their_levels_and_ratios_by_metric(tmp_path):
    findings = find(Example(experiments=1, rounds=4, modes=("timed",), quality=rule_with(targets=[0.2, 0.99])))
    assert [(way.target, way.variant.name, way.reached, way.runs) for way in findings.ways] == [
        (0.2, "baseline", 4, 4),
        (0.2, "fast", 4, 4),
    ]
    reference, candidate = findings.ways
    (gain,) = candidate.gains["process_to_quality_s"]
    assert gain.state == State.FASTER and gain.target == 0.2 and not reference.gains
    assert candidate.levels["epochs_to_quality"][0].runs == 4 and candidate.withheld is None


def test_limits_are_codes_with_their_facts(tmp_path):
    example = Example(experiments=1, rounds=1, modes=("timed",), gpu=False)
    comparison = compare_example(example)
    results = read_results(write_example(tmp_path, example))
    limits = {one.kind: one.facts for one in list_limits(results, comparison, {})}
    assert limits.keys() >= {"no_gpu", "synthetic_data", "single_pair", "no_noise_floor", "one_experiment"}
    assert limits["no_gpu"] == {"of_proof": False, "claims": True}
    assert limits["quality_not_judged"] == {"some": False}
    asked = SimpleNamespace(claim=None)
    of_proof = {one.kind: one.facts for one in list_limits(results, comparison, {}, asked)}
    assert of_proof["no_noise_floor"] == {"of_proof": True} and "order_unchecked" not in of_proof
