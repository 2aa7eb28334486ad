"""Chrome's format of events, an object with `traceEvents` or a bare list of them, read one event after the other."""

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

from speedproof.profilers.trace_format import find_encoding, is_gzip
from speedproof.util.errors import ProfilingError

_CHUNK = 1 << 20  # characters
_LONGEST_HEAD = 1 << 12  # characters between the key of the events and their list
# What reading a file may take, by its size: a few bytes may unpack to gigabytes, and an event is read as a whole.
_LONGEST_EVENT = 1 << 24  # characters
UNPACKED_PER_BYTE, UNPACKED_SPARE = 100, 32 << 20  # real traces unpack to 10 to 50 times their size
_CUT = 16  # characters: an error so close to the end of the text may be that of a word that is cut off there
_BETWEEN = re.compile(r"[\s,]*")
_BLANK = re.compile(r"\s*")
_EVENTS_START = re.compile(r'"traceEvents"\s*:\s*\[')
_BASE_TIME = re.compile(r'"baseTimeNanoseconds"\s*:\s*(\d{1,19})\b')
_NO_DEVICES = re.compile(r'"deviceProperties"\s*:\s*\[\s*\]')
_ELSEWHERE = "replace"  # what is not of the file's encoding
_LEVEL = 9  # of packing, which reading does not ask for
_MOST_KEYS = 5  # named of an object without events


def stream_events(path: Path) -> Iterator[dict[str, Any]]:
    """Read the events one after the other, so that memory does not grow with the file.

    Raises:
        ProfilingError: there are none, they break off, one is larger or nested deeper than any profiler's, or is not JSON

    """
    # Times are decimals of microseconds, which a float would round.
    decoder = json.JSONDecoder(parse_float=Decimal, strict=False)
    with _open_text(path) as file:
        text = _Text(path, file)
        bare, count = text.enter_list(), 0
        while text.reach_event():
            try:
                event, text.position = decoder.raw_decode(text.read, text.position)
            except json.JSONDecodeError as error:
                if text.is_within(error):
                    raise text.refuse(error.pos, f"invalid JSON ({error.msg})", "export it again") from None
                if not text.read_on():
                    # Chrome asks for no end of a bare list.
                    if bare and text.position == len(text.read):
                        return
                    raise text.refuse(None, f"breaks off after {count} events", "copy or export it again") from None
                continue
            except (ValueError, RecursionError) as error:
                why = "a number has too many digits" if isinstance(error, ValueError) else "it is nested too deeply"
                raise text.refuse(text.position, f"invalid event ({why})", "export it again") from None
            if not isinstance(event, dict):
                raise text.refuse(text.position, f"{str(event)[:40]} in place of an event", "export it again")
            count += 1
            yield event
        if not bare:
            text.refuse_more_events()


class ChromeHead:
    """What stands before a file's events."""

    def __init__(self, path: Path) -> None:
        with _open_text(path) as file:
            self.text, *_ = _EVENTS_START.split(file.read(_CHUNK), 1)

    @property
    def base_time_ns(self) -> int | None:
        """Return when, in nanoseconds since 1970, the clock of the events was zero; None if its torch does not write that.

        With torch 2.13 a range's end and the system's clock, read right after it, were 22 µs apart.
        """
        found = _BASE_TIME.search(self.text)
        return int(found[1]) if found else None

    @property
    def names_no_gpu(self) -> bool:
        """Return whether torch says that it saw no GPU."""
        return _NO_DEVICES.search(self.text) is not None


