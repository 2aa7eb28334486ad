"""What proofs of this folder share: the working folder that they are made of, and what they do not look at."""

import pytest

from speedproof.run import outside_watch
from tests.prove.recorded import EPOCHS

# What runs change elsewhere is their subject.
_WATCHING = {"test_carried_over", "test_left_files", "test_spoilt_files", "test_tampering", "test_unwatched"}


@pytest.fixture(autouse=True)
def _leave_elsewhere_unwatched(request, monkeypatch):
    """Keep most proofs from walking through this machine's temporary folders and packages, half a second each."""
    if request.path.stem not in _WATCHING:
        monkeypatch.setattr(outside_watch, "list_shared_places", lambda packages, environ: ())


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.sh").write_text(EPOCHS)
    return tmp_path
