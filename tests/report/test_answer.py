"""The answer to "which is faster, and how sure is that": never more than interval, pairs and quality allow.

In an example a training epoch takes 1.48 s (baseline) and 1.08 s (fast): 1.37 times.
"""

from dataclasses import replace
from itertools import pairwise

import pytest
from typer.testing import CliRunner

from speedproof.cli.application import app
from speedproof.report.document import Badge
from speedproof.report.figures.figure_data import read_evidence
from speedproof.report.first_screen import compose_first_screen
from speedproof.report.forest import draw_forest, draw_forest_picture
from speedproof.report.headlines import describe_answer
from speedproof.report.ranks_section import describe_scaling
from speedproof.report.ratio_phrases import describe_needed, describe_state
from speedproof.results.asked import Asked
from speedproof.results.claim import Claim
from speedproof.results.comparison import Incomparable, Scaling
from speedproof.results.comparison_rows import Needed, Origin
from speedproof.stats.main_ratios import Answer, find_answer
from tests.report.conftest import make_results
from tests.report.example import EPOCH_S, REPOSITORY, Example, compare_example, rule_with

FAST, BASELINE = "MONAI fast script", "MONAI baseline script"


def compare(**settings):
    return compare_example(Example(**{"modes": ("timed",), **settings}))


def answer(comparison):
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in describe_answer(find_answer(comparison))]


def with_times(**times):
    return tuple({**EPOCH_S, **times}.items())


@pytest.mark.parametrize(
    ("settings", "sentence", "state"),
    [
        ({}, f"{FAST} trains an epoch 1.37× as fast as {BASELINE} on this machine.", "faster"),
        # 1.08 / 1.48; what is documented of the two keeps its way round.
        (
            {"epoch_s": with_times(baseline=1.08, fast=1.48)},
            f"{FAST} is slower: it trains an epoch 0.730× as fast as {BASELINE} on this machine.",
            "slower",
        ),
        (
            {"epoch_s": with_times(fast=1.48)},
            f"{FAST} trains an epoch as fast as {BASELINE} on this machine, within 2.0 %; 1.03× (1.02–"
            "1.03×) for the whole process.",
            "equivalent",
        ),
        (
            {"rounds": 1, "experiments": 1},
            f"No verdict yet: {FAST} measured 1.37× as fast as {BASELINE} on this machine, by training epoch time.",
            "no verdict: one pair",
        ),
        (
            {"rounds": 3, "experiments": 1},
            f"No verdict yet: {FAST} measured 1.37× as fast as {BASELINE} on this machine, by training epoch time.",
            "no verdict",
        ),
        (
            {"dice_per_epoch": (("baseline", 0.155), ("fast", 0.15))},
            f"Withheld: {FAST} trains an epoch 1.37× as fast as {BASELINE} on this machine, but the quality is worse.",
            "withheld: worse quality",
        ),
    ],
)
def test_the_first_line_is_the_answer(settings, sentence, state):
    comparison = compare(**settings)
    assert answer(comparison)[0] == sentence
    assert describe_state(find_answer(comparison).mains[0]).text == state


def test_of_what_is_not_documented_the_faster_variant_is_named_first():
    comparison = compare(epoch_s=with_times(baseline=1.08, fast=1.48))
    comparison.claims.clear()
    assert answer(comparison)[0] == f"{BASELINE} trains an epoch 1.37× as fast as {FAST} on this machine."


@pytest.mark.parametrize("epoch_s", [with_times(), with_times(baseline=1.08, fast=1.48)])
def test_of_rates_alone_the_variant_with_the_higher_rate_is_the_faster_one(epoch_s):
    comparison = compare(epoch_s=epoch_s)
    comparison.claims.clear()
    comparison.ratios[:] = [ratio for ratio in comparison.ratios if ratio.metric == "samples_per_s"]
    fast, slow = (FAST, BASELINE) if dict(epoch_s)["fast"] < dict(epoch_s)["baseline"] else (BASELINE, FAST)
    assert answer(comparison)[0] == f"{fast} processes training samples 1.37× as fast as {slow} on this machine."
    (row,) = draw_forest(find_answer(comparison)).rows
    assert row.variants == [fast, " against ", slow]


def test_beside_an_experiments_number_stands_what_that_experiment_says_of_a_claim():
    comparison = compare(experiments=2, rounds=4)
    claims = [claim for claim in comparison.claims if claim.ratio]
    by_experiment = {"experiment-1": "reproduced", "experiment-2": "inconclusive"}
    comparison.claims[:] = [
        claim.model_copy(update={"verdict": "inconclusive", "by_experiment": by_experiment}) for claim in claims
    ]
    answered = find_answer(comparison)
    assert {row.judged.text for row in draw_forest(answered).rows if row.bands} == {
        f"documented: {by_experiment[answered.mains[0].place.experiment]}"
    }
    assert "inconclusive: reproduced in experiment-1, inconclusive in experiment-2" in answer(comparison)[-1]


