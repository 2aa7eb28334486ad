import re

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from speedproof.report.figures.figure_data import read_evidence
from speedproof.report.headlines import describe_speedups
from speedproof.report.markdown import write_report
from speedproof.results.claim import Claim
from speedproof.results.folder import read_results
from speedproof.results.quality import Quality
from speedproof.stats import non_inferiority as quality
from speedproof.stats.claims import _measure
from speedproof.stats.claims_file import Level
from speedproof.stats.compare import compare_experiments, write_comparison
from speedproof.stats.estimates import Interval
from speedproof.stats.found_tables import Findings
from speedproof.stats.non_inferiority import QualityDifference, compare_qualities, pool_qualities
from speedproof.stats.proof_claim import judge_ratio
from tests.report.conftest import compose_figures
from tests.report.example import CLAIMS, REPOSITORY, RULE, Example, compare_example, rule_with, write_example
from tests.stats.test_comparability import change_runs

# Six epochs, the last validates: the baseline ends at 0.93 and 0.01 more for each round.
GOOD = ("baseline", 0.155)


def compare(fast, **settings):
    example = Example(**{"modes": ("timed",), "dice_per_epoch": (GOOD, ("fast", fast)), **settings})
    return compare_example(example)


def find_ratio(comparison, metric="training_epoch_s", target=None):
    return next(r for r in comparison.ratios if (r.metric, r.target, r.mode) == (metric, target, "timed"))


def judge_quality(faster, slower, rule):
    """What is said where every seed gives the same difference."""
    if faster is None or slower is None:
        return quality.judge_quality(None, rule)
    difference = faster - slower
    return quality.judge_quality(QualityDifference(faster, slower, Interval(difference, difference)), rule)


@pytest.mark.parametrize(
    ("faster", "slower", "outcome"),
    [
        (0.94, 0.94, "no worse"),
        (0.931, 0.94, "no worse"),
        (0.92, 0.94, "worse"),
        (0.99, 0.94, "no worse"),
        (0.10, 0.90, "not judged"),
        (0.10, 0.905, "worse"),
        (None, 0.94, "not judged"),
        (0.94, None, "not judged"),
    ],
)
def test_the_faster_variant_may_lose_no_more_than_the_margin_where_the_slower_one_has_learnt(faster, slower, outcome):
    assert judge_quality(faster, slower, RULE)[0] == outcome


@pytest.mark.parametrize("faster", [0.949, 0.966, 0.940])
def test_equal_is_said_in_words_that_hold_also_of_a_variant_that_is_better_by_more_than_the_margin(faster):
    reason = judge_quality(faster, 0.949, RULE)[1]
    assert reason == f"Dice {faster:.3f} against 0.949, not lower by more than the margin of 0.010"


def test_a_speedup_at_a_lower_dice_is_withheld_with_the_reason():
    comparison = compare(fast=0.15)
    ratio = find_ratio(comparison)
    assert ratio.low is not None and ratio.low > 1
    assert ratio.withheld and not ratio.claimed
    assert ratio.quality is not None
    assert (ratio.quality.reference_quality, ratio.quality.candidate_quality) == pytest.approx((0.94, 0.91))
    assert ratio.quality.reason == "Dice 0.910 against 0.940, lower by more than the margin of 0.010"


def test_a_documented_speedup_that_is_withheld_is_not_comparable():
    epoch_s = (("baseline", 2.16), ("fast", 1.08))  # 2×, as documented
    kept = compare(fast=0.155, epoch_s=epoch_s, modes=("timed",))
    withheld = compare(fast=0.15, epoch_s=epoch_s, modes=("timed",))
    for comparison, verdict in ((kept, "reproduced"), (withheld, "not comparable")):
        claim = next(claim for claim in comparison.claims if claim.id == "profiling_training_epoch_ratio")
        assert claim.verdict == verdict
        assert ("withheld: Dice 0.910 against 0.940" in claim.reason) == (verdict == "not comparable")


