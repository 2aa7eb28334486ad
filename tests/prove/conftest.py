"""The working folder that proofs are made of."""

import pytest

from tests.prove.recorded import EPOCHS


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.sh").write_text(EPOCHS)
    return tmp_path
