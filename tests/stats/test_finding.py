"""What is found of a ratio: read once, the same for `prove` and for a report.

In an example a training epoch takes 1.48 s (baseline) and 1.08 s (fast): 1.37 times, the whole interval above 1.
"""

import pytest

from speedproof.report.ratio_phrases import describe_main, describe_state, write_proof_sentence
from speedproof.results.asked import Asked
from speedproof.results.claim import Claim
from speedproof.results.comparison_rows import Objection
from speedproof.stats.finding import NamedVariant, Reader, State
from speedproof.stats.main_ratios import find_answer, group_speedups
from tests.report.example import Example, compare_example

LEFT = Objection(kind="left processes", variant="fast", blocks=True, values={"processes": 1})
CORES = Objection(kind="cores", variant="fast", blocks=False, values={"own": 3.0, "other": 1.0})
NOISE = Objection(kind="noise", blocks=False, values={"spread": 0.12, "effect": 0.03})
# What is measured: low end, ratio, high end, outcome, pairs.
MEASURED = {
    "faster": (1.4, 1.5, 1.6, "faster", 6),
    "slower": (0.6, 0.7, 0.8, "slower", 6),
    "equivalent": (0.99, 0.995, 1.01, "equivalent", 6),
    "inconclusive": (0.7, 0.9, 1.2, "inconclusive", 6),
    "no verdict": (0.6, 0.7, 0.8, "no verdict", 3),
    "one pair": (None, 0.7, None, "no verdict", 1),
}


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    return compare_example(Example(modes=("timed",)))


def ratio_of(comparison, measured="faster", objections=(), metric="training_epoch_s"):
    ratio = next(one for one in comparison.ratios if (one.metric, one.target) == (metric, None))
    fields = dict(zip(("low", "centre", "high", "outcome", "pairs"), MEASURED[measured], strict=True))
    return ratio.model_copy(update={**fields, "needed": None, "quality": None, "objections": list(objections)})


@pytest.mark.parametrize(
    ("measured", "named"),
    [
        ([("timed", "one"), ("profiled", "other")], {}),
        ([("timed", "one"), ("timed", "other"), ("profiled", "third")], {"timed", "profiled"}),
        ([("timed", "one"), ("profiled", "other"), ("profiled", "third")], {"profiled"}),
        ([("timed", None), ("profiled", "one")], {"profiled"}),  # None: one number of three machines
    ],
)
def test_a_place_names_its_experiment_if_several_measured_the_same(comparison, measured, named):
    (row, *_) = comparison.measured
    rows = [row.model_copy(update={"mode": mode, "experiment": experiment}) for mode, experiment in measured]
    names = ["one", "other", "third"]
    reader = Reader(comparison.model_copy(update={"experiments": names, "measured": rows}))
    assert [reader.place(row).experiment for row in rows] == [row.experiment if row.mode in named else None for row in rows]


@pytest.mark.parametrize("measured", MEASURED)
def test_a_state_is_of_the_variant_that_a_finding_is_about(comparison, measured):
    found = Reader(comparison).read(ratio_of(comparison, measured))
    assert (found.state.value, found.subject.name, found.against.name) == (measured, "fast", "baseline")


def test_a_finding_that_is_turned_is_about_the_other_variant(comparison):
    found = Reader(comparison).read(ratio_of(comparison, "slower"), turned=True)
    assert (found.state, found.subject.name) == (State.FASTER, "baseline")
    assert found.ends == pytest.approx((1 / 0.7, 1 / 0.8, 1 / 0.6))


def test_what_blocks_makes_a_ratio_contested_and_leads(comparison):
    found = Reader(comparison).read(ratio_of(comparison, "faster", [CORES, LEFT]))
    assert (found.state, found.outcome) == (State.CONTESTED, "inconclusive")
    assert [(one.objection.kind, one.leads) for one in found.caveats] == [("cores", False), ("left processes", True)]


@pytest.mark.parametrize(("measured", "leads"), [("faster", False), ("inconclusive", True)])
def test_noise_leads_if_nothing_is_concluded(comparison, measured, leads):
    found = Reader(comparison).read(ratio_of(comparison, measured, [NOISE]))
    assert [one.leads for one in found.caveats] == [leads]


@pytest.mark.parametrize(("text", "value", "outcome"), [(">= 1.3", 1.3, "claim holds"), (">= 2", 2.0, "claim fails")])
def test_a_claim_is_of_the_metric_that_was_asked(comparison, text, value, outcome):
    asked = Asked(command="", metric="training_epoch_s", margin=None, claim=Claim(value=value, low=value, high=None))
    reader = Reader(comparison, asked)
    assert reader.read(ratio_of(comparison)).outcome == outcome
    other = reader.read(ratio_of(comparison, metric="process_s"))
    assert (other.claim, other.outcome) == (None, "faster")


@pytest.mark.parametrize("measured", MEASURED)
@pytest.mark.parametrize("objections", [(), (LEFT,), (NOISE,), (CORES,)], ids=["none", "blocks", "noise", "condition"])
def test_prove_and_the_first_screen_say_the_same(comparison, measured, objections):
    """The same variant first, the same number, and the doubts of what has pairs enough."""
    titles = {"baseline": "python a.py", "fast": "python b.py"}
    found = Reader(comparison, titled=titles).read(ratio_of(comparison, measured, objections))
    of_proof, on_page = write_proof_sentence(found, None, fixed_rounds=True), "".join(describe_main(found))
    for said in (of_proof, on_page):
        assert said.index("python b.py") < said.index("python a.py")
        assert ("left 1 process running" in said) == (found.state == State.CONTESTED) or measured == "one pair"
        if found.state != State.EQUIVALENT:
            assert f"{found.centre:.3g}" in said
    words = {State.CONTESTED: "inconclusive", State.ONE_PAIR: "no verdict: one pair"}
    assert describe_state(found).text == words.get(found.state, found.state.value)


def test_a_condition_begins_with_a_command_as_it_was_typed(comparison):
    titles = {"baseline": "python a.py", "fast": "python b.py"}
    said = write_proof_sentence(
        Reader(comparison, titled=titles).read(ratio_of(comparison, objections=[CORES])), None, fixed_rounds=True
    )
    assert said.endswith(". python b.py uses 3.0 cores, the other 1.0.")


@pytest.mark.parametrize(("low", "centre", "high", "ends"), [(0.08, 0.0862, 0.09, True), (0.6, 0.7, 0.8, False)])
def test_a_ratio_below_a_half_is_said_the_other_way_round_too(comparison, low, centre, high, ends):
    ratio = ratio_of(comparison, "slower").model_copy(update={"low": low, "centre": centre, "high": high})
    said = write_proof_sentence(Reader(comparison).read(ratio), None, fixed_rounds=True)
    assert ("and takes 11.6× as long" in said) == ends  # 1 / 0.0862


def test_speedups_of_two_variants_all_speak_for_the_faster_by_the_first_metric(comparison):
    for own in group_speedups(comparison):
        assert {found.subject for found in own} == {NamedVariant("fast", comparison.variants["fast"])}


def test_without_a_ratio_an_answer_holds_why(comparison):
    answer = find_answer(comparison.model_copy(update={"ratios": [], "claims": []}))
    assert (answer.mains, answer.alone, answer.documented, answer.noise) == ([], None, None, None)
