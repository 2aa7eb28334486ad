"""Paragraphs of the templates: one line each, filled with data as text."""

import pytest
from jinja2 import UndefinedError

from speedproof.report.document import Document, FirstScreen, Section, Text
from speedproof.report.html import compose_html
from speedproof.report.markdown import compose_markdown
from speedproof.report.prose import Prose
from speedproof.results.quality import Quality
from speedproof.results.trace_results import RanksSummary, RankTimes
from tests.report.pages import Page, find_live

RESULTS = Prose("results.md.j2")
PLAIN = str.maketrans({"\N{NO-BREAK SPACE}": " "})


def test_a_paragraph_is_one_line_with_its_numbers_and_plurals():
    said = RESULTS["ablation"]("Dice", 20, 1)
    assert "\n" not in said and "  " not in said
    assert said.startswith("A stage's time and gain are") and "its Dice is the median of the runs' best." in said
    assert said.endswith("each interval would exclude 1 with a chance of 5 %: 1 expected of 20 intervals.")
    assert "5 %: 0.05 expected of 1 interval." in RESULTS["ablation"]("Dice", 1, 1)
    assert RESULTS["ablation"]("Dice", 16, 17).endswith(
        "one or more of the intervals would exclude 1 with a chance of at most 5 %, since they are adjusted for 17 comparisons."
    )


def test_a_rule_of_quality_is_told_in_its_direction():
    rule = {"name": "loss", "title": "loss", "better": "lower", "margin": 0.01}
    said = RESULTS["quality_rule"](Quality.model_validate(rule))
    assert said.endswith("A speedup is withheld if the faster variant's best loss is higher by more than 0.010.")
    said = RESULTS["quality_rule"](Quality.model_validate(rule | {"better": "higher", "judged_above": 0.9}))
    assert said.endswith("loss is lower by more than 0.010. It is judged only if the other variant's is above 0.900.")


@pytest.mark.parametrize("old_order", [False, True])
def test_how_intervals_are_made_depends_on_the_design(old_order):
    plain, joint = RESULTS["intervals"](False, old_order, 1), RESULTS["intervals"](True, old_order, 3)
    assert plain.startswith(
        "Intervals are t intervals on the paired logarithms of two variants' values; those of shares are on"
    )
    assert plain.endswith("comparison.json names the files and the expression behind each number.")
    assert "Experiments that ran until decided have intervals that are valid at any stop." in joint
    assert joint.endswith(
        "The intervals of a metric are adjusted for its 3 comparisons: all of them hold in at least 95 of 100 experiments."
    )
    assert ("every second round reverses it" in plain) == old_order


def test_ranks_that_wait_and_ranks_that_do_not():
    ranks = [
        {"rank": rank, "epoch_s": 2.0, "waited_s": rank * 0.5, "communication_s": 0.4, "exposed_s": 0.2} for rank in (0, 1)
    ]
    even, waits = (RankTimes.model_validate(rank) for rank in ranks)
    summary = RanksSummary(profiler="nsys", basis="communication kernels", ranks=[even, waits], waits=[], notes=["a note"])
    say = Prose("several_gpus.md.j2")["ranks"]
    assert say("Two GPUs", summary, waits, 0.25, even, waits).translate(PLAIN) == (
        "Two GPUs: rank 1 loses 0.500 s per epoch (25 %) to imbalance, 0.250 s of it in training; most of the waiting there is "
        "for rank 0. On rank 1, communication, including waiting inside it, takes 0.400 s per epoch; 0.200 s of it is exposed."
    )
    silent = even.model_copy(update={"communication_s": None})
    assert say("Two GPUs", summary, even, 0.0, even, silent) == "Two GPUs: no rank waits for another; a note."


def test_a_paragraph_without_its_data_is_an_error():
    with pytest.raises(UndefinedError):
        RESULTS["ablation"]("Dice")
    with pytest.raises(TypeError):
        RESULTS["further"]("more")


def test_data_in_a_paragraph_are_shown_and_never_markup():
    said = RESULTS["speedups"](False, True, "<img src=x onerror=alert(1)> **bold**")
    document = Document("t", FirstScreen([], "", []), [Section("reach", "Reach", [Text([said])], folded=False)])
    page = Page(compose_html(document))
    assert find_live(page) == [] and "unless a number of machines is given (<img src=x onerror=alert(1)> **bold**;" in page.text
    assert r"\<img src=x onerror=alert(1)\> \*\*bold\*\*" in compose_markdown(document, "comparison.json")
