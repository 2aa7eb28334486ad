"""A program's output on its way to the log: through a terminal of its own where the arrival of its lines is read.

To a pipe or a file a program holds back what it prints until a block is full; to a terminal it prints line by line.
"""

import os
import threading
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from speedproof.run.read_lines import Line, LineClock

_BLOCK = 65536


@dataclass
class Relay:
    """Where a program writes to, and, when it has ended, what it printed."""

    output: int
    lines: list[Line] = field(default_factory=list)


@contextmanager
def relaying(output: int, wanted: bool) -> Iterator[Relay]:
    """Yield what a program writes to: if `wanted` a terminal, whose lines are timed and passed on to `output`, else that."""
    if not wanted:
        yield Relay(output)
        return
    ours, theirs = os.openpty()
    tty.setraw(theirs)  # what is printed comes as it is
    relay, clock = Relay(theirs), LineClock()
    reader = threading.Thread(target=_read_all, args=(ours, output, clock), daemon=True)
    reader.start()
    try:
        yield relay
    finally:
        os.close(theirs)
        reader.join()
        os.close(ours)
        relay.lines = clock.close(time.monotonic())


def _read_all(source: int, output: int, clock: LineClock) -> None:
    while True:
        try:
            read = os.read(source, _BLOCK)
        except OSError:  # nobody has the terminal open any more
            return
        if not read:
            return
        clock.take(read, time.monotonic())
        try:
            while read:
                read = read[os.write(output, read) :]
        except OSError:
            continue  # a full disk loses the log, not the times
