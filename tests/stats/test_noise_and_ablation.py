from itertools import pairwise

import pytest

from speedproof.report.findings import describe_ablation
from speedproof.results.files import write_json
from speedproof.results.folder import ANALYSIS_FOLDER, read_results
from speedproof.results.summary import SUMMARY_FILE, read_summary
from speedproof.run.archive.rebuild import compare_results
from speedproof.stats.ablation import describe_change
from speedproof.stats.compare import compare_experiments
from speedproof.stats.found_tables import Findings
from tests.report.example import CLAIMS, Example, compare_example, rule_with, write_example
from tests.report.example_trace import example_summary

ABLATION = Example(ablation=("baseline", "cached", "fast"), control=True)


def compare(example):
    return compare_example(example)


def test_the_noise_floor_is_the_first_variant_against_its_control():
    # The baseline's runs take 1, 1.01 and 0.99 times 1.48 s, its control's all 1.48 s.
    comparison = compare(Example(control=True))
    noise = next(row for row in comparison.noise_floor if row.metric == "training_epoch_s")
    assert (noise.variant, noise.pairs) == ("baseline", 6)
    assert noise.centre == pytest.approx(1.0)
    assert noise.largest == pytest.approx(0.01)
    assert noise.low is not None and noise.high is not None
    assert 0.99 < noise.low < 1 < noise.high < 1.01


def test_a_control_counts_in_no_other_number():
    with_control, without = compare(Example(control=True)), compare(Example())
    values = [[(row.variant, row.metric, row.values) for row in one.measured] for one in (with_control, without)]
    assert values[0] == values[1]
    assert [row.centre for row in with_control.ratios] == [row.centre for row in without.ratios]
    assert without.noise_floor == []


def test_each_stage_has_its_gain_over_the_one_before():
    stages = compare(ABLATION).ablation
    assert [stage.variant for stage in stages] == ["baseline", "cached", "fast"]
    first, *others = stages
    assert (first.centre, first.technique, first.changes) == (None, "", [])
    assert [stage.centre for stage in others] == pytest.approx([1.48 / 1.30, 1.30 / 1.08], rel=0.011)
    for before, stage in pairwise(stages):
        assert stage.low is not None and stage.high is not None and stage.centre is not None
        assert stage.low < stage.centre < stage.high
        assert stage.centre == pytest.approx(before.level / stage.level, rel=0.03)
    assert others[0].technique == "cache ram → gpu"
    assert all(stage.claimed for stage in others)


def test_a_stage_says_what_changed_in_the_trace(tmp_path):
    # The cache on the GPU saves 8 × (0.090 - 0.0675) s of loading an epoch, in which the GPU was idle.
    cached = compare_results(read_results(write_example(tmp_path, ABLATION)), CLAIMS).comparison.ablation[1]
    largest = cached.changes[0]
    assert (largest.kind, largest.name) == ("idle", "waiting for data")
    assert largest.seconds == pytest.approx(-8 * 0.0225)


def replace_summaries(results, variant, change):
    """Put another summary in place of each of a variant's."""
    paths = list(results.glob(f"{ANALYSIS_FOLDER}/*/*-{variant}-profiled/{SUMMARY_FILE}"))
    assert paths
    for path in paths:
        write_json(path, change(read_summary(path.parent)))


def test_a_stage_that_validates_less_often_has_not_changed(tmp_path):
    # Both validate for ten times as long as they train; the trace of the second ends with the fifth of six epochs.
    results = write_example(tmp_path, ABLATION)
    baseline = example_summary("baseline", ABLATION, "1")
    account = [
        share.model_copy(update={"total_ns": 100 * share.total_ns}) if share.part == "validation" else share
        for share in baseline.account
    ]
    replace_summaries(results, "baseline", lambda _: baseline.model_copy(update={"account": account}))
    replace_summaries(
        results, "cached", lambda _: baseline.model_copy(update={"account": account, "epochs": baseline.epochs[:5]})
    )
    assert compare_results(read_results(results), CLAIMS).comparison.ablation[1].changes == []


def test_stages_of_which_only_one_was_profiled_on_a_gpu_have_no_changes(tmp_path):
    results = write_example(tmp_path, ABLATION)
    replace_summaries(results, "cached", lambda _: example_summary("cached", Example(gpu=False), "1"))
    stages = compare_results(read_results(results), CLAIMS).comparison.ablation
    assert [stage.changes for stage in stages] == [[], [], []]
    assert all(stage.centre for stage in stages[1:])


def test_stages_whose_traces_cannot_be_compared_have_no_changes(tmp_path):
    results = write_example(tmp_path, ABLATION)
    cached = example_summary("cached", ABLATION, "1")
    unlike = cached.model_copy(update={"found": cached.found.model_copy(update={"by": "nothing"})})
    replace_summaries(results, "cached", lambda _: unlike)
    assert [stage.changes for stage in compare_results(read_results(results), CLAIMS).comparison.ablation] == [[], [], []]


def test_a_stage_that_learns_less_is_withheld_with_the_reason():
    # Six epochs: medians of the best Dice are 0.94, 0.91 and 0.94.
    dice = (("baseline", 0.155), ("cached", 0.15), ("fast", 0.155))
    comparison = compare(Example(modes=("timed",), ablation=ABLATION.ablation, dice_per_epoch=dice))
    _, cached, fast = comparison.ablation
    assert cached.low is not None and cached.low > 1 and not cached.claimed
    assert cached.withheld == "Dice 0.910 against 0.940, lower by more than the margin of 0.010"
    assert fast.claimed and fast.withheld is None
    assert [whole.withheld for whole in comparison.ablation_whole] == [None]


