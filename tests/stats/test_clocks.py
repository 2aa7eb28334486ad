"""What programs report against our own clock: honest programs pass, whatever they leave out; others do not. Values by hand."""

import math
from types import SimpleNamespace

import pandas as pd
import pytest

from speedproof.report.objection_phrases import describe_objection, describe_remedy
from speedproof.results.claim import read_claim
from speedproof.results.comparison import COMPARISON_FILE, read_comparison
from speedproof.results.evidence_archive import find_files
from speedproof.results.files import read_record
from speedproof.results.folder import read_results
from speedproof.results.observations import Observations
from speedproof.results.quality import Quality
from speedproof.results.run_record import Run
from speedproof.stats.clocks import Clocks, _check_epochs, check_reported_times, observe_ratio
from speedproof.stats.comparability import pair_runs
from speedproof.stats.estimates import Interval
from speedproof.stats.ratio_checks import Examined, find_objections
from speedproof.stats.run_values import epoch_totals
from tests.honest.test_honest_records import CONTESTED
from tests.workflow.checkout import ROOT

# How much longer each round's runs take: a machine's noise, not alike for both variants.
NOISE = ((1.0, 1.003), (1.004, 1.0), (0.997, 1.001), (1.002, 0.998), (0.999, 1.002), (1.001, 0.996))


def ran(
    reported_s,
    observed_s,
    epochs=6,
    start_up_s=1.0,
    after_s=0.1,
    digit_s=0.0,
    rates=False,
    arrivals="seen",
    slower=1.0,
    ranks=1,
):
    """A run whose epochs take so long, as reported and as observed; all of it times `slower`."""
    reported_s, observed_s = reported_s * slower, observed_s * slower
    train = [reported_s] * epochs
    seen = {"observed_s": [math.nan, *[observed_s] * (epochs - 1)]} if arrivals == "seen" else {}
    span_s = observed_s * epochs / ranks
    run = SimpleNamespace(
        observed=Observations(
            arrivals=arrivals,
            rates=rates,
            ranks=ranks,
            # The first epoch's begin was not seen: what it leaves unreported looks like start-up.
            start_up_s=start_up_s * slower + observed_s - reported_s if arrivals == "seen" and not rates else None,
            after_s=after_s * slower if arrivals == "seen" else None,
        ),
        continued=[],
        techniques={},
        best_quality=None,
        resolution_s=digit_s / 2 or None,
        process_s=start_up_s * slower + span_s + after_s * slower,
    )
    table = pd.DataFrame({"train_s": train, "validation_s": math.nan, **seen})
    return SimpleNamespace(run=run, observed=run.observed, epochs=table, derived={}, quality=Quality(), until_decided=False)


def examine(a, b, metric="training_epoch_s", rounds=6, outcome=None, trusted=False, claim=None):
    """Two variants, given by the words of :func:`ran`: what is objected to their ratio A / B."""
    pairs = [(ran(**a, slower=one), ran(**b, slower=other)) for one, other in NOISE[:rounds]]
    centre = a["reported_s"] / b["reported_s"]
    if metric == "samples_per_s":  # of a rate the candidate is faster if it is below 1
        centre = 1 / centre
    outcome = outcome or ("equivalent" if abs(math.log(centre)) < 0.02 else "faster" if centre > 1 else "slower")
    found = Examined(
        reference="a", candidate="b", metric=metric, pairs=pairs, centre=centre, outcome=outcome,
        interval=Interval(0.99 * centre, 1.01 * centre), equivalence_margin=0.02, trusted=trusted,
        claim=None if claim is None else read_claim(claim),
    )  # fmt: skip
    return find_objections(found)


def said(reported_s, share, **more):
    """A program whose epochs are so long, and cover that share of the time that our clock sees."""
    return {"reported_s": reported_s, "observed_s": reported_s / share, **more}


def object_to_faster(pairs):
    """Return what is objected to runs of A and B, of which B is called twice as fast."""
    return find_objections(
        Examined(
            reference="a", candidate="b", metric="training_epoch_s", pairs=pairs, centre=2.0, interval=None, outcome="faster",
            equivalence_margin=0.02,
        )
    )  # fmt: skip


