"""Folders that the tests of one process share, and that go when its session ends."""

from pathlib import Path
from tempfile import TemporaryDirectory

_MADE: list[TemporaryDirectory[str]] = []


def make_session_folder(prefix: str) -> Path:
    """Return a new, empty folder in the temporary folder."""
    _MADE.append(TemporaryDirectory(prefix=prefix))
    return Path(_MADE[-1].name)


def remove_session_folders() -> None:
    """Remove all of them; outside of pytest they go when the process ends."""
    while _MADE:
        _MADE.pop().cleanup()
