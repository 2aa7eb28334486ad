"""What a program printed, kept on disk with the moments at which it came, and searched when the program has ended.

While the program runs nothing is searched: that would delay it, by the patterns of whoever asks.
"""

import fcntl
import os
import re
import signal
import struct
import tempfile
import termios
import threading
import time
import tty
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import FrameType

from speedproof.config.reading import Reading
from speedproof.util.errors import RecordError

_FRAME = struct.Struct("<dI")  # when a read of the output came, and its bytes, which follow
_BUFFER = 2**20
# Searching 100 MB of short lines takes 2 s of processor time, so an honest pattern stays far below these.
_LEAST_LIMIT_S, _LIMIT_S_PER_BYTE = 30.0, 1e-6


# What a terminal would have taken for commands: colours, cursor movements; and a mark of the byte order.
_ESCAPES = re.compile(r"^\ufeff|\x08+|\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07")
_ENDS = re.compile(rb"\r\n|\n|\r")
LONGEST_LINE = 65536  # bytes
_LINE_MEMORY, _MOST_MEMORY = 200, 2**28  # bytes: what a line takes beside its text, and all lines together


@dataclass(frozen=True, slots=True)
class Line:
    """A line, when its end arrived, by the machine's monotonic clock in seconds, and which read of the output brought it."""

    text: str
    at_s: float
    read: int
    row: int | None = None  # on the terminal, the same for all that is drawn over it; None: a row of its own
    ends_row: bool = False  # whether nothing more is drawn over it


class LineClock:
    """Takes a program's output as it came, and keeps the lines that a pattern matches with the moments at which they came.

    Without a pattern all lines are kept. A line is cut at :data:`LONGEST_LINE` bytes.
    """

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        self.lines: list[Line] = []
        self.cut = 0  # lines that were too long
        self._searches = [re.compile(pattern).search for pattern in patterns]
        self._rest, self._reads, self._memory, self._cutting = b"", 0, 0, False
        self._row, self._redrawn = 0, False  # of the terminal, and whether something is drawn over it
        self._rest_came = Line("", 0.0, 0)  # when the last part of a line came that has not ended yet

    def take(self, output: bytes, at_s: float) -> None:
        """Take what one read brought; a line also ends where a progress bar restarts it."""
        self._reads += 1
        first, *others = _ENDS.split(output)
        self._extend(first, at_s)
        if not others:
            return
        *whole, rest = others
        if self._redrawn or b"\r" in output:
            self._take_redrawn([self._rest, *whole], _ENDS.findall(output), at_s, came_before=not first)
        else:
            self._keep([self._rest, *whole], Line("", at_s, self._reads))
        self._rest, self._cutting = b"", False
        self._extend(rest, at_s)

    def _take_redrawn(self, texts: list[bytes], ends: list[bytes], at_s: float, came_before: bool) -> None:
        """Keep lines of which some are drawn over others; the first may have come in an earlier read than its end.

        A bar that begins with the end of its last state has shown that since it came.
        """
        line = self._rest_came if came_before else Line("", at_s, self._reads)
        for text, end in zip(texts, ends, strict=True):
            shared, self._redrawn = self._redrawn or end == b"\r", end == b"\r"
            self._keep([text], replace(line, row=self._row if shared else None, ends_row=not self._redrawn))
            self._row += not self._redrawn
            line = Line("", at_s, self._reads)

    def close(self, at_s: float) -> list[Line]:
        """Return all lines that were kept, the last one too if nothing ended it."""
        if self._rest:
            line = replace(self._rest_came, row=self._row) if self._redrawn else Line("", at_s, self._reads)
            self._keep([self._rest], line)
            self._rest = b""
        return self.lines

    def _extend(self, part: bytes, at_s: float) -> None:
        """Add to the line that has not ended yet."""
        if not part:
            return
        self._rest_came = Line("", at_s, self._reads)
        if not self._cutting:
            self._rest += part
        if len(self._rest) > LONGEST_LINE:
            self._rest, self._cutting = self._rest[:LONGEST_LINE], True
            self.cut += 1

    def _keep(self, whole: list[bytes], came: Line) -> None:
        """Keep what is wanted of lines that `came` at one moment."""
        joined = b"\n".join(whole).decode("utf-8", "replace")
        texts = joined.split("\n")
        if "\x1b" in joined or "\b" in joined or "\ufeff" in joined:
            texts = [_ESCAPES.sub("", text) for text in texts]
        for text in self._select(texts):
            self.lines.append(replace(came, text=text))
            self._memory += len(text) + _LINE_MEMORY
        if self._memory > _MOST_MEMORY:
            raise RecordError(
                f"a pattern matches more than {len(self.lines) - 1:,} of the printed lines; have it match one line per epoch"
            )

    def _select(self, texts: list[str]) -> Iterable[str]:
        match self._searches:
            case []:
                return filter(None, texts)
            case [search]:
                return (text for text in filter(search, texts) if text)
            case _:
                return (text for text in texts if text and any(search(text) for search in self._searches))