def test_the_documented_ratio_of_another_mode_is_named_and_keeps_the_way_round():
    slower = with_times(baseline=1.08, fast=1.48)
    comparison = compare(modes=("timed", "documented"), epoch_s=slower, rounds=6)
    told = answer(comparison)
    assert told[0] == f"{FAST} is slower: it trains an epoch 0.730× as fast as {BASELINE} on this machine."
    assert told[2].startswith("Documented: 1.7–2.3×: inconclusive")
    assert told[2].endswith("(on one V100 of a DGX-2, under the profiler).")


def test_the_second_line_says_how_sure_that_is():
    assert answer(compare())[1] == "95 % interval 1.34–1.40×, 6 pairs of runs on one machine."
    single = answer(compare(rounds=1, experiments=1))[1]
    assert single == "1 pair of runs on one machine; a verdict needs 4."


def test_rows_name_their_experiment_only_where_nothing_else_tells_them_apart():
    """The record is of two experiments that compare other programs."""
    named = draw_forest(find_answer(compare(experiments=2, rounds=4))).rows
    assert {row.what for row in named} >= {"training epoch (experiment-1)"}
    record = draw_forest(read_evidence(REPOSITORY / "records/2026-11-27-h100-published-turbo").answer).rows
    assert [row.what for row in record if "experiment" in row.what] == []
    assert "time to Dice 0.94 from the start of the process" in [row.what for row in record]


def test_where_nothing_was_compared_the_answer_says_so():
    comparison = compare()
    comparison.ratios.clear()
    comparison.claims.clear()
    assert answer(comparison) == ["No two variants could be compared."]
    samples = "training samples per epoch: 128 against 64"
    fewer = Incomparable(reference="a", candidate="b", mode="timed", experiment="experiment-1", differences=[samples])
    comparison.incomparable.append(fewer)
    assert answer(comparison) == [f"No two variants could be compared: {samples}."]
    assert draw_forest(find_answer(comparison)) is None


def test_verdict_answers_in_its_first_line(tmp_path):
    results = make_results(tmp_path / "results", Example(modes=("timed",)))
    told = CliRunner().invoke(app, ["results", "show", "--from", str(results)])
    assert told.exit_code == 0, told.output
    said = " ".join(told.output.split())
    assert said.startswith(f"{FAST} trains an epoch 1.37× as fast as {BASELINE} on this machine. 95 % interval 1.34–1.40×")


def test_a_documented_ratio_leads_with_its_band_and_its_verdict():
    comparison = compare(modes=("timed", "documented"), rounds=6)
    documented = find_answer(comparison).documented
    forest = draw_forest(Answer([documented]))
    row = forest.rows[0]
    assert row.judged.text.startswith("documented: ")
    assert [band.text for band in row.bands] == [f"documented {claim.documented}" for claim in documented.documented]
    assert all(0 <= band.left < band.left + band.width <= 100 for band in row.bands)
    assert row.what.endswith("under the profiler")


@pytest.mark.parametrize(("high", "fades"), [(2.3, ""), (None, "right")])
def test_a_range_without_an_end_fades_out(high, fades):
    comparison = compare(modes=("timed", "documented"), rounds=6)
    documented = find_answer(comparison).documented
    claim = documented.documented[0]
    claim = claim.model_copy(update={"ratio": claim.ratio.model_copy(update={"low": 1.7, "high": high})})
    forest = draw_forest(Answer([replace(documented, documented=[claim])]))
    assert [band.fades for band in forest.rows[0].bands] == [fades]
    picture = draw_forest_picture(forest, "here")
    assert ("url(#right)" in picture) == (fades == "right")


@pytest.mark.parametrize(
    ("length", "drawn"),
    [(38, f'y="42">{"w" * 38}<'), (40, f'font-size:16.1px">{"w" * 40}<'), (60, f'font-size:11.1px">{"w" * 57}…<')],
)
def test_a_long_line_is_drawn_smaller_before_it_is_cut(length, drawn):
    forest = draw_forest(find_answer(compare()))
    row = replace(forest.rows[0], what="w" * length)
    assert drawn in draw_forest_picture(replace(forest, rows=[row]), "here")


def test_every_position_lies_on_the_axis_and_ticks_stand_apart():
    forest = draw_forest(find_answer(compare(control=True)))
    places = [place for row in forest.rows for place in (row.centre, row.left, row.left + row.width)]
    assert all(0 < place < 100 for place in places)
    at = [place for place, _ in forest.ticks]
    assert at == sorted(at) and min(b - a for a, b in pairwise(at)) >= 15
    assert (forest.one, "1×") in forest.ticks
    assert [row.said.text for row in forest.rows][-1] == "noise"


@pytest.mark.parametrize(
    ("minutes", "told"),
    [(0.4, "less than a minute"), (1.2, "about 1 minute"), (42, "about 42 minutes"), (150, "about 2 hours")],
)
def test_what_would_decide_is_told_in_round_numbers(minutes, told):
    assert describe_needed(Needed(pairs=8, minutes=minutes), "here") == f"about 8 pairs in total would decide, {told} more"


