"""A program's output on its way to the log: through a terminal of its own if the arrival of its lines is read, else a pipe.

To a pipe or a file a program holds back what it prints until a block is full; to a terminal it prints line by line.
"""

import fcntl
import os
import struct
import termios
import threading
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from speedproof.run.printed_output import PrintedOutput

_BLOCK = 65536
_COLUMNS, _LINES = 120, 24


@dataclass(frozen=True)
class Relay:
    """Where a program writes to, and what keeps its lines if they are read."""

    output: int
    printed: PrintedOutput | None = None


@contextmanager
def relaying(output: int, terminal: bool, folder: Path) -> Iterator[Relay]:
    """Yield what a program writes to; all that it writes is passed on to the file `output`.

    If a `terminal` is wanted, its lines are also kept, on the disk of `folder`.
    """
    ours, theirs = os.openpty() if terminal else os.pipe()
    if terminal:
        tty.setraw(theirs)  # what is printed comes as it is
        columns, lines = _find_size()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    relay = Relay(theirs, PrintedOutput(folder) if terminal else None)
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
