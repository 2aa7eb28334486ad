"""Quality commands that work for the faster variant, or read what its runs changed. Values by hand."""

from types import SimpleNamespace

import pandas as pd
import pytest

from speedproof.report.objection_phrases import describe_objection
from speedproof.results.observations import Observations
from speedproof.stats.judged_runs import check_judged
from speedproof.stats.ratio_checks import Examined


def runs(process_s, judging_s=(), judged_by=()):
    """Runs of so long a process, whose quality command took so long each, and read these files that they had changed."""
    seen = [Observations(judging_s=one, judged_by=list(judged_by)) for one in judging_s or [None] * 4]
    epochs = pd.DataFrame({"epoch": [1, 2], "train_s": [process_s / 2] * 2})
    return [
        SimpleNamespace(run=SimpleNamespace(observed=one, process_s=process_s, continued=[]), epochs=epochs) for one in seen
    ]


def examine(references, candidates, centre=2.0, metric="process_s"):
    return Examined("a", "b", metric, list(zip(references, candidates, strict=True)), centre, None, "faster", 0.02)


def say(examined):
    found = check_judged(examined)
    return [(one.kind, one.blocks, describe_objection(one, {"a": "A", "b": "B"}).replace("\xa0", " ")) for one in found]


QUICK, SLOW = [0.1, 0.11, 0.1, 0.11], [0.7, 0.71, 0.7, 0.71]


def test_a_quality_command_that_takes_what_the_runs_save_makes_the_outcome_inconclusive():
    said = "the quality command takes 0.705 s for B and 0.105 s for the other, and a run of B saves 1.00 s only"
    examined = examine(runs(2.0, QUICK), runs(1.0, SLOW))
    assert say(examined) == [("works when judged", True, said)]
    assert say(examine(runs(2.0, QUICK), runs(1.0, SLOW), metric="training_epoch_s")) == [("works when judged", True, said)]
    ((kind, _, named),) = say(examine(runs(1.0, SLOW), runs(2.0, QUICK), centre=0.5))  # so does the reference's
    assert (kind, named[-32:]) == ("works when judged", "and a run of A saves 1.00 s only")


@pytest.mark.parametrize(
    ("process_s", "judging_s"),
    [
        (1.0, [0.5, 0.51, 0.5, 0.51]),  # 0.4 s more, of a gain of 1 s
        (1.0, [0.1, 0.1, 0.1, 3.1]),  # 0.75 s more on average, by one of four: 99 % need 4.5 standard errors of 0.75 s
        (3.0, SLOW),  # it gains nothing
        (1.0, ()),  # there is no such command
    ],
)
def test_one_that_takes_less_or_varies_is_no_reason(process_s, judging_s):
    assert say(examine(runs(2.0, QUICK), runs(process_s, judging_s), 2.0)) == []


def test_the_faster_variant_may_not_change_what_the_quality_command_reads():
    said = "B changed ~/.cache/bench/test.npz, which the quality command reads; put it where programs cannot write"
    changed = runs(1.0, judged_by=["~/.cache/bench/test.npz"])
    assert say(examine(runs(2.0), changed)) == [("changed test data", True, said)]
    assert say(examine(changed, runs(2.0))) == []  # the slower one has nothing of it


def test_checkpoints_that_both_leave_elsewhere_are_none():
    assert say(examine(runs(2.0, judged_by=["~/models/a.pt"]), runs(1.0, judged_by=["~/models/b.pt"]))) == []
