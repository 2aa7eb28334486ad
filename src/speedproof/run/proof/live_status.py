"""What a proof does just now: sentences that stay, and between them one line that moves every two seconds.

It imports next to nothing, so that it moves while all else is still loaded.
"""

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TextIO

from speedproof.util.text import find_width, fold, plain, printable

EVERY_S = 1.8  # and what a busy machine adds: at least every two seconds
_ERASE = "\r\x1b[K"

Describe = Callable[[float], str]  # makes the text from the seconds since the activity began


class Status:
    """Prints sentences to `stream`, stderr by default, and between them the current activity.

    On a terminal the activity is one line that is rewritten; elsewhere each update is a new line. A thread prints it and
    sleeps in between, so it takes a measured program's core only for a moment every two seconds.
    """

    def __init__(self, quiet: bool = False, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """Take whether to print nothing, the stream, and the clock, in seconds."""
        self._quiet, self._stream, self._clock = quiet, stream or sys.stderr, clock
        self._lock = threading.RLock()  # a signal's handler may say something while its thread does
        self.activity: Describe | str | None = None  # as it was set
        self._describe: Describe | None = None
        self._began_s = self._printed_s = clock()
        self._every_s = EVERY_S
        self._live = False  # whether the activity's line is on the terminal
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Status":
        """Begin to print."""
        if not self._quiet:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop printing, and erase the activity's line."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        with self._lock:
            self._write("")

    def say(self, text: str) -> None:
        """Print a sentence."""
        if not self._quiet:
            with self._lock:
                self._write(fold(printable(f"speedproof: {text}"), find_width(self._stream)) + "\n")

    def go_on_with(self, describe: Describe | str, log_every_s: float = EVERY_S) -> None:
        """Set the current activity: a text, or a function of the seconds since now.

        Without a terminal it is printed at most every `log_every_s` seconds.
        """
        with self._lock:
            self._began_s, self._every_s = self._clock(), log_every_s
            self.activity = describe
            self._describe = describe if callable(describe) else lambda seconds: f"{describe}, {seconds:.0f} s"

    def pause(self) -> None:
        """Erase the activity's line, and print none until another activity begins."""
        with self._lock:
            self.activity = self._describe = None
            self._write("")

    def look(self) -> float:
        """Print the activity if it is due; return the seconds until the next look."""
        with self._lock:
            now_s = self._clock()
            due_s = self._printed_s + (EVERY_S if self._stream.isatty() else self._every_s)
            if self._describe is None or now_s < due_s:
                return min(max(0.0, due_s - now_s) or EVERY_S, EVERY_S)  # another activity may begin before it is due
            line = f"speedproof: {plain(printable(self._describe(now_s - self._began_s)))}"
            if self._stream.isatty():
                width = find_width(self._stream)
                self._write(line[: width - 1] if width else line, live=True)
            else:
                self._write(f"{line}\n")
            return EVERY_S

    def _write(self, text: str, live: bool = False) -> None:
        with suppress(OSError, RuntimeError, ValueError):  # the reader is gone, or a signal came while this was printed
            self._stream.write((_ERASE if self._live else "") + text)
            self._stream.flush()
        self._live, self._printed_s = live, self._clock()

    def _run(self) -> None:
        wait_s = EVERY_S
        while not self._ended.wait(wait_s):
            wait_s = self.look()
