import pytest

from speedproof.analysis.comparison import compare_blocks
from speedproof.analysis.quality import judge_dice
from speedproof.records.block import Quality
from speedproof.report.headlines import describe_speedups
from tests.report.example import CLAIMS, Example, write_example

RULE = Quality(dice_margin=0.01, judged_above=0.90)
# Six epochs, the last validates: the baseline ends at 0.93 and 0.01 more for each repeat.
GOOD = ("baseline", 0.155)


def compare(tmp_path, fast, **settings):
    example = Example(dice_per_epoch=(GOOD, ("fast", fast)), **settings)
    return compare_blocks(write_example(tmp_path, example), CLAIMS)


def find_ratio(comparison, metric="training_epoch_s", dice=None):
    return next(r for r in comparison.ratios if (r.metric, r.dice, r.arm) == (metric, dice, "timed"))


@pytest.mark.parametrize(
    ("faster", "slower", "outcome"),
    [
        (0.94, 0.94, "equal"),
        (0.931, 0.94, "equal"),
        (0.92, 0.94, "worse"),
        (0.99, 0.94, "equal"),
        (0.10, 0.90, "not judged"),
        (0.10, 0.905, "worse"),
        (None, 0.94, "not judged"),
        (0.94, None, "not judged"),
    ],
)
def test_the_faster_side_may_lose_no_more_than_the_margin_where_the_slower_one_has_learnt(faster, slower, outcome):
    assert judge_dice(faster, slower, RULE)[0] == outcome


@pytest.mark.parametrize("faster", [0.949, 0.966, 0.940])
def test_equal_is_said_in_words_that_hold_also_of_a_side_that_is_better_by_more_than_the_margin(faster):
    reason = judge_dice(faster, 0.949, RULE)[1]
    assert reason == f"Dice {faster:.3f} against 0.949, not lower by more than the margin of 0.010"


def test_a_speedup_at_a_lower_dice_is_withheld_with_the_reason(tmp_path):
    comparison = compare(tmp_path, fast=0.15)
    ratio = find_ratio(comparison)
    assert ratio.low is not None and ratio.low > 1
    assert ratio.withheld and not ratio.claimed
    assert ratio.quality is not None
    assert (ratio.quality.numerator_dice, ratio.quality.denominator_dice) == pytest.approx((0.94, 0.91))
    assert ratio.quality.reason == "Dice 0.910 against 0.940, lower by more than the margin of 0.010"


def test_a_documented_speedup_that_is_withheld_is_not_reproduced(tmp_path):
    epoch_s = (("baseline", 2.16), ("fast", 1.08))  # 2×, as documented
    kept = compare(tmp_path / "a", fast=0.155, epoch_s=epoch_s, arms=("timed",))
    withheld = compare(tmp_path / "b", fast=0.15, epoch_s=epoch_s, arms=("timed",))
    for comparison, verdict in ((kept, "reproduced"), (withheld, "not reproduced")):
        claim = next(claim for claim in comparison.claims if claim.id == "profiling_training_epoch_ratio")
        assert claim.verdict == verdict
        assert ("withheld: Dice 0.910 against 0.940" in claim.reason) == (verdict == "not reproduced")


def test_a_side_that_is_slower_may_learn_less(tmp_path):
    ratio = find_ratio(compare(tmp_path, fast=0.15, epoch_s=(("baseline", 1.0), ("fast", 2.0))))
    assert ratio.claimed and not ratio.withheld


def test_where_the_reference_is_faster_and_learns_less_the_speedup_withheld_is_its_own(tmp_path):
    sides = (("baseline", 0.15), ("fast", 0.155))
    example = Example(dice_per_epoch=sides, epoch_s=(("baseline", 1.0), ("fast", 2.0)), arms=("timed",))
    comparison = compare_blocks(write_example(tmp_path, example), CLAIMS)
    assert find_ratio(comparison).withheld
    (sentence,) = (text for text in describe_speedups(comparison) if text.startswith("training epoch:"))
    said = "a speedup of Baseline (profiling) over Fast (profiling) on NVIDIA H200 is withheld: Dice 0.910 against 0.940"
    assert said in sentence.replace("\N{NO-BREAK SPACE}", " ")


