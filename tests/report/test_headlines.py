"""The first lines of a report. In an example a training epoch takes 1.48 s (baseline), 1.30 s (cached) and 1.08 s (fast)."""

import pytest

from speedproof.report.headlines import describe_headlines, describe_speedups, tabulate_speedups
from speedproof.report.markdown import write_report
from speedproof.report.report_tables import list_qualities, list_ratios
from speedproof.stats.found_tables import Findings
from tests.report.conftest import make_results
from tests.report.example import EPOCH_S, Example, compare_example, rule_with

VARIANTS = ("baseline", "cached", "fast")
OUT_OF_REACH = rule_with(targets=[0.99])


def compare(**settings):
    example = Example(**{"modes": ("timed",), "quality": OUT_OF_REACH, **settings})
    return compare_example(example)


def write_and_read(results):
    write_report(results, results / "report.md")
    return (results / "report.md").read_text(encoding="utf-8")


def test_few_speedups_are_sentences_and_no_table():
    comparison = compare()
    assert tabulate_speedups(Findings(comparison)) == []
    assert len(describe_speedups(Findings(comparison))) == 2
    assert describe_headlines(Findings(comparison)) == describe_speedups(Findings(comparison))


@pytest.mark.parametrize(
    ("seeds", "data", "said"),
    [
        (
            [1, 9],
            ["phantom-full"],
            "was tuned on seed 1 and the data used to evaluate it here, so its quality and time to quality may be",
        ),
        ([0, 1], ["phantom-few"], "was tuned on seeds 0, 1 used to evaluate it here"),
        ([9], ["phantom-full"], "was tuned on the data used to evaluate it here"),
        ([9], ["phantom-few"], "was tuned on other seeds and data than those used to evaluate it here."),
    ],
)
def test_a_variant_that_is_judged_by_what_chose_its_settings_is_named(tmp_path, seeds, data, said):
    tuned = {"fast": {"seeds": seeds, "data": data}, "not_measured": {"seeds": [0]}}
    example = Example(modes=("timed",), synthetic=True, quality=rule_with(tuned_on=tuned))
    assert write_and_read(make_results(tmp_path / "results", example)).count(said) == 1


def test_many_speedups_are_a_table_with_a_row_for_each_pair():
    comparison = compare(variants=VARIANTS, pairs=(("cached", "fast"),))
    header, *rows = tabulate_speedups(Findings(comparison))
    assert header == ["Variant", "Against", "training epoch", "training + validation epoch", "Pairs of runs"]
    baseline, cached, fast = (comparison.variants[variant] for variant in VARIANTS)
    assert [row[:2] for row in rows] == [[cached, baseline], [fast, baseline], [fast, cached]]
    assert [row[2].split(" (")[0] for row in rows] == ["1.14×", "1.37×", "1.20×"]
    assert all(row[-1] == "6" for row in rows)
    assert describe_headlines(Findings(comparison), tabulated=True) == []


def test_the_faster_variant_is_named_first_also_where_it_is_the_reference():
    turned = {**EPOCH_S, "baseline": 1.08, "fast": 1.48}
    comparison = compare(variants=VARIANTS, pairs=(("cached", "fast"),), epoch_s=tuple(turned.items()))
    ratio = next(r for r in comparison.ratios if (r.candidate, r.metric) == ("fast", "training_epoch_s"))
    assert ratio.high is not None and ratio.high < 1
    titles = [comparison.variants[variant] for variant in ("baseline", "fast")]
    sentence = describe_speedups(Findings(comparison))[1]
    assert f"{titles[0]} is 1.37× as fast as {titles[1]} on one machine, NVIDIA H200 (95 % interval 1.3" in sentence.replace(
        "\xa0", " "
    )
    row = tabulate_speedups(Findings(comparison))[2]
    assert row[:2] == titles
    low, high = row[2].removeprefix("1.37× (").removesuffix("×)").split("–")
    assert float(low) == pytest.approx(1 / ratio.high, abs=0.005)
    assert float(high) == pytest.approx(1 / ratio.low, abs=0.005)


def test_the_table_says_where_there_is_no_interval_and_no_difference():
    rows = tabulate_speedups(Findings(compare(variants=VARIANTS, pairs=(("cached", "fast"),), experiments=1, rounds=1)))
    assert rows[1][2] == "no verdict: one pair (1.13×)"
    alike = tuple({**EPOCH_S, "cached": 1.48}.items())
    rows = tabulate_speedups(Findings(compare(variants=VARIANTS, pairs=(("cached", "fast"),), epoch_s=alike)))
    assert rows[1][2].startswith("equivalent (0.9")


def test_the_table_withholds_with_the_reason():
    dice = (("baseline", 0.155), ("cached", 0.15), ("fast", 0.155))
    rows = tabulate_speedups(Findings(compare(variants=VARIANTS, pairs=(("cached", "fast"),), dice_per_epoch=dice)))
    assert rows[1][2] == "withheld; Dice 0.910 against 0.940, lower by more than the margin of 0.010"


def test_the_table_has_the_highest_dice_that_both_variants_reach():
    rule = rule_with(targets=[0.2, 0.25])
    header, first, *_ = tabulate_speedups(Findings(compare(variants=VARIANTS, pairs=(("cached", "fast"),), quality=rule)))
    assert header[4] == "time to Dice from the start of the process"
    assert first[4].startswith("0.25: ") and "0.2:" not in first[4]


def test_two_variants_that_are_compared_both_ways_have_one_row():
    comparison = compare(variants=VARIANTS, pairs=(("cached", "fast"), ("fast", "baseline")))
    assert [row[:2] for row in tabulate_speedups(Findings(comparison))[1:]] == [
        [comparison.variants[one] for one in pair]
        for pair in (("cached", "baseline"), ("fast", "baseline"), ("fast", "cached"))
    ]
    assert len(list_qualities(Findings(comparison))) == 3


def test_a_report_of_many_sides_has_their_table_before_the_claims(tmp_path):
    example = Example(modes=("timed",), quality=OUT_OF_REACH, variants=VARIANTS, pairs=(("cached", "fast"),))
    opening = write_and_read(make_results(tmp_path / "results", example)).split("## Documented against measured")[0]
    assert "Speedups, each on one machine (NVIDIA H200; 95 % intervals):" in opening
    assert opening.count("\n| ") == 5  # its header, the line below, three pairs
    assert "could be compared" not in opening


def test_equal_quality_is_said_once_for_all_metrics():
    comparison = compare()
    rows = list_ratios(Findings(comparison))
    assert len(rows) > 3
    assert list_qualities(Findings(comparison)) == [
        [rows[0][1], "not judged: the slower variant's Dice is 0.310; quality is judged only above 0.900"]
    ]