def test_a_variant_that_is_slower_may_learn_less():
    ratio = find_ratio(compare(fast=0.15, epoch_s=(("baseline", 1.0), ("fast", 2.0))))
    assert ratio.claimed and not ratio.withheld


def test_where_the_reference_is_faster_and_learns_less_the_speedup_withheld_is_its_own():
    variants = (("baseline", 0.15), ("fast", 0.155))
    example = Example(dice_per_epoch=variants, epoch_s=(("baseline", 1.0), ("fast", 2.0)), modes=("timed",))
    comparison = compare_example(example)
    assert find_ratio(comparison).withheld
    (sentence,) = (text for text in describe_speedups(Findings(comparison)) if text.startswith("training epoch:"))
    where = "on one machine, NVIDIA H200"
    said = f"a speedup of MONAI baseline script over MONAI fast script {where} is withheld: Dice 0.910 against 0.940"
    assert said in sentence.replace("\N{NO-BREAK SPACE}", " ")


def test_a_speedup_that_was_not_shown_is_not_withheld():
    # Equally long epochs but for the rounds' factors, so that the interval holds 1; Dice 0.91 against 0.94.
    comparison = compare(fast=0.15, epoch_s=(("baseline", 1.08), ("fast", 1.08)))
    ratio = find_ratio(comparison)
    assert ratio.outcome == "equivalent"
    assert ratio.worse and not ratio.withheld and not ratio.claimed
    (sentence,) = (text for text in describe_speedups(Findings(comparison)) if text.startswith("training epoch:"))
    assert "MONAI fast script is as fast as MONAI baseline script" in sentence and "within 2.0" in sentence
    assert "lower by more than the margin" in sentence


def test_of_one_pair_nothing_is_withheld_but_a_lower_dice_reproduces_nothing():
    comparison = compare(0.15, experiments=1, rounds=1, modes=("timed",), epoch_s=(("baseline", 2.16), ("fast", 1.08)))
    assert find_ratio(comparison).quality.outcome == "not established" and not find_ratio(comparison).withheld
    claim = next(claim for claim in comparison.claims if claim.id == "profiling_training_epoch_ratio")
    assert claim.verdict == "inconclusive"
    assert claim.reason == (
        "1 pair, timed mode, one machine; a verdict needs 4 pairs; Dice 0.900 against 0.930 over 1 seed; a verdict on quality "
        "needs 4"
    )


def test_the_fill_of_a_cache_has_no_quality():
    assert find_ratio(compare(fast=0.15), "cache_fill_s").quality is None


def test_the_way_to_a_dice_is_measured_for_every_target_in_reach():
    # The fast variant has 0.16 an epoch, validates every second and is 0.64 after the fourth: all runs reach 0.6 there.
    rule = rule_with(targets=[0.6, 0.97, 0.99])
    comparison = compare(fast=0.16, quality=rule, experiments=1, rounds=3)
    epochs = {(m.variant, m.target): m.centre for m in comparison.measured if m.metric == "epochs_to_quality"}
    assert epochs[("fast", 0.6)] == 4
    assert epochs[("baseline", 0.6)] == 4
    assert ("fast", 0.97) not in epochs  # by one run of three only: 0.96, 0.97, 0.98
    reached = {(row.variant, row.target): (row.reached, row.runs) for row in comparison.reached}
    assert reached[("fast", 0.97)] == (2, 3)
    assert reached[("baseline", 0.97)] == (0, 3)
    assert [(row.target, row.reason) for row in comparison.unreached] == [
        (0.97, "only 0 of 3 runs of MONAI baseline script and 2 of 3 runs of MONAI fast script reached it")
    ]
    assert find_ratio(comparison, "epochs_to_quality", 0.6).centre == 1
    # From the start of the process: 29 s + 1 s + 4 × 1.48 s + 2 × 0.22 s against 28 s + 1 s + 4 × 1.08 s + 2 × 0.18 s.
    assert find_ratio(comparison, "process_to_quality_s", 0.6).centre == pytest.approx(36.36 / 33.68, rel=0.01)
    # The training clock starts after the first step, which takes 1.1 s.
    assert find_ratio(comparison, "time_to_quality_s", 0.6).centre == pytest.approx((7.36 - 1.1) / (5.68 - 1.1), rel=0.02)


