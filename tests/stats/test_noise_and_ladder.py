from itertools import pairwise

import pytest

from speedproof.report.findings import describe_ladder
from speedproof.results.files import write_json
from speedproof.results.folder import ANALYSIS_FOLDER
from speedproof.results.summary import SUMMARY_FILE, read_summary
from speedproof.run.archive.rebuild import compare_results
from speedproof.stats.ablation import describe_change
from speedproof.stats.compare import compare_blocks
from tests.report.example import CLAIMS, Example, rule_with, write_example
from tests.report.example_trace import example_summary

LADDER = Example(ladder=("baseline", "cached", "fast"), control=True)


def compare(tmp_path, example):
    return compare_blocks(write_example(tmp_path, example), CLAIMS)


def test_the_noise_floor_is_the_first_side_against_its_control(tmp_path):
    # The baseline's runs take 1, 1.01 and 0.99 times 1.48 s, its control's all 1.48 s.
    comparison = compare(tmp_path, Example(control=True))
    noise = next(row for row in comparison.noise_floor if row.metric == "training_epoch_s")
    assert (noise.variant, noise.pairs) == ("baseline", 6)
    assert noise.centre == pytest.approx(1.0)
    assert noise.largest == pytest.approx(0.01)
    assert noise.low is not None and noise.high is not None
    assert 0.99 < noise.low < 1 < noise.high < 1.01


def test_a_control_counts_in_no_other_number(tmp_path):
    with_control, without = compare(tmp_path / "a", Example(control=True)), compare(tmp_path / "b", Example())
    values = [[(row.variant, row.metric, row.values) for row in one.measured] for one in (with_control, without)]
    assert values[0] == values[1]
    assert [row.centre for row in with_control.ratios] == [row.centre for row in without.ratios]
    assert without.noise_floor == []


def test_each_rung_has_its_gain_over_the_one_before(tmp_path):
    rungs = compare(tmp_path, LADDER).ladder
    assert [rung.variant for rung in rungs] == ["baseline", "cached", "fast"]
    first, *others = rungs
    assert (first.centre, first.technique, first.changes) == (None, "", [])
    assert [rung.centre for rung in others] == pytest.approx([1.48 / 1.30, 1.30 / 1.08], rel=0.011)
    for before, rung in pairwise(rungs):
        assert rung.low is not None and rung.high is not None and rung.centre is not None
        assert rung.low < rung.centre < rung.high
        assert rung.centre == pytest.approx(before.level / rung.level, rel=0.03)
    assert others[0].technique == "cache ram → gpu"
    assert all(rung.claimed for rung in others)


def test_a_rung_says_what_changed_in_the_trace(tmp_path):
    # The cache on the GPU saves 8 × (0.090 - 0.0675) s of loading an epoch, in which the GPU was idle.
    cached = compare_results(write_example(tmp_path, LADDER), CLAIMS).ladder[1]
    largest = cached.changes[0]
    assert (largest.kind, largest.name) == ("idle", "waiting for data")
    assert largest.seconds == pytest.approx(-8 * 0.0225)


def replace_summaries(results, variant, change):
    """Put another summary in place of each of a variant's."""
    paths = list(results.glob(f"{ANALYSIS_FOLDER}/*/*-{variant}-profiled/{SUMMARY_FILE}"))
    assert paths
    for path in paths:
        write_json(path, change(read_summary(path.parent)))


def test_a_rung_that_validates_less_often_has_not_changed(tmp_path):
    # Both validate for ten times as long as they train; the trace of the second ends with the fifth of six epochs.
    results = write_example(tmp_path, LADDER)
    baseline = example_summary("baseline", LADDER, "1")
    account = [
        share.model_copy(update={"total_ns": 100 * share.total_ns}) if share.part == "validation" else share
        for share in baseline.account
    ]
    replace_summaries(results, "baseline", lambda _: baseline.model_copy(update={"account": account}))
    replace_summaries(
        results, "cached", lambda _: baseline.model_copy(update={"account": account, "epochs": baseline.epochs[:5]})
    )
    assert compare_results(results, CLAIMS).ladder[1].changes == []


def test_rungs_of_which_only_one_was_profiled_on_a_gpu_have_no_changes(tmp_path):
    results = write_example(tmp_path, LADDER)
    replace_summaries(results, "cached", lambda _: example_summary("cached", Example(gpu=False), "1"))
    rungs = compare_results(results, CLAIMS).ladder
    assert [rung.changes for rung in rungs] == [[], [], []]
    assert all(rung.centre for rung in rungs[1:])