class _Text:
    """The part of a file's text that is being read, and where in the file it lies."""

    def __init__(self, path: Path, file: IO[str]) -> None:
        self.path, self._file = path, file
        self.read, self.position = "", 0
        self._lines, self._column = 0, 0  # before `read`, counted from 0
        self._left = UNPACKED_SPARE + UNPACKED_PER_BYTE * path.stat().st_size

    def enter_list(self) -> bool:
        """Go to the first event; return whether the list stands by itself."""
        while len(self.read) < _LONGEST_EVENT and not self.read.strip() and self._append():
            pass
        blank = _BLANK.match(self.read)
        self.position = blank.end() if blank else 0
        if self.read.startswith("[", self.position):
            self.position += 1
            return True
        if not self.read.startswith("{", self.position):
            raise self.refuse(self.position, "not JSON" if self.read.strip() else "an empty file", "give a trace")
        begin = self.read
        while not (head := _EVENTS_START.search(self.read)):
            self._drop(max(len(self.read) - _LONGEST_HEAD, 0))
            if not (more := self._append()):
                raise self._explain_no_events(begin)
            begin += more if len(begin) < _LONGEST_EVENT else ""
        self.position = head.end()
        return False

    def reach_event(self) -> bool:
        """Go to the next event; return whether the list goes on."""
        between = _BETWEEN.match(self.read, self.position)
        self.position = between.end() if between else self.position
        return not self.read.startswith("]", self.position)

    def is_within(self, error: json.JSONDecodeError) -> bool:
        """Return whether an error lies inside of what was read, so that more text would not mend it."""
        return error.pos < len(self.read) - _CUT and not error.msg.startswith("Unterminated string")

    def refuse_more_events(self) -> None:
        """Read to the end; raise a :class:`ProfilingError` if the object has a second list of events."""
        while True:
            if again := _EVENTS_START.search(self.read, self.position):
                raise self.refuse(again.start(), "a second list `traceEvents`", "give a file for each of them")
            self._drop(max(len(self.read) - _LONGEST_HEAD, self.position))
            self.position = 0
            if not self._append():
                return

    def read_on(self) -> bool:
        """Append at least as much text again to the beginning of an event, so that a long event is decoded only a few times."""
        self._drop(self.position)
        self.position = 0
        if len(self.read) > _LONGEST_EVENT:
            raise self.refuse(0, f"an event is broken, or larger than {_LONGEST_EVENT >> 20} MiB", "export it again")
        return bool(self._append(1 + len(self.read) // _CHUNK))

    def refuse(self, position: int | None, what: str, remedy: str) -> ProfilingError:
        """Return an error that names the line and column; without a position those of the end."""
        before = self.read if position is None else self.read[:position]
        line, column = self._count(before)
        return ProfilingError(f"{self.path}: line {line + 1}, column {column + 1}: {what}; {remedy}")

    def _append(self, chunks: int = 1) -> str:
        """Read on; return what was read. A packed file has no more than its size allows."""
        parts: list[str] = []
        while len(parts) < chunks and (part := self._file.read(_CHUNK)):
            parts.append(part)
            self._left -= len(part)
            if self._left < 0:
                raise ProfilingError(
                    f"{self.path}: unpacks to more than {UNPACKED_PER_BYTE} times its size; if it is a trace, unpack it first "
                    "(gunzip)"
                )
        more = "".join(parts)
        self.read += more
        return more

    def _drop(self, length: int) -> None:
        self._lines, self._column = self._count(self.read[:length])
        self.read = self.read[length:]

    def _count(self, text: str) -> tuple[int, int]:
        """Return the line and the column behind a text that begins where `read` does."""
        lines = text.count("\n")
        return self._lines + lines, len(text) - text.rfind("\n") - 1 + (0 if lines else self._column)

    def _explain_no_events(self, text: str) -> ProfilingError:
        """Return why an object has no events, as far as its beginning shows it."""
        try:
            keys = [str(key)[:40] for key in json.loads(text)]
        except json.JSONDecodeError as error:
            if error.msg == "Extra data":
                return ProfilingError(
                    f"{self.path}: JSON lines, or several values, without `traceEvents`; give a profiler's trace"
                )
            if len(text) < _LONGEST_EVENT:
                where = f"{self.path}: line {error.lineno}, column {error.colno}"
                return ProfilingError(f"{where}: invalid JSON ({error.msg}); copy or export it again")
            keys = []
        except (ValueError, RecursionError):
            keys = []
        listed = f" but {', '.join([*keys[:_MOST_KEYS], *['…'][: len(keys) - _MOST_KEYS]])}" if keys else ""
        return ProfilingError(f"{self.path}: JSON without events (it has no `traceEvents`{listed}); give a profiler's trace")


@contextmanager
def _open_text(path: Path) -> Iterator[IO[str]]:
    """Yield a text file, unpacked if it is packed."""
    try:
        text = (find_encoding(path), _ELSEWHERE)
        with gzip.open(path, "rt", _LEVEL, *text) if is_gzip(path) else path.open("r", -1, *text) as file:
            yield file
    except EOFError:
        raise ProfilingError(f"{path}: truncated, its packed data break off; copy or export it again") from None
    except (OSError, zlib.error) as error:
        raise ProfilingError(f"{path}: not readable ({' '.join(str(error).split())[:160]}); export it again") from None