def test_short_runs_of_one_experiment_do_not_hide_how_another_reached_a_quality():
    """The record's first experiment trains six epochs, its second thirty or fifty."""
    ways = read_evidence(REPOSITORY / "records/2026-11-27-h100-published-turbo").findings.ways
    found = {(way.variant.name, way.experiment): way for way in ways if way.target == 0.94}
    turbo, short = (found["turbo", f"experiment-{number}"] for number in (2, 1))
    assert [(way.reached, way.runs) for way in (turbo, short)] == [(6, 6), (0, 4)]
    (epochs,) = turbo.levels["epochs_to_quality"]
    assert epochs.place.experiment == "experiment-2"
    (gain,) = turbo.gains["process_to_quality_s"]
    assert (gain.against.name, round(gain.centre, 2)) == ("published_tutorial", 4.56)
    assert (short.levels, short.gains) == ({}, {})


@pytest.mark.parametrize("outcome", ["completed", "not_a_number"])
def test_an_experiment_that_misses_a_quality_is_counted_and_no_claim_is_judged_without_it(tmp_path, outcome):
    rule, dice = rule_with(targets=[0.8]), (("baseline", 0.16), ("fast", 0.16))
    results = write_example(tmp_path, Example(experiments=2, rounds=4, modes=("timed",), quality=rule, dice_per_epoch=dice))
    for path in results.glob("experiments/experiment-2/runs/*-fast-timed/epochs.csv"):
        epochs = pd.read_csv(path)
        epochs.assign(quality=epochs["quality"] / 2).to_csv(path, index=False)
    change_runs(results, "*-fast-timed", lambda run: run.update(outcome=outcome), experiment="experiment-2")
    comparison = compare_experiments(results, CLAIMS)
    assert {row.experiment: (row.reached, row.runs) for row in comparison.reached if row.variant == "fast"} == {
        "experiment-1": (4, 4),
        "experiment-2": (0, 4),
    }
    levels = {row.experiment for row in comparison.measured if row.variant == "fast" and row.target == 0.8}
    assert levels == {"experiment-1"}
    claimed = Level(metric="epochs_to_quality", variant="fast", target=0.8)
    assert list(_measure(claimed, read_results(results), "timed")) == []


def test_the_rule_is_the_one_that_the_experiment_committed_to():
    lenient = rule_with(margin=0.05)
    assert compare(fast=0.15, quality=lenient).quality == lenient
    assert find_ratio(compare(fast=0.15, quality=lenient)).claimed


PERPLEXITY = Quality(name="perplexity", title="perplexity", better="lower", margin=0.5, judged_above=40, targets=[12, 30, 20])


@pytest.mark.parametrize(
    ("faster", "slower", "outcome", "said"),
    [
        (20.0, 20.0, "no worse", "perplexity 20.00 against 20.00, not higher by more than the margin of 0.50"),
        (20.5, 20.0, "no worse", "perplexity 20.50 against 20.00, not higher by more than the margin of 0.50"),
        (20.6, 20.0, "worse", "perplexity 20.60 against 20.00, higher by more than the margin of 0.50"),
        (10.0, 20.0, "no worse", "perplexity 10.00 against 20.00, not higher by more than the margin of 0.50"),
        (90.0, 40.0, "not judged", "the slower variant's perplexity is 40.00; quality is judged only below 40.00"),
        (90.0, 39.0, "worse", "perplexity 90.00 against 39.00, higher by more than the margin of 0.50"),
    ],
)
def test_where_lower_is_better_the_faster_variant_may_be_no_higher(faster, slower, outcome, said):
    assert judge_quality(faster, slower, PERPLEXITY) == (outcome, said)


@given(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3), st.floats(0, 10), st.floats(-1e3, 1e3))
def test_of_a_quality_and_its_negative_the_same_is_said(faster, slower, margin, above):
    higher = Quality(margin=margin, judged_above=above)
    lower = Quality(margin=margin, judged_above=-above, better="lower")
    assert judge_quality(faster, slower, higher)[0] == judge_quality(-faster, -slower, lower)[0]
    assert higher.reaches(faster, slower) == lower.reaches(-faster, -slower) == (faster >= slower)