HONEST = {
    "plain prints": (said(0.2, 1.0), said(0.1, 1.0)),
    "only training is reported, fast against turbo": (said(1.06, 0.94), said(0.0418, 0.83)),
    "only training is reported, baseline_2021 against fast": (said(2.10, 0.79), said(1.09, 0.87)),
    "one iteration of ten, as nanoGPT": (said(0.0178, 0.099), said(0.0100, 0.1)),
    "one iteration of ten, alike": (said(0.0178, 0.1), said(0.0178, 0.1)),
    "0.3 s of validation are unreported": ({"reported_s": 1.0, "observed_s": 1.3}, {"reported_s": 0.4, "observed_s": 0.7}),
    "0.14 s and 0.06 s, both printed as 0.1 s": (
        {"reported_s": 0.1, "observed_s": 0.14, "digit_s": 0.1},
        {"reported_s": 0.1, "observed_s": 0.06, "digit_s": 0.1},
    ),
    "both are cut to 0.1 s": (
        {"reported_s": 0.1, "observed_s": 0.19, "digit_s": 0.1},
        {"reported_s": 0.1, "observed_s": 0.11, "digit_s": 0.1},
    ),
    "it compiles for less than it saves": (said(0.2, 1.0), said(0.1, 1.0, start_up_s=1.2)),  # 0.2 of 0.6 s
    "the slower one ends slowly": (said(0.1, 1.0), said(0.2, 1.0, after_s=3.0)),
}


@pytest.mark.parametrize("name", HONEST)
def test_honest_programs_are_not_accused(name):
    one, other = HONEST[name]
    for metric in ("training_epoch_s", "all_epochs_s", "first_epoch_s", "process_s"):
        assert examine(one, other, metric) == [], metric
        assert examine(other, one, metric) == [], metric


def test_a_program_that_reports_half_of_its_time_is_objected_to():
    (found,) = examine(said(0.2, 1.0), said(0.1, 0.5))
    assert (found.kind, found.variant, found.blocks) == ("clocks", "b", True)
    # 0.2 / 0.1 by the reports, 0.2 / 0.2 by the clock; the noise of six rounds is below 0.3 %.
    assert found.values == pytest.approx(
        {"reported": 2.0, "observed": 1.0, "unreported_s": 0.1, "unreported_by_other_s": 0.0}, rel=0.004, abs=1e-12
    )
    sentence = "B reports 2.00× but our clock saw 1.00×: 0.100 s of each of its epochs is outside the times it reports"
    assert describe_objection(found, {"b": "B"}).replace("\N{NO-BREAK SPACE}", " ").startswith(sentence)
    (turned,) = examine(said(0.1, 0.5), said(0.2, 1.0))
    assert (turned.kind, turned.variant) == ("clocks", "a")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (said(0.2, 1.0), said(0.2, 0.5)),  # reported as equivalent, and takes twice as long
        (said(0.2, 1.0), said(0.21, 0.5)),  # reported as 5 % slower, and takes twice as long
        (said(0.2, 0.9), said(0.1, 0.6)),  # 0.022 s are unreported of the one, 0.067 s of the other
    ],
)
def test_reports_that_flatter_a_variant_are_objected_to(one, other):
    (found,) = examine(one, other)
    assert (found.kind, found.variant) == ("clocks", "b")


@pytest.mark.parametrize(
    ("spread", "kind"),
    [
        ((0.3, 0.5, 0.9, 1.2, 0.6, 1.0), "unsupported"),  # t = 5.5 of 5 degrees: above 3.4 (99 %), below 5.9 (99.9 %)
        ((0.6, 0.7, 0.9, 0.9, 0.7, 0.7), "clocks"),  # t = 15
    ],
)
def test_what_a_busy_machine_shows_of_one_honest_program_in_a_hundred_accuses_none(spread, kind):
    pairs = [(ran(0.023, 0.023), ran(0.020, 0.020 + late / 1000)) for late in spread]
    (found,) = object_to_faster(pairs)
    assert (found.kind, found.variant, found.blocks) == (kind, "b", True)


