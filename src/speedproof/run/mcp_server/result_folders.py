"""The folder of each call's results; an interrupted call is resumed in its own, unless somebody edited it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from speedproof.run.proof.left_files import RESULTS_MARK

_NUMBERED = re.compile(r"(\d{3,9})-.+", re.ASCII)  # a call's folder

_States = dict[str, tuple[int, ...]]


class ResultFolders:
    """Folders of calls in `out`, and which of them calls of this server left without a result."""

    def __init__(self, out: Path) -> None:
        """Take the folder of all results."""
        self._out = out
        self._left: dict[tuple[str, ...], tuple[Path, _States]] = {}

    @contextmanager
    def opened(self, title: str, *asked: str) -> Iterator[Path]:
        """Yield the folder of a call: that of the last one of this title which asked the same and failed, else a new one.

        A folder that was edited since, or that another server left, is not used again: its runs could be invented.
        """
        folder, states = self._left.pop((title, *asked), (None, {}))
        if folder is None or _read_states(folder) != states:
            folder = self._make(title)
        try:
            yield folder
        except BaseException:  # also if it is cancelled
            self._left[title, *asked] = folder, _read_states(folder)
            raise

    def _make(self, title: str) -> Path:
        if not self._out.exists():
            self._out.mkdir(parents=True)
            (self._out / RESULTS_MARK).touch()  # else each call would change what the next one copies and measures
        numbered = (_NUMBERED.fullmatch(path.name) for path in self._out.iterdir())
        for number in count(1 + max((int(found[1]) for found in numbered if found), default=0)):
            path = self._out / f"{number:03}-{title}"
            try:
                path.mkdir()
            except FileExistsError:  # another server's
                continue
            return path
        raise AssertionError  # the numbers do not end


def _read_states(folder: Path) -> _States:
    """Return the state of each entry below a folder. The time of the last change (ctime) cannot be set by an edit."""
    found: _States = {}
    for path in sorted(folder.rglob("*")):
        with suppress(FileNotFoundError):  # removed meanwhile
            state = path.lstat()
            found[str(path)] = (state.st_mode, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
    return found
