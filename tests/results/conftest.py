from threading import Thread

import pytest

from tests.results.publisher import Publisher


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch):
    """Let progress be reported as to a log, whatever the environment says of terminals."""
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def publisher(monkeypatch):
    """A server on this machine that offers one file."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Publisher() as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()