def test_a_start_up_that_is_longer_by_chance_in_one_honest_run_of_a_hundred_accuses_none():
    # 90 ms are saved. Of 3 degrees, t is 4.5 at 99 % and 10.2 at 99.9 %.
    for longer_s, kind in (((0.03, 0.05, 0.06, 0.06), "unsupported"), ((0.049, 0.05, 0.051, 0.05), "outside")):
        pairs = [(ran(0.03, 0.03), ran(0.015, 0.015, start_up_s=1 + longer)) for longer in longer_s]
        (found,) = object_to_faster(pairs)
        assert (found.kind, found.variant, found.blocks) == (kind, "b", True)
        assert (found.values["start_up_s"], found.values["gain_s"]) == pytest.approx((0.05, 0.09))
        sentence = describe_objection(found, {"b": "B"}).replace("\N{NO-BREAK SPACE}", " ")
        assert ("takes longer elsewhere" in sentence) == (kind == "outside")
        if kind == "unsupported":
            assert sentence == (
                "by its own reports, the epochs of B take 90.0 ms less, but the rest of its process is too noisy to check: "
                "on average it takes longer by 50.0 ms before its first epoch, and its whole process is 1.03× as fast"
            )


def test_reports_of_one_iteration_in_ten_are_extrapolated():
    # 6 × 2 ms are saved in what is reported, 6 × 20 ms in all.
    def object_to(*longer_s, one=(0.006, 0.06), other=(0.004, 0.04)):
        found = object_to_faster([(ran(*one), ran(*other, start_up_s=1 + longer)) for longer in longer_s])
        return [found for found in found if found.variant == "b"]

    assert object_to(-0.01, 0.03, 0.02, 0.0) == []  # 10 ms longer on average
    (found,) = object_to(0.07, 0.07, 0.071, 0.069)
    assert (found.kind, found.values["start_up_s"]) == ("outside", pytest.approx(0.07))
    assert (found.values["gain_s"], found.values["covered"]) == pytest.approx((0.12, 0.1))
    sentence = "scaled up from reports that cover 10 % of them, the epochs of B take 0.120 s less, but its process takes longer"
    assert describe_objection(found, {"b": "B"}).replace("\N{NO-BREAK SPACE}", " ").startswith(sentence)
    # What the other leaves out alone is no sample: it saves 6 × 0.05 s of its training, and moves half of that. Its first
    # epoch is 0.9 s shorter, which looks like start-up.
    (found,) = object_to(1.05, 1.051, 1.052, 1.05, one=(0.1, 1.0), other=(0.05, 0.05))
    assert (found.kind, found.values["gain_s"]) == ("outside", pytest.approx(0.3))
    # Nor is validation, which takes both as long: 6 × 0.05 s are saved by either clock.
    (found,) = object_to(0.15, 0.151, 0.152, 0.15, one=(0.1, 1.0), other=(0.05, 0.95))
    assert (found.kind, found.values["gain_s"]) == ("outside", pytest.approx(0.3))


@pytest.mark.parametrize("moved_s", [(0.5, 0.0) * 3, (0.5, 0.5, 0.0, 0.1, 0.0, 0.5), (0.3,) * 6])
@pytest.mark.parametrize("seen", [False, True])
def test_work_that_is_moved_out_of_what_is_left_unreported_is_found_even_if_by_chance(moved_s, seen):
    """Both report 10 ms of epochs of 100 ms. The candidate reports half, and takes as long in all.

    It moves work before its first epoch, or into what its first epoch leaves unreported, if our clock sees that epoch's begin.
    """

    def move(run, first_s):
        if seen:
            run.run.observed.start_up_s = 1.0
            run.epochs["observed_s"] = [first_s, *run.epochs["observed_s"][1:]]
        return run

    pairs = [
        (move(ran(0.01, 0.1), 0.1), move(ran(0.005, 0.1 - moved / 6, start_up_s=1 + moved), 0.1 + moved * 5 / 6))
        for moved in moved_s
    ]
    assert all(one.run.process_s == pytest.approx(other.run.process_s) for one, other in pairs)
    (found,) = object_to_faster(pairs)
    assert (found.kind, found.variant, found.blocks) == ("outside" if len(set(moved_s)) == 1 else "unsupported", "b", True)


@pytest.mark.parametrize("slow_s", [0.075, 0.15, 1.0])
def test_a_slow_run_does_not_hide_what_the_others_gain(slow_s):
    """Both take 10 ms an epoch. The candidate reports 1 ms, or moves 9 ms before its first epoch, except in one slow run."""
    reported = [0.001] * 11 + [slow_s]
    for pairs, kind in (
        ([(ran(0.01, 0.01), ran(one, max(one, 0.01))) for one in reported], "clocks"),
        ([(ran(0.01, 0.01), ran(one, one, start_up_s=1 + 6 * max(0.0, 0.01 - one))) for one in reported], "outside"),
    ):
        examined = Examined(
            reference="a", candidate="b", metric="training_epoch_s", pairs=pairs, centre=5.0, interval=None, outcome="faster",
            equivalence_margin=0.02,
        )  # fmt: skip
        (found,) = check_reported_times(examined)
        assert (found.kind, found.variant, found.blocks) == (kind, "b", True)


