"""What proofs of this folder share: the working folder that they are made of, and what they do not look at."""

from pathlib import Path

import pytest

from speedproof.report.figures import draw
from speedproof.run import outside_watch
from speedproof.run import resumed as _resumed  # noqa: F401 (it and the next one take the function itself, not a test's)
from speedproof.run import watched_program as _watched_program  # noqa: F401
from speedproof.run.proof.executor import LocalExecutor
from tests.prove.recorded import EPOCHS, leave_experiment

# What runs change elsewhere is their subject.
_WATCHING = {"test_unwatched"}
_WATCHING_OWN = {"test_carried_over", "test_spoilt_files"}  # theirs lie in the folder of the test
_DRAWING = {"test_executor", "test_one_read"}  # the whole command, and how often figures read what runs leave


@pytest.fixture(autouse=True)
def _leave_elsewhere_unwatched(request, monkeypatch):
    """Keep most proofs from walking through this machine's temporary folders and packages, half a second each."""
    if request.path.stem in _WATCHING_OWN:
        folder, list_all = request.getfixturevalue("tmp_path"), outside_watch.list_shared_places

        def list_own(packages, environ):
            return tuple(place for place in list_all(packages, environ) if Path(place).is_relative_to(folder))

        monkeypatch.setattr(outside_watch, "list_shared_places", list_own)
    elif request.path.stem not in _WATCHING:
        monkeypatch.setattr(outside_watch, "list_shared_places", lambda packages, environ: ())


@pytest.fixture(autouse=True)
def _draw_nothing(request, monkeypatch):
    """Keep most proofs from drawing figures of their epochs, half of what a proof's own process takes."""
    if request.path.stem not in _DRAWING:
        monkeypatch.setattr(draw, "FIGURES", ())


@pytest.fixture
def recorded_runs(monkeypatch):
    """Have the runs after a warm-up recorded, of 2 s and 1 s an epoch, where what the warm-up decides is the subject."""

    def leave(executor, setup, progress):
        return leave_experiment(executor._out, setup.config, lambda variant, _: {"a": 2.0, "b": 1.0}[variant])

    monkeypatch.setattr(LocalExecutor, "measure", leave)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.sh").write_text(EPOCHS)
    return tmp_path
