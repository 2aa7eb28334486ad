"""A run's marks while it lasts: through a pipe at the place of their file, so that our own clock sees when each came."""

import fcntl
import os
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from select import POLLIN, poll

from speedproof.results.files import write_text

_BLOCK = 65536
_ROOM = 2**20  # as much as Linux lets anybody ask for: a program waits if its marks fill the pipe


@dataclass
class MarkArrivals:
    """When each line of a run's marks came, by the machine's monotonic clock in seconds, once the run has ended."""

    moments_s: list[float] = field(default_factory=list)
    replaced: bool = False  # whether the program put a file of its own in the pipe's place
    chunks: list[bytes] = field(default_factory=list)  # the marks, as they came


@contextmanager
def timing_marks(path: Path) -> Iterator[MarkArrivals]:
    """Have marks that are written to `path` come through a pipe while the block runs; then leave them there as a file.

    A file system without pipes has a plain file, and no arrivals.
    """
    found = MarkArrivals()
    path.unlink(missing_ok=True)
    try:
        os.mkfifo(path, 0o600)
    except OSError:
        yield found
        return
    # Open for both ends: a program never waits for a reader, and we never see an end between two of its marks.
    pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    os.fchmod(pipe, stat.S_IWUSR)  # a program that opens it to read fails at once, instead of waiting for lines that are ours
    with suppress(OSError):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _ROOM)
    ended, end = os.pipe()
    reader = threading.Thread(target=_read_all, args=(pipe, ended, found), daemon=True)
    reader.start()
    try:
        yield found
    finally:
        os.close(end)
        reader.join()
        os.close(ended)
        _take_place(path, pipe, found)
        os.close(pipe)


def _read_all(pipe: int, ended: int, found: MarkArrivals) -> None:
    """Read until `ended` closes and nothing is left; note when each line's end came."""
    watched, going = poll(), True
    watched.register(pipe, POLLIN)
    watched.register(ended, POLLIN)
    while going:
        going = ended not in dict(watched.poll())
        while True:
            try:
                read = os.read(pipe, _BLOCK)
            except BlockingIOError:
                break
            found.moments_s += [time.monotonic()] * read.count(b"\n")
            found.chunks.append(read)


def _take_place(path: Path, pipe: int, found: MarkArrivals) -> None:
    """Put the marks in the pipe's place, unless the program did so with a file of its own."""
    with suppress(FileNotFoundError):
        found.replaced = not os.path.samestat(path.lstat(), os.fstat(pipe))
    if found.replaced:
        return
    path.unlink(missing_ok=True)
    if found.chunks:
        write_text(path, b"".join(found.chunks).decode("utf-8", "replace"))