def test_a_start_up_is_compared_without_what_its_first_epoch_saves():
    """Half of each epoch is saved, of two: the first one's, which our clock takes for start-up, is not saved twice."""
    noise = (0.001, -0.001, 0.002, -0.002)
    for moved_s, kinds in ((0.0, []), (0.04, []), (0.06, ["outside"])):
        pairs = [(ran(0.01, 0.1, 2), ran(0.005, 0.05, 2, start_up_s=1 + moved_s + late)) for late in noise]
        assert [found.kind for found in object_to_faster(pairs)] == kinds


def test_what_is_too_noisy_to_check_supports_nothing():
    pairs = [(ran(0.2, 0.2), ran(0.1, observed_s)) for observed_s in (0.1, 0.3, 0.12, 0.28)]
    found = object_to_faster(pairs)
    assert [(one.kind, one.variant, one.blocks) for one in found] == [("unsupported", "b", True)]
    sentence = "B reports 2.00× but our clock saw 1.12×, too noisy to check: 0.100 s of each of its epochs is outside the times"
    assert describe_objection(found[0], {"b": "B"}).replace("\N{NO-BREAK SPACE}", " ").startswith(sentence)
    assert describe_remedy(found) == "Longer runs with more epochs, or more rounds (--rounds), are easier to check."


def test_noise_does_not_flatter_a_slower_variant():
    pairs = [(ran(0.2, 2.0 * noise), ran(0.1, 0.9)) for noise in (1.0, 1.3, 0.9, 1.4)]  # one iteration of ten
    assert object_to_faster(pairs) == []


def test_time_after_the_last_epoch_is_named():
    # Six epochs save 6 × 0.1 s = 0.6 s; the process goes on for 0.5 s more.
    (found,) = examine(said(0.2, 1.0), said(0.1, 1.0, after_s=0.6))
    assert (found.kind, found.variant) == ("outside", "b")
    assert found.values == pytest.approx({"gain_s": 0.6, "after_s": 0.5, "process": 2.3 / 2.2}, rel=0.01)
    assert "0.500 s after its last epoch" in describe_objection(found, {"b": "B"}).replace("\N{NO-BREAK SPACE}", " ")


def test_where_no_epoch_is_seen_the_process_is_the_check():
    one, other = said(0.2, 1.0, arrivals="together"), said(0.001, 1.0, arrivals="together", after_s=1.294)
    # 6 × 0.199 s = 1.194 s are saved, and the process takes as long: 1.194 s more outside of the epochs.
    found, condition = examine(one, other)
    assert (found.kind, found.variant) == ("outside", "b")
    assert (condition.kind, condition.blocks) == ("unobserved", False)
    assert found.values["elsewhere_s"] == pytest.approx(1.194, rel=0.01)


UNSEEN = {"arrivals": "together"}


def test_epochs_that_our_clock_did_not_see_are_a_condition():
    (found,) = examine(said(0.2, 1.0, **UNSEEN), said(0.1, 1.0, **UNSEEN))
    assert (found.kind, found.variant, found.blocks, found.names) == ("unobserved", None, False, ["together"])
    sentence = "the epochs of both were not observed, because their reports arrive together"
    assert describe_objection(found, {"a": "A", "b": "B"}) == sentence
    one, other = examine(said(0.2, 1.0, **UNSEEN), said(0.1, 1.0, arrivals="file"))
    assert [(one.variant, one.names, one.blocks), (other.variant, other.names)] == [("a", ["together"], False), ("b", ["file"])]


def test_that_a_run_has_too_few_epochs_to_check_does_not_say_that_none_was_timed():
    (found,) = examine(said(0.2, 1.0, arrivals="none", epochs=1), said(0.1, 1.0, arrivals="none", epochs=1))
    assert describe_objection(found, {"a": "A", "b": "B"}) == "the epochs of both are too few for our clock to check"


