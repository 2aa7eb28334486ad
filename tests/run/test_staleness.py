"""Whether kept results are those of the configuration, or have to be measured again."""

from types import SimpleNamespace

import pytest

from speedproof.results.experiment import LOST_TRACE
from speedproof.run import staleness


@pytest.mark.parametrize(
    ("undone", "reason", "measured"),
    [
        ({}, "budget", True),
        ({"10-b-profiled": LOST_TRACE}, None, False),  # of a fixed number of rounds
        ({"10-b-profiled": LOST_TRACE}, "decided", False),  # the same rounds decide it again
        ({"10-b-profiled": LOST_TRACE}, "budget", True),  # the time for more rounds would begin anew
    ],
)
def test_a_lost_trace_is_tried_again_unless_a_time_limit_ended_the_rounds(monkeypatch, tmp_path, undone, reason, measured):
    stopped = SimpleNamespace(reason=reason) if reason else None
    experiment = SimpleNamespace(undone=undone, stopped=stopped, conditions=SimpleNamespace(sources="digest"))
    read = SimpleNamespace(experiments=[experiment], runs=[])
    monkeypatch.setattr(staleness, "read_results", lambda *_, **__: read)
    monkeypatch.setattr(staleness, "_find_difference", lambda *_: None)
    assert (staleness.read_measured(tmp_path, SimpleNamespace(), "digest") is read) is measured
