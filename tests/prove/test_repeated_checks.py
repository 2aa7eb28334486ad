"""A warm-up is repeated without what others left if that can tell anything, and the user learns of it."""

from types import SimpleNamespace

import pytest

from speedproof.run.proof import warm_up
from speedproof.run.proof.left_files import HiddenFiles


@pytest.mark.parametrize(("others", "runs", "lines"), [(False, 2, 1), (True, 1, 0)])
def test_a_slow_check_is_repeated_aloud_and_not_for_files_of_other_programs(monkeypatch, others, runs, lines):
    times, said = [(2.0, None), (1.5, None)], []
    variant = SimpleNamespace(caches="cold", model_copy=lambda update: variant)
    setting = SimpleNamespace(
        config=SimpleNamespace(completed_variants={"a": variant}), folder=warm_up.Path("out"), called={"a": "A"}
    )
    left = list(times)
    monkeypatch.setattr(warm_up, "_run_isolated", lambda *_: left.pop(0))
    monkeypatch.setattr(warm_up, "is_others", lambda name: others)
    observed = SimpleNamespace(process_s=1.0, epoch_s=None)
    hidden = HiddenFiles({"/tmp/x": "/tmp/x"}, own=True)
    found = warm_up._time_without(setting, None, "a", hidden, observed, said.append)
    assert (len(times) - len(left), len(said), found.process_s) == (runs, lines, 2.0 if others else 1.5)