def test_epochs_of_which_nothing_reached_our_clock_are_not_called_too_few():
    (found,) = examine(said(0.2, 1.0, arrivals="none"), said(0.1, 1.0, arrivals="none"))
    assert (found.kind, found.variant, found.blocks, found.names) == ("unobserved", None, False, ["silent"])
    sentence = "the epochs of both were not observed, because no report of their ends reached our clock"
    assert describe_objection(found, {"a": "A", "b": "B"}) == sentence
    hidden = found.model_copy(update={"variant": "b", "values": {"outside_s": 0.9}})
    assert describe_objection(hidden, {"b": "B"}).endswith(
        "; mark its epochs (speedproof.marks), or compare whole processes (--metric process_s)"
    )


def test_a_long_start_up_of_the_other_does_not_hide_what_is_not_seen():
    # Both take 6 × 0.2 s; A starts for 2 s. B claims 0.05 s, saves 6 × 0.15 s = 0.9 s by that, and 0.9 s of it lie outside.
    slow, quick = said(0.2, 1.0, start_up_s=2.0), {"reported_s": 0.05, "observed_s": 0.2, "start_up_s": 0.0, "after_s": 0.0}
    (found,) = examine(slow, quick | UNSEEN)
    assert (found.kind, found.variant, found.blocks, found.names) == ("unobserved", "b", True, ["together"])
    assert found.values == pytest.approx({"outside_s": 0.9, "gain_s": 0.9}, rel=0.01)
    rounded = found.model_copy(update={"values": {"outside_s": 0.9, "gain_s": 0.9}})
    assert describe_objection(rounded, {"b": "B"}).replace("\N{NO-BREAK SPACE}", " ") == (
        "the epochs of B were not observed, because its reports arrive together; the 0.900 s that they save by its reports may "
        "be spent in the 0.900 s outside them; print with flush, or compare whole processes (--metric process_s)"
    )
    (turned,) = examine(quick | UNSEEN, slow)
    assert (turned.variant, turned.blocks) == ("a", True)


def test_a_long_first_epoch_of_the_other_does_not_hide_what_is_not_seen():
    # B reports 1.2 s as a first epoch of 0.95 s and five of 0.05 s. A's first one, which compiles, takes as long.
    pairs = [
        (ran(0.2, 0.2, slower=one), ran(0.05, 0.2, start_up_s=0.0, after_s=0.0, slower=other, **UNSEEN)) for one, other in NOISE
    ]
    for one, other in pairs:
        one.epochs.loc[0, "train_s"] = other.epochs.loc[0, "train_s"] = 0.95
    (found,) = object_to_faster(pairs)
    # 6 × 0.15 s are saved, and 1.2 s less 6 × 0.05 s are left.
    assert (found.kind, found.blocks, found.values) == (
        "unobserved",
        True,
        pytest.approx({"outside_s": 0.9, "gain_s": 0.9}, rel=0.01),
    )


@pytest.mark.parametrize(
    ("one", "other", "blocks"),
    [
        # 6 × 0.5 s are saved, and 1.4 or 1.6 s lie outside of what B reports.
        (said(1.0, 1.0), said(0.5, 1.0, start_up_s=1.3, **UNSEEN), False),
        (said(1.0, 1.0), said(0.5, 1.0, start_up_s=1.5, **UNSEEN), True),
        # What is unseen is slower: that does not flatter it.
        (said(0.1, 1.0), said(0.2, 1.0, start_up_s=2.0, **UNSEEN), False),
        (said(0.2, 1.0, start_up_s=2.0, **UNSEEN), said(0.1, 1.0), False),
        # As fast: half of its 1.2 s are 0.6 s.
        (said(0.2, 1.0), said(0.2, 1.0, start_up_s=0.4, **UNSEEN), False),
        (said(0.2, 1.0), said(0.2, 1.0, start_up_s=0.6, **UNSEEN), True),
    ],
)
def test_what_is_not_seen_has_to_be_little_beside_the_gain(one, other, blocks):
    (found,) = examine(one, other)
    assert (found.kind, found.blocks) == ("unobserved", blocks)


def test_the_work_between_unseen_rates_has_to_fit_into_their_process():
    # A's reports take 6 × 0.2 s; at twice the rate 0.6 s are saved of 1.2 s, and 0.6 s of B's process are left.
    one = {"reported_s": 1 / 100, "observed_s": 0.2, "rates": True, "start_up_s": 2.0}
    honest, cheat = (
        {"reported_s": 1 / 200, "observed_s": seconds, "rates": True, "start_up_s": 0.0, "after_s": 0.0, **UNSEEN}
        for seconds in (0.1, 0.2)
    )
    (found,) = [found for found in examine(one, honest, "samples_per_s", outcome="slower") if found.variant == "b"]
    assert (found.kind, found.blocks) == ("unobserved", False)
    (found,) = [found for found in examine(one, cheat, "samples_per_s", outcome="slower") if found.variant == "b"]
    assert (found.kind, found.blocks) == ("unobserved", True)
    assert found.values == pytest.approx({"outside_s": 0.6, "gain_s": 0.6}, rel=0.01)