def test_a_speedup_that_was_not_shown_is_not_withheld(tmp_path):
    # Equally long epochs but for the repeats' factors, so that the interval holds 1; Dice 0.91 against 0.94.
    comparison = compare(tmp_path, fast=0.15, epoch_s=(("baseline", 1.08), ("fast", 1.08)))
    ratio = find_ratio(comparison)
    assert ratio.low < 1 < ratio.high
    assert ratio.worse and not ratio.withheld and not ratio.claimed
    (sentence,) = (text for text in describe_speedups(comparison) if text.startswith("training epoch:"))
    assert "no difference shown between Fast (profiling) and Baseline (profiling)" in sentence
    assert "lower by more than the margin" in sentence


def test_of_one_pair_nothing_is_withheld_but_a_lower_dice_reproduces_nothing(tmp_path):
    comparison = compare(tmp_path, 0.15, blocks=1, repeats=1, arms=("timed",), epoch_s=(("baseline", 2.16), ("fast", 1.08)))
    assert find_ratio(comparison).worse and not find_ratio(comparison).withheld
    claim = next(claim for claim in comparison.claims if claim.id == "profiling_training_epoch_ratio")
    assert claim.verdict == "not reproduced"
    assert claim.reason.endswith("one pair, so no interval; Dice 0.900 against 0.930, lower by more than the margin of 0.010")


def test_the_fill_of_a_cache_has_no_quality(tmp_path):
    assert find_ratio(compare(tmp_path, fast=0.15), "cache_fill_s").quality is None


def test_the_way_to_a_dice_is_measured_for_every_target_in_reach(tmp_path):
    # The fast side has 0.16 an epoch, validates every second and is 0.64 after the fourth: all runs reach 0.6 there.
    rule = Quality(dice_targets=[0.6, 0.97, 0.99])
    comparison = compare(tmp_path, fast=0.16, quality=rule, blocks=1)
    epochs = {(m.variant, m.dice): m.median for m in comparison.measured if m.metric == "epochs_to_dice"}
    assert epochs[("fast", 0.6)] == 4
    assert epochs[("baseline", 0.6)] == 4
    assert ("fast", 0.97) not in epochs  # by one run of three only: 0.96, 0.97, 0.98
    reached = {(row.variant, row.dice): (row.reached, row.runs) for row in comparison.reached}
    assert reached[("fast", 0.97)] == (2, 3)
    assert reached[("baseline", 0.97)] == (0, 3)
    assert [(row.dice, row.reason) for row in comparison.unreached] == [
        (0.97, "only 0 of 3 runs of Baseline (profiling) and 2 of 3 runs of Fast (profiling) reached it")
    ]
    assert find_ratio(comparison, "epochs_to_dice", 0.6).median == 1
    # From the start of the process: 29 s + 1 s + 4 × 1.48 s + 2 × 0.22 s against 28 s + 1 s + 4 × 1.08 s + 2 × 0.18 s.
    assert find_ratio(comparison, "process_to_dice_s", 0.6).median == pytest.approx(36.36 / 33.68, rel=0.01)
    # The training clock starts after the first step, which takes 1.1 s.
    assert find_ratio(comparison, "time_to_dice_s", 0.6).median == pytest.approx((7.36 - 1.1) / (5.68 - 1.1), rel=0.02)


def test_the_rule_is_the_one_that_the_block_committed_to(tmp_path):
    lenient = Quality(dice_margin=0.05)
    assert compare(tmp_path, fast=0.15, quality=lenient).quality == lenient
    assert find_ratio(compare(tmp_path / "b", fast=0.15, quality=lenient)).claimed
