"""A variant that is slow, or fast, only since warm-ups left files, by a run of it without these. Values by hand."""

import pytest

from speedproof.report.objection_phrases import describe_objection
from speedproof.stats import ratio_checks
from speedproof.stats.slowed import check_slowed
from speedproof.stats.warm_up_check import check_slower_later
from tests.stats.test_warm_up_check import examine, runs, say


def without(process_s, epoch_s=None, own=False):
    return {"without": [{"process_s": process_s, "epoch_s": epoch_s, "names": ["~/.config/x"], "own": own}]}


def test_a_reference_that_is_fast_without_what_another_command_left_is_inconclusive():
    reference, candidate = runs([1.9] * 4, process_s=1.9, **without(0.9)), runs([0.9] * 4, process_s=0.9)
    said = "A takes 1.90 s with ~/.config/x, which appeared while another command ran, and 0.900 s without; delete it, "
    assert say(check_slowed(examine(reference, candidate))) == [("slowed", True, f"{said}then prove again with --isolate")]


def test_epochs_are_compared_by_the_typical_one():
    reference = runs([1.0] * 4, epoch_s=0.2, typical_s=0.2, process_s=1.0, **without(1.0, 0.1))
    candidate = runs([1.0] * 4, epoch_s=0.1, typical_s=0.1, process_s=1.0)
    (objection,) = check_slowed(examine(reference, candidate, "training_epoch_s"))
    assert (objection.kind, objection.values) == ("slowed", {"timed_epoch_s": 0.2, "without_epoch_s": 0.1})
    assert "an epoch of A takes 0.200" in describe_objection(objection, {"a": "A"})


@pytest.mark.parametrize(
    ("timed_s", "without_s", "candidate_s"),
    [
        ([1.9] * 4, 1.5, 0.9),  # 0.4 s of a gain of 1 s
        ([1.0] * 4, 0.88, 0.9),  # nearly all of the gain, but 14 % of 0.88 s, and 15 % are tolerated
        ([1.9, 1.9, 2.5, 1.9], 0.9, 0.9),  # runs differ by 0.6 s, of which three times are more than the difference of 1 s
        ([0.8] * 4, 0.3, 0.9),  # the reference is the faster one
        ([1.9] * 4, None, 0.9),  # there was no such run
    ],
)
def test_what_explains_less_than_half_of_the_gain_or_may_be_noise_is_no_reason(timed_s, without_s, candidate_s):
    reference = runs(timed_s, process_s=timed_s[0], **(without(without_s) if without_s else {}))
    assert check_slowed(examine(reference, runs([candidate_s] * 4, process_s=candidate_s))) == []


def test_a_machine_that_got_slower_since_slows_both():
    reference = runs([1.8] * 4, process_s=0.9, **without(0.9))
    assert check_slowed(examine(reference, runs([1.0] * 4, process_s=0.5))) == []


def test_what_it_never_ran_without_is_a_condition_of_a_slower_reference():
    reference = runs([1.9] * 4, process_s=1.9, not_hidden=["~/.bashrc"])
    (objection,) = say(check_slowed(examine(reference, runs([0.9] * 4, process_s=0.9))))
    assert objection == (
        "may be slowed",
        False,
        "A was not tested without what another command did to ~/.bashrc; --isolate discards such changes",
    )
    assert check_slowed(examine(reference, runs([2.5] * 4, process_s=2.5))) == []


def test_a_command_that_is_fast_only_with_what_another_left_is_inconclusive():
    reference, candidate = runs([1.9] * 4, process_s=1.9), runs([0.9] * 4, process_s=0.9, **without(1.9))
    said = "B takes 0.900 s with ~/.config/x, which appeared during earlier runs, and 1.90 s without; delete it, "
    assert say(check_slowed(examine(reference, candidate))) == [("helped", True, f"{said}then prove again with --isolate")]
    ((kind, _, _),) = say(check_slowed(examine(candidate, reference)))  # so is a reference
    assert kind == "helped"


@pytest.mark.parametrize(
    ("timed_s", "without_s", "own", "other_without_s"),
    [
        ([0.9] * 4, 1.45, False, None),  # 0.45 s of a gain of 1 s, without the 0.1 s that it takes to hide files
        ([0.9, 0.9, 1.3, 0.9], 1.9, False, None),  # runs differ by 0.4 s, of which three times are more
        ([0.9] * 4, 1.9, True, None),  # its warm-up was without them as well: it is judged together with that
        ([0.9] * 4, 1.9, False, 3.7),  # 3.6 s against 1.8 s: without them the other is half as fast, too
    ],
)
def test_what_helps_little_or_both_or_may_be_noise_is_no_reason(timed_s, without_s, own, other_without_s):
    other = without(other_without_s) if other_without_s else {}
    reference, candidate = runs([1.9] * 4, process_s=1.9, **other), runs(timed_s, process_s=0.9, **without(without_s, own=own))
    assert check_slowed(examine(reference, candidate)) == []


def test_one_reason_is_enough(monkeypatch):
    monkeypatch.setattr(ratio_checks, "CHECKS", (check_slower_later, check_slowed))
    # Its warm-up was fast, too.
    reference, candidate = runs([1.9] * 4, process_s=0.9, **without(0.9)), runs([0.9] * 4, process_s=0.9)
    assert [one.kind for one in ratio_checks.find_objections(examine(reference, candidate))] == ["slowed"]
