"""From a program's marks to its epochs."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from speedproof.marks import WITH_VALUE, WITHOUT_VALUE
from speedproof.run.printed_times import PrintedTime
from speedproof.util.errors import RecordError

_CURE = "the program must mark each epoch's begin, then its end, once (see speedproof/marks.py)"


@dataclass
class MarkedEpoch:
    """One epoch. Moments are seconds of the machine's monotonic clock."""

    begins_s: float
    validates_s: float | None = None
    ends_s: float | None = None
    samples: int | None = None
    quality: float | None = None
    reported_s: float | None = None  # how long it took, if the program reports that itself: moments have fewer digits
    begin_seen_s: float | None = None  # when the reports of its begin and end reached us; None: not known
    end_seen_s: float | None = None

    @property
    def train_s(self) -> float:
        """Return how long it trained: until validation, or its end."""
        return self.reported_s if self.reported_s is not None else (self.validates_s or self.ends_s or math.nan) - self.begins_s

    @property
    def validation_s(self) -> float | None:
        """Return how long it validated; None where it did not."""
        return None if self.validates_s is None or self.ends_s is None else self.ends_s - self.validates_s

    @property
    def total_s(self) -> float:
        """Return how long it trained and validated."""
        return self.train_s + (self.validation_s or 0.0)


@dataclass
class Marks:
    """What a program left: its whole epochs, and when the last quality came that is the best."""

    epochs: list[MarkedEpoch] = field(default_factory=list)
    qualities: list[tuple[int, float, float]] = field(default_factory=list)  # epoch, from 1; value; moment
    flop: float | None = None  # of an epoch's training
    parameters: int | None = None
    times: list[PrintedTime] = field(default_factory=list)  # of the epochs, if the program printed them
    rates: bool = False  # whether these are one over printed rates


def read_marks(path: Path, moments_s: Sequence[float] = ()) -> Marks:
    """Read a file of marks; without one there are none. `moments_s` says when each line reached us, if that is known.

    A quality or a number of samples that comes behind an epoch's end is that epoch's. An epoch that never ended is left out.

    Raises:
        RecordError: marks cannot be understood, or do not follow each other as epochs do.
    """
    found, open_epoch = Marks(), False
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    seen = list(moments_s) if len(moments_s) == len(lines) else [None] * len(lines)
    for number, (line, seen_s) in enumerate(zip(lines, seen, strict=True), start=1):
        what, at_s, value = _read_line(path, number, line)
        if found.epochs and at_s < (found.epochs[-1].ends_s or found.epochs[-1].validates_s or found.epochs[-1].begins_s):
            raise RecordError(f"{path}, line {number}: earlier than the mark before it; {_CURE}")
        if (what == "epoch-begins") == open_epoch and what in WITHOUT_VALUE:
            raise RecordError(f"{path}, line {number}: {what}, while {'one' if open_epoch else 'none'} has begun; {_CURE}")
        if what in ("flop", "parameters"):
            count = count_whole(value, f"{path}, line {number}", f"number of {what}; have the program tell its own")
            setattr(found, what, count)
            continue
        if what == "epoch-begins":
            found.epochs.append(MarkedEpoch(at_s, begin_seen_s=seen_s))
            open_epoch = True
            continue
        if not found.epochs:
            raise RecordError(f"{path}, line {number}: {what} before the first epoch; {_CURE}")
        epoch = found.epochs[-1]
        match what:
            case "epoch-ends":
                epoch.ends_s, epoch.end_seen_s, open_epoch = at_s, seen_s, False
            case "validation":
                epoch.validates_s = at_s
            case "samples":
                epoch.samples = parse_samples(value, f"{path}, line {number}")
            case "quality":
                epoch.quality = value
                found.qualities.append((len(found.epochs), value, at_s))
    if open_epoch:
        unended = len(found.epochs)
        found.epochs.pop()
        found.qualities = [one for one in found.qualities if one[0] < unended]
    return found


def parse_samples(value: float, place: str) -> int:
    """Return how many samples a number says; raise :class:`RecordError` where it is no count, naming its `place`."""
    return count_whole(value, place, "number of samples; have the program tell how many an epoch trained on")


def count_whole(value: float, place: str, what: str) -> int:
    """Return the count that a number says; raise :class:`RecordError` where it is none: its `place`, and `what` it is not."""
    if value < 0 or value != int(value):
        raise RecordError(f"{place}: {value:g} is no {what}")
    return int(value)


def _read_line(path: Path, number: int, line: str) -> tuple[str, float, float]:
    """Return what a line marks, when, and its value, which is 0 where it has none."""
    try:
        read = json.loads(line)
        what, at_s = read["mark"], float(read["at_s"])
        value = float(read["value"]) if what in WITH_VALUE else 0.0
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        raise RecordError(f"{path}, line {number}: no mark ({line[:60]!r}); {_CURE}") from None
    if what not in (*WITHOUT_VALUE, *WITH_VALUE) or not (math.isfinite(at_s) and math.isfinite(value)):
        raise RecordError(f"{path}, line {number}: no mark ({line[:60]!r}); {_CURE}")
    return what, at_s, value