def test_memory_stands_behind_times_and_is_never_called_fast():
    comparison = compare()
    (time, *_) = [ratio for ratio in comparison.ratios if ratio.metric == "training_epoch_s"]
    memory = time.model_copy(update={"metric": "peak_memory_mib"})
    claims = [claim for claim in comparison.claims if claim.ratio]
    comparison.claims[:] = [
        claim.model_copy(update={"ratio": claim.ratio.model_copy(update={"metric": "peak_memory_mib"})}) for claim in claims
    ]
    comparison.ratios[:] = [memory, time]
    assert [main.metric for main in find_answer(comparison).mains] == ["training_epoch_s", "peak_memory_mib"]
    comparison.ratios[:] = [memory]
    assert answer(comparison)[0] == f"{BASELINE} has 1.37× the peak memory of the GPU of {FAST} on this machine."
    (row,) = draw_forest(find_answer(comparison)).rows
    assert (row.said, draw_forest(find_answer(comparison)).meaning) == (Badge("less memory", "good"), "ratio, logarithmic")


def test_whether_it_is_faster_and_whether_that_was_documented_are_two_marks():
    comparison = compare(experiments=1, rounds=4)
    claims = [claim for claim in comparison.claims if claim.ratio]
    comparison.claims[:] = [claim.model_copy(update={"verdict": "inconclusive"}) for claim in claims]
    row = draw_forest(find_answer(comparison)).rows[0]
    assert (row.said, row.judged) == (Badge("faster", "good"), Badge("documented: inconclusive", "open"))


def test_fewer_pairs_than_a_verdict_needs_are_no_verdict_wherever_their_interval_lies():
    ends = {"four": (0.95, 0.94, 0.96), "two": (0.98, 0.95, 1.01)}  # the latter holds 1, which made it the headline
    comparison = compare(experiments=1, rounds=3)
    comparison.ratios.clear()
    for name, (efficiency, low, high) in ends.items():
        comparison.scaling.append(
            Scaling(
                smaller="one", larger=name, smaller_title="One", larger_title=name, kind="weak", smaller_ranks=1,
                larger_ranks=2, efficiency=efficiency, low=low, high=high, pairs=3, scope="here",
                experiment="experiment-1", hosts=1, origin=Origin(files=[], expression=""),
            )
        )  # fmt: skip
    found = find_answer(comparison).mains
    assert [(one.subject.name, describe_state(one).text) for one in found] == [("four", "no verdict"), ("two", "no verdict")]
    assert all("a verdict needs 4" in sentence for sentence in map(describe_scaling, found))


def test_an_epoch_of_unequal_work_follows_the_way_to_a_quality():
    reached = (("baseline", 0.16), ("cached", 0.16))
    comparison = compare(variants=("baseline", "cached"), dice_per_epoch=reached)
    assert find_answer(comparison).mains[0].metric == "training_epoch_s"
    unequal = {"outcome": "unequal", "reason": "unequal work: twice the FLOP"}
    ratios = [
        ratio.model_copy(update={"work": ratio.work and ratio.work.model_copy(update=unequal)}) for ratio in comparison.ratios
    ]
    mains = find_answer(comparison.model_copy(update={"ratios": ratios})).mains
    assert [one.target for one in mains] == [0.94, None, None]


@pytest.mark.parametrize("metric", ["process_s", "training_epoch_s", "first_epoch_s"])
def test_the_metric_that_a_proof_was_asked_for_comes_first(metric):
    claim = Claim(value=9.0, low=9.0, high=None)
    found = find_answer(compare(), Asked(command="", metric=metric, margin=None, claim=claim)).mains
    assert [one.metric for one in found if one.claim] == [metric] == [found[0].metric]


def test_where_quality_is_not_judged_the_first_screen_names_the_way_to_one(tmp_path):
    reached = (("baseline", 0.16), ("cached", 0.16))
    example = Example(
        variants=("baseline", "cached"), modes=("timed",), dice_per_epoch=reached, quality=rule_with(judged_above=0.98)
    )
    screen = compose_first_screen(read_evidence(make_results(tmp_path / "results", example)))
    (quality,) = (fact for fact in screen.facts if fact.name == "Quality")
    said = quality.text.replace("\N{NO-BREAK SPACE}", " ")
    reason = "the slower variant's Dice is 0.970; quality is judged only above 0.980."
    begin = "Not judged for the ratio of training epoch time, whose runs end after 6 epochs"
    assert said.startswith(f"{begin}: {reason} From the start of the process to a Dice of ")
    assert said.endswith(" is 1.04× as fast as MONAI baseline script (1.04–1.05×).")
    assert "quality was not judged" not in screen.note


def test_the_first_screen_names_a_quality_that_longer_runs_were_judged_by():
    screen = compose_first_screen(read_evidence(REPOSITORY / "records/2026-11-28-h200-published-turbo"))
    (quality,) = (fact for fact in screen.facts if fact.name == "Quality")
    said = quality.text.replace("\N{NO-BREAK SPACE}", " ")
    assert said.startswith("Not judged for the ratio of training epoch time, whose runs end after 6 epochs: ")
    assert said.endswith(
        "In 6 other pairs of runs, Turbo (ours) is no worse than Published fast_training_tutorial.ipynb: Dice 0.959 against "
        "0.956, not lower by more than the margin of 0.010."
    )
    assert not quality.warns
