"""A file that a program writes its progress to, while it grows: what was there before, and when each part of it came."""

import hashlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from speedproof.util.errors import RecordError

# A look takes 24 µs for a plain name and 0.7 ms for 20 files by a pattern (two busy cores): one core spends 0.3 to 2 % of its
# time on it. What takes longer is done more rarely; time in which other programs had the core does not count.
_EVERY_S, _SHARE = 0.01, 0.01
_MOST_COMPARED = 64 * 2**20  # bytes of what was there that are compared with what is there at the end


@dataclass(frozen=True)
class _State:
    inode: int
    mtime_ns: int
    size: int


@dataclass
class FileWatch:
    """The files that a pattern matches below `place`, before a run, while it lasts and after it."""

    place: Path
    pattern: str
    before: dict[Path, _State] = field(default_factory=dict)
    digests: dict[Path, str] = field(default_factory=dict)  # of what was there before
    sizes: dict[Path, list[tuple[float, int]]] = field(default_factory=dict)  # when each new size was seen, in bytes

    def remember(self) -> None:
        """Remember what an earlier run left."""
        left = _MOST_COMPARED
        for path in self._list_files():
            if state := _find_state(path):
                self.before[path] = state
                if state.size <= left:
                    self.digests[path] = _digest_start(path, state.size)
                    left -= state.size

    def look_until(self, ended: threading.Event) -> None:
        """Note the files' sizes until the event is set, and once more then."""
        known, next_list_s = list[Path](), 0.0
        while True:
            last = ended.is_set()
            begun_s, computed_s = time.monotonic(), time.thread_time()
            if last or begun_s >= next_list_s:
                known = self._list_files()
                next_list_s = begun_s + (time.thread_time() - computed_s) / _SHARE
            computed_s = time.thread_time()
            self._note_sizes(known)
            if last:
                return
            ended.wait(max(_EVERY_S, (time.thread_time() - computed_s) / _SHARE))

    def _note_sizes(self, paths: list[Path]) -> None:
        for path in paths:
            state = _find_state(path)
            if state is not None and state != self.before.get(path):
                sizes = self.sizes.setdefault(path, [])
                if not sizes or sizes[-1][1] != state.size:
                    sizes.append((time.monotonic(), state.size))

    def find_written(self) -> Path:
        """Return the newest file that this run wrote.

        Raises:
            RecordError: there is no such file, or all are as they were before the run.
        """
        states = {path: state for path in self._list_files() if (state := _find_state(path))}
        if not states:
            raise RecordError(f"--file: the program left no {self.pattern} in its working folder; correct the pattern")
        written = [path for path, state in states.items() if state != self.before.get(path)]
        if not written:
            raise RecordError(
                f"file: {self.pattern} is unchanged from an earlier run; have the program write it in every run, or correct "
                "the pattern"
            )
        return max(written, key=lambda path: states[path].mtime_ns)

    def count_earlier(self, path: Path) -> int:
        """Return how many bytes at a file's start an earlier run wrote, to which this one appended."""
        before, after = self.before.get(path), _find_state(path)
        if before is None or after is None or before.inode != after.inode or after.size <= before.size:
            return 0
        shrunk = any(size < before.size for _, size in self.sizes.get(path, []))
        if shrunk or self.digests.get(path, "") not in ("", _digest_start(path, before.size)):
            return 0
        return before.size

    def find_moment(self, path: Path, size: int) -> float | None:
        """Return when we first saw that a file had so many bytes; None if we never did."""
        return next((at_s for at_s, seen in self.sizes.get(path, []) if seen >= size), None)

    def _list_files(self) -> list[Path]:
        return [path for path in self.place.glob(self.pattern) if path.is_file()]


@contextmanager
def watching_file(place: Path, pattern: str | None) -> Iterator[FileWatch | None]:
    """Watch the files that a pattern matches while the block runs; none without a pattern."""
    if pattern is None:
        yield None
        return
    watch, ended = FileWatch(place, pattern.removeprefix("{run}/")), threading.Event()
    watch.remember()
    watcher = threading.Thread(target=watch.look_until, args=(ended,), daemon=True)
    watcher.start()
    try:
        yield watch
    finally:
        ended.set()
        watcher.join()


def _find_state(path: Path) -> _State | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return _State(found.st_ino, found.st_mtime_ns, found.st_size)


def _digest_start(path: Path, size: int) -> str:
    """Return the digest of a file's first so many bytes; nothing if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.sha256(file.read(size)).hexdigest()
    except OSError:
        return ""