def test_a_variant_counts_as_seen_if_most_of_its_runs_are():
    seen, unseen = said(0.1, 1.0), said(0.1, 1.0, **UNSEEN)
    for number, expected in ((1, False), (3, True)):
        runs = [ran(**(unseen if pair < number else seen), slower=NOISE[pair][1]) for pair in range(4)]
        found = object_to_faster([(ran(0.2, 0.2, slower=NOISE[pair][0]), run) for pair, run in enumerate(runs)])
        assert ([one.kind for one in found] == ["unobserved"]) == expected


def test_a_single_epoch_whose_begin_was_seen_is_observed():
    pairs = [(ran(0.2, 0.2, epochs=1), ran(0.1, 0.2, epochs=1)) for _ in range(4)]
    for run in (run for pair in pairs for run in pair):
        run.run.observed.arrivals, run.epochs["observed_s"] = "none", 0.2
    assert observe_ratio("training_epoch_s", pairs) == pytest.approx(1.0)


def test_a_variant_that_is_called_equivalent_may_not_work_on():
    (found,) = examine(said(0.1, 1.0), said(0.1, 1.0, after_s=0.7))  # all its epochs take 0.6 s
    assert (found.kind, found.variant) == ("outside", "b")


def test_a_reason_to_trust_reported_times_turns_objections_into_conditions():
    (found,) = examine(said(0.2, 1.0), said(0.1, 0.5), trusted=True)
    assert (found.kind, found.blocks) == ("clocks", False)


def test_rates_are_held_against_the_intervals_between_their_reports():
    one = {"reported_s": 1 / 100, "observed_s": 0.2, "rates": True}  # 100 a second
    assert examine(one, {"reported_s": 1 / 200, "observed_s": 0.1, "rates": True}, "samples_per_s") == []
    # Half of the gain at most is left for what lies between: 1.5 of 2 times is more than its root.
    assert examine(one, {"reported_s": 1 / 200, "observed_s": 0.2 / 1.5, "rates": True}, "samples_per_s") == []
    (found,) = examine(one, {"reported_s": 1 / 200, "observed_s": 0.2, "rates": True}, "samples_per_s")
    assert (found.kind, found.variant) == ("clocks", "b")
    assert (found.values["reported"], found.values["observed"]) == pytest.approx((2.0, 1.0), rel=0.004)


def test_the_observed_ratio_has_the_direction_of_the_reported_one():
    pairs = [(ran(0.2, 0.4), ran(0.1, 0.1))]
    assert observe_ratio("training_epoch_s", pairs) == pytest.approx(4.0)
    assert observe_ratio("samples_per_s", pairs) == pytest.approx(0.25)  # in a rate the two are exchanged
    assert observe_ratio("process_s", pairs) is None
    assert observe_ratio("training_epoch_s", [(ran(0.2, 0.4, arrivals="together"), ran(0.1, 0.1))]) is None


def test_runs_of_earlier_versions_are_not_checked():
    pairs = [(ran(0.2, 0.2), ran(0.1, 0.2)) for _ in range(6)]
    for one, other in pairs:
        one.run.observed = other.run.observed = None
    assert object_to_faster(pairs) == []


RATED = {"reported_s": 1 / 100, "observed_s": 0.2, "rates": True}


def test_work_outside_of_the_reports_of_rates_is_named():
    # From the first of six lines to the last, 5 × 0.1 s are saved. The first comes 0.5 s later: 0.6 s less 0.1 s of its step.
    (found,) = examine(RATED, RATED | {"reported_s": 1 / 200, "observed_s": 0.1, "start_up_s": 1.6}, "samples_per_s")
    assert (found.kind, found.variant) == ("outside", "b")
    assert found.values == pytest.approx({"interval_gain_s": 0.5, "before_reports_s": 0.5, "process": 2.3 / 2.3}, rel=0.02)
    assert "from its first to its last report, B takes 0.50" in describe_objection(found, {"b": "B"})
    # What the slower one starts longer is no gain of the other.
    assert examine(RATED | {"start_up_s": 1.6}, RATED | {"reported_s": 1 / 200, "observed_s": 0.1}, "samples_per_s") == []


