"""What `prove` prints while it works: its sentences, and at least every two seconds a line that says what goes on."""

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TextIO

from speedproof.util.line_width import find_width, fold, plain
from speedproof.util.text import printable

EVERY_S = 1.8  # and what a busy machine adds: at least every two seconds
_ERASE = "\r\x1b[K"

Describe = Callable[[float], str]  # what goes on, by the seconds since it began


class Status:
    """Prints sentences to `stream`, stderr by default, and between them what goes on.

    On a terminal that is one line, rewritten each time; elsewhere each time a line. A thread does it, asleep in between, so
    that a program which is measured meanwhile shares its core for a moment every two seconds only.
    """

    def __init__(self, quiet: bool = False, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """Take whether nothing is printed at all, where to, and the clock, in seconds."""
        self._quiet, self._stream, self._clock = quiet, stream or sys.stderr, clock
        self._lock = threading.RLock()  # a signal's handler may say something while its thread does
        self._describe: Describe | None = None
        self._began_s = self._printed_s = clock()
        self._every_s = EVERY_S
        self._live = False  # whether the line that goes on is on the terminal
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Status":
        """Begin to print."""
        if not self._quiet:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Print nothing more, and take the line away that goes on."""
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
        """Take note of what goes on from now on: a text, or what makes one of the seconds since.

        Off a terminal it is printed at most every `log_every_s` seconds.
        """
        with self._lock:
            self._began_s, self._every_s = self._clock(), log_every_s
            self._describe = describe if callable(describe) else lambda seconds: f"{describe}, {seconds:.0f} s"

    def pause(self) -> None:
        """Print nothing of what goes on until something else does, and take its line away."""
        with self._lock:
            self._describe = None
            self._write("")

    def look(self) -> float:
        """Print what goes on, if nothing was printed for a while; return after how many seconds to look again."""
        with self._lock:
            now_s = self._clock()
            due_s = self._printed_s + (EVERY_S if self._stream.isatty() else self._every_s)
            if self._describe is None or now_s < due_s:
                return min(max(0.0, due_s - now_s) or EVERY_S, EVERY_S)  # something else may go on before it is due
            line = f"speedproof: {plain(printable(self._describe(now_s - self._began_s)))}"
            if self._stream.isatty():
                width = find_width(self._stream)
                self._write(line[: width - 1] if width else line, live=True)
            else:
                self._write(f"{line}\n")
            return EVERY_S

    def _write(self, text: str, live: bool = False) -> None:
        with suppress(OSError, RuntimeError, ValueError):  # nobody reads any more, or a signal came while this was printed
            self._stream.write((_ERASE if self._live else "") + text)
            self._stream.flush()
        self._live, self._printed_s = live, self._clock()

    def _run(self) -> None:
        wait_s = EVERY_S
        while not self._ended.wait(wait_s):
            wait_s = self.look()