def test_rungs_whose_traces_cannot_be_compared_have_no_changes(tmp_path):
    results = write_example(tmp_path, LADDER)
    cached = example_summary("cached", LADDER, "1")
    unlike = cached.model_copy(update={"found": cached.found.model_copy(update={"by": "nothing"})})
    replace_summaries(results, "cached", lambda _: unlike)
    assert [rung.changes for rung in compare_results(results, CLAIMS).ladder] == [[], [], []]


def test_a_rung_that_learns_less_is_withheld_with_the_reason(tmp_path):
    # Six epochs: medians of the best Dice are 0.94, 0.91 and 0.94.
    dice = (("baseline", 0.155), ("cached", 0.15), ("fast", 0.155))
    comparison = compare(tmp_path, Example(arms=("timed",), ladder=LADDER.ladder, dice_per_epoch=dice))
    _, cached, fast = comparison.ladder
    assert cached.low is not None and cached.low > 1 and not cached.claimed
    assert cached.withheld == "Dice 0.910 against 0.940, lower by more than the margin of 0.010"
    assert fast.claimed and fast.withheld is None
    assert [whole.withheld for whole in comparison.ladder_whole] == [None]


def test_one_pair_does_not_tell_whether_the_steps_multiply(tmp_path):
    comparison = compare(tmp_path, Example(blocks=1, repeats=1, arms=("timed",), ladder=LADDER.ladder))
    (whole,) = comparison.ladder_whole
    assert (whole.pairs, whole.low, whole.multiplies) == (1, None, None)
    assert describe_ladder(comparison)[0].replace("\N{NO-BREAK SPACE}", " ") == (
        "Training epoch, Baseline (profiling) / the last step, in the ladder's own blocks: 1.37× (1 pair of runs, too few for "
        "an interval); the steps multiply to 1.37×. Without an interval, whether that is the whole is not known."
    )


def test_steps_that_multiply_to_the_whole_have_no_interaction(tmp_path):
    (whole,) = compare(tmp_path, LADDER).ladder_whole
    assert whole.multiplies
    assert (whole.numerator, whole.denominator) == ("baseline", "fast")
    assert whole.centre == pytest.approx(1.48 / 1.08)
    assert whole.interaction == pytest.approx(1.0)
    assert whole.product * whole.interaction == pytest.approx(whole.centre)


def test_steps_and_whole_are_of_the_blocks_that_climb_the_ladder_each_by_itself(tmp_path):
    """Another block has runs of the first and the last rung only, and takes half as long for one: no step could hold that."""
    write_example(tmp_path, Example(ladder=LADDER.ladder, arms=("timed",), blocks=3, repeats=4))
    write_example(tmp_path, Example(epoch_s=(("baseline", 0.74), ("fast", 1.08)), arms=("timed",), blocks=1, repeats=4))
    comparison = compare_blocks(tmp_path, CLAIMS)
    ratios = [r for r in comparison.ratios if r.metric == "training_epoch_s"]
    assert [(row.block, row.scope, row.pairs) for row in ratios] == [(f"block-{n}", "here", 4) for n in (1, 2, 3)]
    assert [rung.block for rung in comparison.ladder] == ["block-2"] * 3 + ["block-3"] * 3
    assert [whole.block for whole in comparison.ladder_whole] == ["block-2", "block-3"]
    for whole in comparison.ladder_whole:
        assert whole.centre == pytest.approx(ratios[1].centre)
        assert whole.product == pytest.approx(whole.centre)


def test_the_first_blocks_rule_of_quality_judges_the_ladder_too(tmp_path):
    dice = (("baseline", 0.155), ("cached", 0.15), ("fast", 0.155))
    lenient = rule_with(margin=0.5)
    write_example(
        tmp_path, Example(ladder=LADDER.ladder, arms=("timed",), blocks=3, repeats=4, dice_per_epoch=dice, quality=lenient)
    )
    write_example(tmp_path, Example(arms=("timed",), blocks=1, repeats=4, dice_per_epoch=dice))
    comparison = compare_blocks(tmp_path, CLAIMS)
    assert any("committed to another rule of quality than block-1, whose rule is used" in text for text in comparison.warnings)
    assert comparison.ladder[1].withheld == "Dice 0.907 against 0.938, lower by more than the margin of 0.010"


def test_the_ladders_own_variants_are_no_sides(tmp_path):
    comparison = compare(tmp_path, LADDER)
    assert list(comparison.variants) == ["baseline", "fast"]
    assert not any("cached" in (ratio.numerator, ratio.denominator) for ratio in comparison.ratios)


def test_without_a_ladder_there_are_no_rungs(tmp_path):
    comparison = compare(tmp_path, Example(blocks=1, repeats=4))
    assert comparison.ladder == []
    assert comparison.ladder_whole == []


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
