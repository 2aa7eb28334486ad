"""A variant that may be slow because another command removed or changed files. Values by hand."""

from speedproof.stats.leftovers import check_spoilt
from tests.stats.test_warm_up_check import examine, runs, say

SPOILT = ["cache/index", "cache/b.log"]


def test_a_slower_variant_that_never_ran_with_a_file_as_it_was_is_inconclusive():
    reference, candidate = runs([1.9] * 4, process_s=1.9, spoilt=SPOILT[:1]), runs([0.9] * 4, process_s=0.9)
    said = "A may be slow because cache/index vanished or changed while another command ran; restore it, then prove "
    assert say(check_spoilt(examine(reference, candidate))) == [("spoilt", True, f"{said}again with --isolate")]
    ((_, _, said),) = say(check_spoilt(examine(candidate, reference)))  # so is a candidate
    assert said.startswith("B may be slow")


def test_of_a_faster_variant_and_of_files_like_those_that_it_writes_nothing_is_said():
    fast = runs([0.9] * 4, process_s=0.9, spoilt=SPOILT)
    assert check_spoilt(examine(fast, runs([1.9] * 4, process_s=1.9))) == []
    slow = runs([1.9] * 4, process_s=1.9, spoilt=SPOILT, changed=["cache/a.log"])
    (objection,) = check_spoilt(examine(slow, runs([0.9] * 4, process_s=0.9)))
    assert objection.names == ["cache/index"]
    assert check_spoilt(examine(runs([1.9] * 4), runs([0.9] * 4))) == []  # a record of before it was written