@dataclass(frozen=True)
class FoundLines:
    """The lines that a pattern matches, and how many lines were too long to be read to their end."""

    lines: list[Line]
    cut: int


class PrintedOutput:
    """Keeps what a program prints in a file without a name; memory holds a buffer of it.

    If it is `live`, what came can also be taken while the program runs.
    """

    def __init__(self, folder: Path, live: bool = False) -> None:
        self._file = tempfile.TemporaryFile(dir=folder, buffering=_BUFFER)  # noqa: SIM115 (closed when it is read)
        self._size, self._lost = 0, ""
        self._fresh: deque[tuple[float, bytes]] | None = deque() if live else None

    def keep(self, output: bytes, at_s: float) -> None:
        """Take what one read brought."""
        if self._fresh is not None:
            self._fresh.append((at_s, output))
        if self._lost:
            return
        try:
            self._file.write(_FRAME.pack(at_s, len(output)) + output)
            self._size += len(output)
        except OSError as error:
            self._lost = error.strerror or "it cannot be written"

    def take_fresh(self) -> Iterator[tuple[float, bytes]]:
        """Yield what came since the last call, and when."""
        while self._fresh:
            yield self._fresh.popleft()

    def search(self, reading: Reading, ended_s: float, more: Sequence[str] = ()) -> FoundLines:
        """Return the lines that a pattern of `reading`, or one `more`, matches, once; the last line ended with the program.

        Raises:
            RecordError: the disk was full, or a pattern takes too long or matches too much.
        """
        clock = LineClock([*reading.patterns, *more])
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
            raise RecordError(f"the program's output could not be kept ({self._lost}); free disk space")
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
            f"searching the printed lines took more than {seconds:.0f} s; simplify the pattern, or anchor it with ^"
        )

    before = signal.signal(signal.SIGVTALRM, interrupt)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


_BLOCK = 65536
_COLUMNS, _LINES = 120, 24


@dataclass(frozen=True)
class Relay:
    """Where a program writes to, and what keeps its lines if they are read."""

    output: int
    printed: PrintedOutput | None = None


@contextmanager
def relaying(output: int, terminal: bool, folder: Path, live: bool = False) -> Iterator[Relay]:
    """Yield what a program writes to; all that it writes is passed on to the file `output`.

    If a `terminal` is wanted, its lines are also kept, on the disk of `folder`, and if they are read `live`, in memory.
    """
    ours, theirs = os.openpty() if terminal else os.pipe()
    if terminal:
        tty.setraw(theirs)  # what is printed comes as it is
        columns, lines = _find_size()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    relay = Relay(theirs, PrintedOutput(folder, live) if terminal else None)
    reader = threading.Thread(target=_read_all, args=(ours, output, relay.printed), daemon=True)
    reader.start()
    try:
        yield relay
    finally:
        os.close(theirs)
        reader.join()
        os.close(ours)


@cache
def _find_size() -> tuple[int, int]:
    """Return columns and lines of the caller's terminal, the same for all runs; a progress bar draws nothing on 0 columns."""
    for stream in (2, 1, 0):
        with suppress(OSError):
            size = os.get_terminal_size(stream)
            if size.columns and size.lines:
                return size.columns, size.lines
    return _COLUMNS, _LINES


def _read_all(source: int, output: int, printed: PrintedOutput | None) -> None:
    while True:
        try:
            read = os.read(source, _BLOCK)
        except OSError:  # nobody has the terminal open any more
            return
        if not read:
            return
        if printed is not None:
            printed.keep(read, time.monotonic())
        try:
            while read:
                read = read[os.write(output, read) :]
        except OSError:
            continue  # a full disk loses the log, not the times
