"""What a program printed, kept on disk with the moments at which it came, and searched when the program has ended.

While the program runs nothing is searched: that would delay it, by the patterns of whoever asks.
"""

import signal
import struct
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from speedproof.config.reading import Reading
from speedproof.run.read_lines import Line, LineClock
from speedproof.util.errors import RecordError

_FRAME = struct.Struct("<dI")  # when a read of the output came, and its bytes, which follow
_BUFFER = 2**20
# Searching 100 MB of short lines takes 2 s of processor time, so an honest pattern stays far below these.
_LEAST_LIMIT_S, _LIMIT_S_PER_BYTE = 30.0, 1e-6


@dataclass(frozen=True)
class FoundLines:
    """The lines that a pattern matches, and how many lines were too long to be read to their end."""

    lines: list[Line]
    cut: int


class PrintedOutput:
    """Keeps what a program prints in a file without a name; memory holds a buffer of it."""

    def __init__(self, folder: Path) -> None:
        """Keep it on the disk of `folder`."""
        self._file = tempfile.TemporaryFile(dir=folder, buffering=_BUFFER)  # noqa: SIM115 (closed when it is read)
        self._size, self._lost = 0, ""

    def keep(self, output: bytes, at_s: float) -> None:
        """Take what one read brought."""
        if self._lost:
            return
        try:
            self._file.write(_FRAME.pack(at_s, len(output)) + output)
            self._size += len(output)
        except OSError as error:
            self._lost = error.strerror or "it cannot be written"

    def search(self, reading: Reading, ended_s: float) -> FoundLines:
        """Return the lines that a pattern of `reading` matches, once; the last line ended with the program.

        Raises:
            RecordError: the disk was full, or a pattern takes too long or matches too much.
        """
        clock = LineClock(reading.patterns)
        with self._file, limiting_search(_LEAST_LIMIT_S + self._size * _LIMIT_S_PER_BYTE):
            for at_s, output in self._frames():
                clock.take(output, at_s)
            lines = clock.close(ended_s)
        return FoundLines(lines, clock.cut)

    def _frames(self) -> Iterator[tuple[float, bytes]]:
        try:
            self._file.seek(0)  # writes what is in the buffer
        except OSError as error:
            self._lost = error.strerror or "it cannot be written"
        if self._lost:
            raise RecordError(f"what the program printed could not be kept ({self._lost}); free disk space for its lines")
        while head := self._file.read(_FRAME.size):
            at_s, length = _FRAME.unpack(head)
            yield at_s, self._file.read(length)


@contextmanager
def limiting_search(seconds: float = _LEAST_LIMIT_S) -> Iterator[None]:
    """Let patterns take so many seconds of this process at most; some patterns would take years for a line.

    Outside of the main thread, where no timer can interrupt, there is no limit.

    Raises:
        RecordError: they took longer.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise RecordError(
            f"searching the printed lines took more than {seconds:.0f} s; simplify the pattern, or anchor it by ^"
        )

    before = signal.signal(signal.SIGVTALRM, interrupt)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