def test_without_a_margin_nothing_is_judged_and_without_a_limit_everything():
    assert judge_quality(0.1, 0.9, Quality()) == ("not judged", "no quality margin was declared")
    assert judge_quality(0.1, 0.3, Quality(margin=0.01))[0] == "worse"


def test_targets_are_kept_from_the_easiest_to_the_hardest():
    assert PERPLEXITY.targets == [30, 20, 12]
    assert rule_with(targets=[0.9, 0.8, 0.9]).targets == [0.8, 0.9]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dice_targets": [0.9]}, "`dice_targets` is now `targets`"),
        ({"dice_margin": 0.1}, "`dice_margin` is now `margin`"),
        ({"targets": [1.2]}, "1.2 cannot be reached"),
        ({"within": [1, 0]}, "the other way round"),
        ({"margin": -1}, "greater than or equal to 0"),
        ({"better": "more"}, "'higher' or 'lower'"),
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused(changes, message):
    with pytest.raises(ValidationError, match=message):
        rule_with(**changes)


def test_a_quality_of_another_name_and_direction_is_measured_judged_and_said_throughout(tmp_path):
    """Six epochs of a loss-like quality: the example's Dice taken from 1, so that 0.07 is what 0.93 was."""
    rule = Quality(name="error", title="voxel error", better="lower", margin=0.01, judged_above=0.10, targets=[0.40, 0.08])
    mirrored = Example(dice_per_epoch=(GOOD, ("fast", 0.15)), modes=("timed",), quality=rule, mirrored=True)
    comparison = compare_experiments(results := write_example(tmp_path, mirrored), CLAIMS)
    ratio = find_ratio(comparison)
    assert ratio.withheld
    assert ratio.quality.reason == "voxel error 0.090 against 0.060, higher by more than the margin of 0.010"
    samples = next(row for row in comparison.ratios if row.metric == "samples_per_s")
    assert (samples.reference, samples.candidate) == ("fast", "baseline")
    assert samples.withheld
    reached = {(row.variant, row.target): row.reached for row in comparison.reached}
    assert reached == {("baseline", 0.40): 6, ("fast", 0.40): 6, ("baseline", 0.08): 6, ("fast", 0.08): 2}
    assert find_ratio(comparison, "epochs_to_quality", 0.40).centre == 1
    write_comparison(comparison, results)
    compose_figures(results)
    write_report(results, results / "report.md")
    text = (results / "report.md").read_text(encoding="utf-8")
    assert "<b>Time to reach a given voxel error</b>" in text
    assert "| voxel error | Variant | Runs that reached it |" in text
    assert "Best voxel error" in text
    assert not re.search(r"\bDice\b", text.split("## Documented against measured")[0].split("How the variants differ")[0])


def of_seeds(*qualities):
    return list(enumerate(qualities))


def test_the_difference_is_paired_by_seed_worked_out_by_hand():
    # Differences -0.01, 0, 0.01, 0: mean 0, deviation 0.0081650, t(3 degrees, 97.5 %) = 3.182446, half width 0.0129923.
    found = compare_qualities(of_seeds(0.90, 0.92, 0.94, 0.92), of_seeds(0.91, 0.92, 0.93, 0.92))
    assert (found.faster, found.slower) == pytest.approx((0.92, 0.92))
    assert (found.interval.low, found.interval.high) == pytest.approx((-0.0129923, 0.0129923), rel=1e-5)
    assert quality.judge_quality(found, RULE)[0] == "not established"
    assert quality.judge_quality(found, rule_with(margin=0.03))[0] == "no worse"


def test_fewer_than_four_seeds_are_no_outcome_however_well_they_agree():
    found = compare_qualities(of_seeds(0.95, 0.94, 0.96), of_seeds(0.95, 0.94, 0.96))
    assert quality.judge_quality(found, RULE) == (
        "not established",
        "Dice 0.950 against 0.950 over 3 seeds; a verdict on quality needs 4",
    )