def test_work_that_moves_by_chance_is_found_by_the_sum_of_its_places():
    # 6 × 0.1 s are saved, and 0.6 s are spent before, after or in the first epoch.
    pairs = []
    for number, (one, other) in enumerate(NOISE):
        moved = [{"start_up_s": 1.6}, {"after_s": 0.7}, {}][number % 3]
        pairs.append((ran(0.2, 0.2, slower=one), ran(0.1, 0.1, slower=other, **moved)))
        if not moved:
            pairs[-1][1].epochs.loc[0, "train_s"] += 0.6
    (found, *_) = object_to_faster(pairs)
    assert (found.kind, found.variant) == ("outside", "b")
    parts = {name: found.values[name] for name in ("start_up_s", "first_epoch_s", "after_s")}
    assert parts == pytest.approx(dict.fromkeys(parts, 0.2), rel=0.02)


@pytest.mark.parametrize(("longer_s", "kinds"), [((0.0, 0.6, 0.6, 1.5), ["unsupported"]), ((0.0, 0.1, 0.1, 0.3), [])])
def test_a_start_up_that_varies_as_much_as_the_gain_supports_nothing(longer_s, kinds):
    # 0.6 s are saved; on average 0.675 s or 0.125 s are spent.
    pairs = [(ran(0.2, 0.2), ran(0.1, 0.1, start_up_s=1 + longer)) for longer in longer_s]
    assert [one.kind for one in object_to_faster(pairs)] == kinds


def test_ranks_that_each_report_are_compared_by_their_process():
    # 12 lines of two ranks at once: 6 × 0.1 s are saved.
    words = {"epochs": 12, "ranks": 2, "arrivals": "together", "start_up_s": 0.1}
    slow, quick = (said(seconds, 1.0, **words) for seconds in (0.2, 0.1))
    assert [one.kind for one in examine(slow, quick)] == ["unobserved"]
    found, condition = examine(slow, quick | {"after_s": 0.7})
    assert (found.kind, found.variant, condition.kind) == ("outside", "b", "unobserved")
    assert found.values == pytest.approx({"gain_s": 0.6, "elsewhere_s": 0.6, "process": 1.0}, rel=0.01)


@pytest.mark.parametrize(
    ("one", "other", "claim", "corrected"),
    [
        # 0.27 s of what 6 × 0.1 s save are spent before: 1.2 s against 0.87 s.
        (said(0.2, 1.0), said(0.1, 1.0, start_up_s=1.27), ">= 1.9", 1.2 / 0.87),
        (said(0.2, 1.0), said(0.1, 1.0, start_up_s=1.27), ">= 1.3", None),
        (said(0.1, 1.0, start_up_s=1.27), said(0.2, 1.0), "<= 0.6", 1.2 / 0.87),  # what that claims for the other
        (said(0.2, 1.0), said(0.1, 0.95), ">= 1.95", 1.9),
        (said(0.2, 1.0), said(0.2, 1.0, start_up_s=1.6), ">= 0.9", 1.2 / 1.8),
        (said(0.2, 1.0), said(0.2, 1.0, start_up_s=1.01), ">= 0.95", None),
        (said(0.95, 0.1), said(1.0, 0.1), ">= 0.93", None),  # one iteration of ten, as a share alike
        (said(1.06, 0.94), said(0.0418, 0.83), ">= 25", None),  # only training is reported
        (said(0.95, 0.1, **UNSEEN), said(1.0, 0.1, **UNSEEN), ">= 0.93", None),
        (said(0.2, 1.0, **UNSEEN), said(0.1, 1.0, start_up_s=1.27, **UNSEEN), ">= 1.9", 1.2 / 0.87),
        (said(0.2, 1.0), said(0.1, 1.0), ">= 2.5", None),  # the ratio does not show it
    ],
)
def test_a_claim_has_to_hold_of_the_ratio_as_it_is_corrected(one, other, claim, corrected):
    found = [found for found in examine(one, other, claim=claim) if found.kind == "claimed ratio"]
    assert [one.values["corrected"] for one in found] == ([] if corrected is None else [pytest.approx(corrected, rel=0.01)])
    assert all(one.blocks for one in found)


