"""How many epochs of a program have ended while it still runs, so that it can be ended after some."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from speedproof.config.reading import Reading
from speedproof.run.known_formats import KNOWN_FILE, PATTERNS, recognize_steps
from speedproof.run.marks_pipe import MarkArrivals
from speedproof.run.printed_output import LineClock, PrintedOutput, limiting_search
from speedproof.run.read_files import read_file
from speedproof.run.read_lines import read_lines
from speedproof.run.watched_file import FileWatch
from speedproof.util.errors import RecordError

_READ_EVERY_S, _READ_SHARE = 0.5, 0.05  # between two readings of a file, and of the time that these take


@dataclass
class LiveEpochs:
    """The epochs of a program that runs, read from what has reached us so far."""

    reading: Reading
    wanted: int
    place: Path
    printed: PrintedOutput | None
    marks: MarkArrivals
    file: FileWatch | None
    recognizing: bool = False  # whether its marks are read, or the lines of a known program
    _clock: LineClock = field(init=False)
    _read: int = 0  # of the lines
    _next_s: float = 0.0

    def __post_init__(self) -> None:
        asked = (
            PATTERNS
            if self.recognizing
            else [pattern for pattern in (self.reading.epoch, self.reading.epoch_s, self.reading.rate) if pattern]
        )
        self._clock = LineClock(asked)

    def are_enough(self) -> bool:
        """Return whether as many epochs have ended as are wanted.

        Raises:
            RecordError: a pattern takes too long, or matches too much.
        """
        counts: dict[str, Callable[[], bool]] = {
            "lines": self._are_in_lines, "file": self._are_in_file, "marks": self._are_in_marks
        }  # fmt: skip
        return counts[self.reading.source]() or (self.recognizing and (self._are_in_lines() or self._are_in_file()))

    def _are_in_marks(self) -> bool:
        return b"".join(self.marks.chunks).count(b'"epoch-ends"') >= self.wanted

    def _are_in_lines(self) -> bool:
        with limiting_search():
            for at_s, output in self.printed.take_fresh() if self.printed else []:
                self._clock.take(output, at_s)
            lines = self._clock.lines
            if len(lines) < self.wanted or len(lines) == self._read:
                return False
            self._read = len(lines)
            with suppress(RecordError):
                if self.recognizing:
                    found = recognize_steps(lines)
                    return found is not None and len(found.marks.epochs) >= self.wanted
                times_only = self.reading.model_copy(update={"quality": None, "samples": None})
                return len(read_lines(lines, times_only).epochs) >= self.wanted
        return False

    def _are_in_file(self) -> bool:
        begun_s = time.monotonic()
        if begun_s < self._next_s:
            return False
        try:
            reading = KNOWN_FILE.reading if self.recognizing else self.reading
            whole = bool(reading.epoch_s or reading.rate) or not (reading.file or "").endswith(".csv")
            # Of a table that counts epochs, the last one may go on.
            return len(read_file(self.place, reading, self.file).epochs) >= self.wanted + (not whole)
        except (RecordError, OSError):  # not there yet, or in the middle of a row
            return False
        finally:
            ended_s = time.monotonic()
            self._next_s = ended_s + max(_READ_EVERY_S, (ended_s - begun_s) / _READ_SHARE)