@pytest.mark.parametrize(
    ("faster", "slower", "said"),
    [
        (
            (0.95, 0.95, 0.95, 0.95),
            (0.95, 0.95, 0.95, 0.95),
            "Dice 0.950 against 0.950: every run reports 0.950; the program ignores its seed",
        ),
        (
            (0.95, 0.95, 0.95, 0.95),
            (0.99, 0.99, 0.99, 0.99),
            "0.950 against 0.990: every run reports 0.950 or 0.990; the program ignores its seed",
        ),
        # One value says nothing of its noise: Welch's interval would take it for none.
        (
            (0.95, 0.95, 0.95, 0.95),
            (0.91, 0.92, 0.93, 0.92),
            ": every run of one variant reports 0.950; the program ignores its seed",
        ),
        (
            (0.90, 0.91, 0.90, 0.90),
            (0.99, 0.99, 0.99, 0.99),
            ": every run of one variant reports 0.990; the program ignores its seed",
        ),
    ],
)
def test_values_that_are_identical_over_all_seeds_are_shown_as_what_they_are(faster, slower, said):
    found = compare_qualities(of_seeds(*faster), of_seeds(*slower))
    assert found.interval is None
    outcome, reason = quality.judge_quality(found, RULE)
    assert (outcome, said in reason) == ("not established", True), reason


def test_a_seed_that_ran_twice_counts_once():
    once = compare_qualities([(0, 0.90), (1, 0.92)], [(0, 0.91), (1, 0.92)])
    assert compare_qualities([(0, 0.90), (1, 0.92), (0, 0.90)], [(0, 0.91), (1, 0.92), (0, 0.91)]) == once


def test_seeds_that_agree_by_chance_count_each_worked_out_by_hand():
    # Differences -0.02 four times and -0.01: mean -0.018, deviation 0.0044721, t(4, 97.5 %) = 2.776445, half width 0.0055529.
    found = compare_qualities(of_seeds(0.90, 0.90, 0.90, 0.90, 0.92), of_seeds(0.92, 0.92, 0.92, 0.92, 0.93))
    assert (found.interval.low, found.interval.high) == pytest.approx((-0.018 - 0.0055529, -0.018 + 0.0055529), rel=1e-4)
    assert quality.judge_quality(found, RULE)[0] == "worse"


def test_each_machine_counts_once_worked_out_by_hand():
    # Differences of the machines' means: -0.01, 0.02, 0.02: mean 0.01, deviation 0.0173205, half width 4.302653 × 0.01.
    hosts = [
        (of_seeds(0.91, 0.93), of_seeds(0.92, 0.94)),
        ([(2, 0.95)], [(2, 0.93)]),
        ([(3, 0.95), (4, 0.96), (5, 0.94)], [(3, 0.93), (4, 0.93), (5, 0.93)]),
    ]
    found = pool_qualities(hosts)
    assert found.centre == pytest.approx(0.01)
    assert (found.interval.low, found.interval.high) == pytest.approx((-0.03302653, 0.05302653), rel=1e-6)
    assert found.seeds == 6


def test_machines_that_ran_the_same_seeds_are_no_more_certain_than_these_seeds():
    # The same differences on each machine: -0.02, 0, 0.02, 0: deviation 0.0163299, half width 3.182446 / √4 of it.
    host = (of_seeds(0.91, 0.93, 0.95, 0.92), of_seeds(0.93, 0.93, 0.93, 0.92))
    found = pool_qualities([host, host, host])
    assert (found.interval.low, found.interval.high) == pytest.approx((-0.0259845, 0.0259845), rel=1e-5)
    assert found.seeds == 4