def test_a_claim_of_a_rate_has_to_hold_by_our_clock():
    slow, quick = RATED | {"start_up_s": 2.0}, RATED | {"reported_s": 1 / 200, "observed_s": 0.2 / 1.6}
    # Of a rate the ratio is the other way round: the reference is the one that a ratio above 1 favours.
    (found,) = examine(quick, slow, "samples_per_s", claim=">= 1.9")
    assert (found.kind, found.variant) == ("claimed ratio", "a")
    assert describe_objection(found, {"a": "A"}).replace("\N{NO-BREAK SPACE}", " ") == (
        "A is 2.00× as fast by its reports, but our clock saw 1.60×: that leaves 1.60×; the claim is 1.90×"
    )
    assert examine(quick, slow, "samples_per_s", claim=">= 1.5") == []


def test_a_first_epoch_whose_begin_was_seen_is_reported_too():
    # Marks say 0.1 s of each epoch, and of the first one 0.6 s more were seen.
    pairs = [(ran(0.2, 0.2, slower=one), ran(0.1, 0.1, slower=other)) for one, other in NOISE]
    for one, other in pairs:
        one.epochs.loc[0, "observed_s"], other.epochs.loc[0, "observed_s"] = 0.2, 0.7
    (found, *_) = object_to_faster(pairs)
    assert (found.kind, found.values["unreported_s"]) == ("outside", pytest.approx(0.6, rel=0.01))


def leave(processes, cpu_s):
    run = ran(0.2, 0.2)
    run.observed = run.run.observed = run.run.observed.model_copy(update={"left_processes": processes, "left_cpu_s": cpu_s})
    return run


@pytest.mark.parametrize(
    ("one", "other", "blocking"),
    [
        ((1, 0.0), (1, 0.06), ["b"]),
        ((1, 0.01), (1, 0.01), []),
        ((1, 0.5), (1, 0.6), []),  # a logger
        ((1, 0.06), (1, 0.0), []),  # the slower one's
        ((0, 0.0), (1, 0.0), ["b"]),
        ((0, None), (0, None), []),
    ],
)
def test_processes_that_the_faster_variant_leaves_may_not_have_worked_more(one, other, blocking):
    pairs = [(leave(*one), leave(*other)) for _ in range(4)]
    found = [found for found in object_to_faster(pairs) if found.kind == "left processes"]
    assert [one.variant for one in found if one.blocks] == blocking
    assert len(found) == (one[0] > 0) + (other[0] > 0)


def list_records():
    return sorted(path for path in (ROOT / "records").iterdir() if path.is_dir())


def test_no_record_is_accused():
    """Most records' runs were not observed: these are skipped, and their number is known."""
    observed = []
    for record in list_records():
        runs = [read_record(path, Run) for path in find_files(record, "*/*/runs/*/run.json")]
        assert runs, record
        observed += [record] if any(run.observed for run in runs) else []
    print(f"{len(observed)} records are checked, {len(list_records()) - len(observed)} skipped")
    for record in (one for one in observed if one.name not in CONTESTED):
        ratios = read_comparison(record / COMPARISON_FILE).ratios
        assert [ratio for ratio in ratios if any(objection.blocks for objection in ratio.objections)] == [], record


def estimate_clocks(run):
    """What our clock would have seen at most of a record's run: its process less its start-up, spread over its epochs."""
    totals = epoch_totals(run.epochs)
    between_s = max(0.0, run.run.process_s - run.run.start_up_s - float(totals.sum())) / len(totals)
    reported_s = float(totals[1:].mean())
    return Clocks(
        len(totals), reported_s, float(totals.sum()), reported_s + between_s, None, 0.0, None, None, 0.0, False, "seen"
    )


@pytest.mark.parametrize(
    "name", ["2026-11-25-h200-tutorial-pair", "2026-11-25-h200-turbo-convergence", "2026-11-22-h200-sides"]
)
def test_what_records_tell_of_time_between_epochs_accuses_none(name):
    """An upper bound: the end of the process is in it, too."""
    results = read_results(ROOT / "records" / name)
    checked = 0
    for one, other in results.compared_pairs:
        pairs = pair_runs(results.select(one, "timed"), results.select(other, "timed"))
        clocks = [(estimate_clocks(a), estimate_clocks(b)) for a, b in pairs]
        checked += len(clocks) >= 4
        assert _check_epochs(one, clocks) is None
        assert _check_epochs(other, [pair[::-1] for pair in clocks]) is None
    assert checked