def test_one_pair_does_not_tell_whether_the_steps_multiply():
    comparison = compare(Example(experiments=1, rounds=1, modes=("timed",), ablation=ABLATION.ablation))
    (whole,) = comparison.ablation_whole
    assert (whole.pairs, whole.low, whole.multiplies) == (1, None, None)
    assert describe_ablation(Findings(comparison))[0].replace("\N{NO-BREAK SPACE}", " ") == (
        "Training epoch, MONAI baseline script / the last stage, in the ablation's own experiments: 1.37× (1 pair of runs; a "
        "verdict needs 4); the stages multiply to 1.37×. Without an interval, it is unknown whether that equals the whole."
    )


def test_steps_that_multiply_to_the_whole_have_no_interaction():
    (whole,) = compare(ABLATION).ablation_whole
    assert whole.multiplies
    assert (whole.reference, whole.candidate) == ("baseline", "fast")
    assert whole.centre == pytest.approx(1.48 / 1.08)
    assert whole.interaction == pytest.approx(1.0)
    assert whole.product * whole.interaction == pytest.approx(whole.centre)


def test_steps_and_whole_are_of_the_experiments_that_climb_the_ablation_each_by_itself(tmp_path):
    """Another experiment runs only the first and the last stage, and needs half as long for one: no stage explains that."""
    write_example(tmp_path, Example(ablation=ABLATION.ablation, modes=("timed",), experiments=3, rounds=4))
    write_example(tmp_path, Example(epoch_s=(("baseline", 0.74), ("fast", 1.08)), modes=("timed",), experiments=1, rounds=4))
    comparison = compare_experiments(tmp_path, CLAIMS)
    ratios = [r for r in comparison.ratios if r.metric == "training_epoch_s"]
    assert [(row.experiment, row.scope, row.pairs) for row in ratios] == [(f"experiment-{n}", "here", 4) for n in (1, 2, 3)]
    assert [stage.experiment for stage in comparison.ablation] == ["experiment-2"] * 3 + ["experiment-3"] * 3
    assert [whole.experiment for whole in comparison.ablation_whole] == ["experiment-2", "experiment-3"]
    for whole in comparison.ablation_whole:
        assert whole.centre == pytest.approx(ratios[1].centre)
        assert whole.product == pytest.approx(whole.centre)


def test_the_first_experiments_rule_of_quality_judges_the_ablation_too(tmp_path):
    dice = (("baseline", 0.155), ("cached", 0.15), ("fast", 0.155))
    lenient = rule_with(margin=0.5)
    write_example(
        tmp_path,
        Example(ablation=ABLATION.ablation, modes=("timed",), experiments=3, rounds=4, dice_per_epoch=dice, quality=lenient),
    )
    write_example(tmp_path, Example(modes=("timed",), experiments=1, rounds=4, dice_per_epoch=dice))
    comparison = compare_experiments(tmp_path, CLAIMS)
    assert any("has another quality rule than experiment-1, whose rule is used" in text for text in comparison.warnings)
    assert comparison.ablation[1].withheld == "Dice 0.907 against 0.938, lower by more than the margin of 0.010"


def test_the_ablations_own_variants_are_no_variants():
    comparison = compare(ABLATION)
    assert list(comparison.variants) == ["baseline", "fast"]
    assert not any("cached" in (ratio.reference, ratio.candidate) for ratio in comparison.ratios)


def test_without_an_ablation_there_are_no_stages():
    comparison = compare(Example(experiments=1, rounds=4))
    assert comparison.ablation == []
    assert comparison.ablation_whole == []


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({"title": "a", "batch_size": 2}, {"title": "b", "batch_size": 4}, "batch_size 2 → 4"),
        ({"track_meta": True}, {"track_meta": False}, "track_meta yes → no"),
        ({"network": {"channels": [16, 32]}}, {"network": {"channels": [32, 64]}}, "network: channels 16, 32 → 32, 64"),
        ({"loss": {"name": "dice"}}, {"loss": {"name": "dice_ce", "smooth": 1}}, "loss dice → dice_ce"),
        (
            {"workers": 8, "validation_workers": 4},
            {"workers": 0, "validation_workers": 0},
            "workers 8 → 0, validation_workers 4 → 0",
        ),
        ({"command": "t a", "fused": False}, {"command": "t b", "fused": True}, "fused no → yes"),
        ({"command": "t a"}, {"command": "t b"}, "command t a → t b"),
        ({"loss": None}, {"loss": {"name": "dice", "smooth": 1}}, "loss none → dice, smooth 1"),
        ({"fused": True, "rates": [1, 2]}, {"rates": []}, "rates 1, 2 → none, fused yes → none"),
        ({"adam": {"name": "own"}}, {"adam": {"rate": 1}}, "adam: rate none → 1, name own → none"),
        ({"image": "a.sif", "image_id": "1"}, {"image": "a.sif", "image_id": "2"}, "another image"),
        ({"fused": True}, {"fused": True}, ""),
    ],
)
def test_a_change_names_the_switches(before, after, said):
    assert describe_change(before, after) == said
