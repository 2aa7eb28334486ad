"""Quality commands that work for the faster variant, or read what its runs changed. Values by hand."""

from types import SimpleNamespace

import pandas as pd
import pytest

from speedproof.report.objection_phrases import describe_objection
from speedproof.results.observations import Observations, RunWithout, WarmUpObserved
from speedproof.stats.non_inferiority import check_judged
from speedproof.stats.ratio_checks import Examined


def runs(process_s, judging_s=(), read=(), changed=(), warm_up=None):
    """Runs of so long a process, whose quality command took so long each, and read one file each of `read`."""
    given = {"changed": list(changed), "warm_up": warm_up}
    seen = [
        Observations(judging_s=one, judged_by=[name for name in [file] if name], **given)
        for one, file in zip(judging_s or [None] * 4, read or [None] * 4, strict=True)
    ]
    epochs = pd.DataFrame({"epoch": [1, 2], "train_s": [process_s / 2] * 2})
    described = [SimpleNamespace(observed=one, process_s=process_s, continued=[], techniques={}) for one in seen]
    return [SimpleNamespace(run=one, observed=one.observed, epochs=epochs) for one in described]


def examine(references, candidates, centre=2.0, metric="process_s"):
    return Examined("a", "b", metric, list(zip(references, candidates, strict=True)), centre, None, "faster", 0.02)


def say(examined):
    found = check_judged(examined)
    return [(one.kind, one.blocks, describe_objection(one, {"a": "A", "b": "B"}).replace("\xa0", " ")) for one in found]


QUICK, SLOW = [0.1, 0.11, 0.1, 0.11], [0.7, 0.71, 0.7, 0.71]


def test_a_quality_command_that_takes_what_the_runs_save_makes_the_outcome_inconclusive():
    said = "the quality command takes at least 0.700 s for B and 0.100 s for the other, but B saves 1.00 s per run"
    examined = examine(runs(2.0, QUICK), runs(1.0, SLOW))
    assert say(examined) == [("works when judged", True, said)]
    assert say(examine(runs(2.0, QUICK), runs(1.0, SLOW), metric="training_epoch_s")) == [("works when judged", True, said)]
    ((kind, _, named),) = say(examine(runs(1.0, SLOW), runs(2.0, QUICK), centre=0.5))  # so does the reference's
    assert (kind, named[-25:]) == ("works when judged", "but A saves 1.00 s per run"[-25:])


@pytest.mark.parametrize(
    ("process_s", "judging_s"),
    [
        (1.0, [0.5, 0.51, 0.5, 0.51]),  # 0.4 s more, of a gain of 1 s
        (1.95, [0.2, 0.2, 0.2, 0.2]),  # twice the gain, but 0.1 s, which noise may be
        (1.0, [0.1, 3.1, 3.1, 3.1]),  # by the shortest, nothing: others may have been disturbed
        (3.0, SLOW),  # it gains nothing
        (1.0, ()),  # there is no such command
    ],
)
def test_one_that_takes_less_or_varies_is_no_reason(process_s, judging_s):
    assert say(examine(runs(2.0, QUICK), runs(process_s, judging_s), 2.0)) == []


TESTS = "~/.cache/bench/test.npz"


def test_the_faster_variant_may_not_change_what_the_quality_command_reads():
    said = f"B changed {TESTS}, which the quality command reads; put it where programs cannot write"
    reference, changing = runs(2.0, read=[None, TESTS, TESTS, TESTS]), runs(1.0, read=[TESTS] * 4, changed=[TESTS])
    assert say(examine(reference, changing)) == [("changed test data", True, said)]
    assert say(examine(changing, reference)) == []  # the slower one has nothing of it
    once = runs(1.0, read=[TESTS] * 4, warm_up=WarmUpObserved(process_s=1.0, changed=[TESTS]))
    assert say(examine(reference, once)) == [("changed test data", True, said)]


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        # another program wrote and read it, too
        ({}, {"read": [None, TESTS, None, None], "changed": [TESTS]}),
        ({"read": [TESTS] * 4, "changed": [TESTS]}, {"read": [TESTS] * 4, "changed": [TESTS]}),
        # each leaves a checkpoint of its own
        ({"read": ["~/a.pt"] * 4, "changed": ["~/a.pt"]}, {"read": ["~/b.pt"] * 4, "changed": ["~/b.pt"]}),
    ],
)
def test_what_both_change_or_one_run_only_is_none(reference, candidate):
    assert say(examine(runs(2.0, **reference), runs(1.0, **candidate))) == []


def test_what_the_warm_up_downloads_for_the_quality_command_is_none():
    without = RunWithout(process_s=1.0, names=["~/.cache/bench"], own=True)
    loaded = WarmUpObserved(process_s=1.0, changed=[TESTS], without=[without])
    assert say(examine(runs(2.0, read=[TESTS] * 4), runs(1.0, read=[TESTS] * 4, warm_up=loaded))) == []