def test_two_machines_are_not_pooled_and_equal_seeds_on_three_are_as_many_as_they_are():
    one, other = (of_seeds(0.91, 0.93), of_seeds(0.93, 0.94)), ([(2, 0.95), (3, 0.92)], [(2, 0.93), (3, 0.94)])
    outcome, reason = quality.judge_quality(pool_qualities([one, other]), RULE)
    assert (outcome, reason.endswith("from fewer than 3 machines, which are not pooled")) == ("not established", True), reason
    again = quality.judge_quality(pool_qualities([one, one, one]), RULE)
    assert again[1].endswith("over 2 seeds; a verdict on quality needs 4")
    assert pool_qualities([one, ([(2, None)], [(2, 0.9)])]) is None


@pytest.mark.parametrize(
    ("faster", "proof"),
    [(0.85, "faster"), (0.791, "faster"), (0.785, "quality not established"), (0.78, "quality not established")],
)
def test_a_quality_that_is_better_by_more_than_the_margin_doubts_no_speedup_whatever_its_seeds(faster, proof):
    ratio = find_ratio(compare(GOOD[1], epoch_s=(("baseline", 2.0), ("fast", 1.0)), modes=("timed",)))
    rule = rule_with(judged_above=None)
    constant = {
        "outcome": "not established",
        "reference_quality": 0.78,
        "candidate_quality": faster,
        "difference": faster - 0.78,
    }
    check = ratio.quality.model_copy(update={**constant, "low": None, "high": None, "constant": ["reference", "candidate"]})
    assert judge_ratio(ratio.model_copy(update={"quality": check}), None, rule) == proof


def test_a_variant_that_diverged_is_not_shown_to_be_no_worse():
    comparison = compare(GOOD[1], outcome="not_a_number", modes=("timed",))
    check = find_ratio(comparison).quality
    assert check.outcome == "not established"
    assert check.reason.endswith(" in the runs that did not diverge; 1 run of MONAI fast script diverged")
    target = min(RULE.targets)  # which each run passed, that one too before it diverged
    reached = {row.variant: (row.reached, row.runs) for row in comparison.reached if row.target == target}
    assert reached == {"baseline": (6, 6), "fast": (5, 6)}
    assert not any(row.target and "fast" in (row.candidate, row.reference) for row in comparison.ratios)
    assert not any(row.target and row.variant == "fast" for row in comparison.measured)
    assert {row.reason for row in comparison.unreached if row.target == target} == {
        "only 5 of 6 runs of MONAI fast script reached it"
    }


@pytest.mark.parametrize(
    ("fast_s", "dice", "proof"), [(1.2, 0.1, "worse quality"), (1.2, GOOD[1], "claim holds"), (0.8, 0.1, "worse quality")]
)
def test_a_claim_asks_for_the_quality_of_the_variant_that_it_is_about(fast_s, dice, proof):
    """To be half as fast at least is true of a variant that is slower, or faster; not if it learns less."""
    ratio = find_ratio(compare(dice, epoch_s=(("baseline", 1.0), ("fast", fast_s)), modes=("timed",)))
    assert judge_ratio(ratio, Claim(value=0.5, low=0.5, high=None), RULE) == proof


def test_of_a_rate_the_claimed_variant_is_the_reference():
    comparison = compare(0.1, epoch_s=(("baseline", 1.0), ("fast", 1.2)), modes=("timed",))
    ratio = find_ratio(comparison, "samples_per_s")
    assert (ratio.reference, ratio.centre < 1) == ("fast", True)
    assert judge_ratio(ratio, Claim(value=0.5, low=0.5, high=None), RULE) == "worse quality"


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=8), st.floats(0.001, 0.5))
def test_worse_and_no_worse_are_what_the_whole_interval_says(pairs, margin):
    found = compare_qualities(of_seeds(*(one for one, _ in pairs)), of_seeds(*(other for _, other in pairs)))
    outcome = quality.judge_quality(found, Quality(margin=margin))[0]
    if found.interval is None or len(pairs) < 4:
        assert outcome == "not established"
    elif outcome == "no worse":
        assert found.interval.low >= -margin - 1e-9
    elif outcome == "worse":
        assert found.interval.high <= -margin + 1e-9
    else:
        assert found.interval.low <= -margin + 1e-9 and found.interval.high >= -margin - 1e-9
