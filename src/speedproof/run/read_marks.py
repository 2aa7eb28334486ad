"""From a program's marks to its epochs."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from speedproof.config.reading import Reading
from speedproof.marks import MARKS_FILE, WITH_VALUE, WITHOUT_VALUE
from speedproof.run.epoch_reports import EpochSource, MarkedEpoch, Marks, Reports, count_whole, parse_samples
from speedproof.run.read_lines import add_qualities
from speedproof.util.errors import RecordError

_HINT = "the program must mark each epoch's begin, then its end, once (see speedproof/marks.py)"


@dataclass(frozen=True)
class _Mark:
    what: str
    at_s: float
    value: float  # 0 of a mark without one
    seen_s: float | None  # when it reached us; None: not known
    place: str  # its file and line


def read_marks(path: Path, moments_s: Sequence[float] = ()) -> Marks:
    """Read a file of marks; without one there are none. `moments_s` says when each line reached us, if that is known.

    A quality or a number of samples that comes behind an epoch's end is that epoch's. An epoch that never ended is left out.

    Raises:
        RecordError: marks cannot be understood, or do not follow each other as epochs do.
    """
    found = Marks()
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    seen = list(moments_s) if len(moments_s) == len(lines) else [None] * len(lines)
    for number, (line, seen_s) in enumerate(zip(lines, seen, strict=True), start=1):
        mark = _parse_mark(line, seen_s, f"{path}, line {number}")
        _check_order(mark, found)
        _put(mark, found)
    if _has_begun(found):
        unended = len(found.epochs)
        found.epochs.pop()
        found.qualities = [one for one in found.qualities if one[0] < unended]
    return found


def _has_begun(found: Marks) -> bool:
    return bool(found.epochs) and found.epochs[-1].ends_s is None


def _check_order(mark: _Mark, found: Marks) -> None:
    """Check that a mark can follow those that were found so far."""
    last = found.epochs[-1] if found.epochs else None
    if last and mark.at_s < (last.ends_s or last.validates_s or last.begins_s):
        raise RecordError(f"{mark.place}: earlier than the mark before it; {_HINT}")
    begun = _has_begun(found)
    if mark.what in WITHOUT_VALUE and (mark.what == "epoch-begins") == begun:
        raise RecordError(f"{mark.place}: {mark.what}, while {'one' if begun else 'none'} has begun; {_HINT}")
    if last is None and mark.what not in ("epoch-begins", "flop", "parameters"):
        raise RecordError(f"{mark.place}: {mark.what} before the first epoch; {_HINT}")


def _put(mark: _Mark, found: Marks) -> None:
    """Put what a mark says to its epoch, or to all."""
    match mark.what:
        case "flop" | "parameters":
            count = count_whole(mark.value, mark.place, f"number of {mark.what}; correct what the program marks")
            setattr(found, mark.what, count)
        case "epoch-begins":
            found.epochs.append(MarkedEpoch(mark.at_s, begin_seen_s=mark.seen_s))
        case "epoch-ends":
            found.epochs[-1].ends_s, found.epochs[-1].end_seen_s = mark.at_s, mark.seen_s
        case "validation":
            found.epochs[-1].validates_s = mark.at_s
        case "samples":
            found.epochs[-1].samples = parse_samples(mark.value, mark.place)
        case "quality":
            found.epochs[-1].quality = mark.value
            found.qualities.append((len(found.epochs), mark.value, mark.at_s))


def _parse_mark(line: str, seen_s: float | None, place: str) -> _Mark:
    try:
        read = json.loads(line)
        what, at_s = read["mark"], float(read["at_s"])
        value = float(read["value"]) if what in WITH_VALUE else 0.0
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        raise RecordError(f"{place}: not a mark ({line[:60]!r}); {_HINT}") from None
    if what not in (*WITHOUT_VALUE, *WITH_VALUE) or not (math.isfinite(at_s) and math.isfinite(value)):
        raise RecordError(f"{place}: not a mark ({line[:60]!r}); {_HINT}")
    return _Mark(what, at_s, value, seen_s, place)


def _read(reports: Reports, reading: Reading) -> Marks:
    found = add_qualities(read_marks(reports.folder / MARKS_FILE, reports.marks.moments_s), reports.lines, reading.quality)
    return replace(found, unseen="replaced") if reports.marks.replaced else found


MARKS_SOURCE = EpochSource("marks", "marks", _read, seen="when its marks arrive", arrives=True)
