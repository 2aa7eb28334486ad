import pytest

from tests.results.publisher import publisher  # noqa: F401 (a fixture)


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch):
    """Let progress be reported as to a log, whatever the environment says of terminals."""
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
