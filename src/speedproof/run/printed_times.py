"""From a time as a program prints it to seconds, with the unit that follows the number and the precision of its digits."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from speedproof.config.reading import TimeUnit
from speedproof.util.errors import RecordError
from speedproof.util.units import UNIT_WORDS

UNIT_S: dict[TimeUnit, float] = {  # from the smallest on
    "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0,
}  # fmt: skip
UNIT_TITLES = {
    "ns": "nanoseconds", "us": "microseconds", "ms": "milliseconds", "s": "seconds", "min": "minutes", "h": "hours",
    "h:mm:ss": "h:mm:ss",
}  # fmt: skip
_SPELLINGS = {word: unit for unit in UNIT_S for word in UNIT_WORDS[unit].split()}
_PUNCTUATION = ",;)]}"
_ANY_UNIT = "|".join(sorted(_SPELLINGS, key=len, reverse=True))
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.(?P<decimals>\d*))?|\.(?P<bare>\d+))(?:e(?P<exponent>[+-]?\d{1,4}))?", re.IGNORECASE)
_CLOCK = re.compile(r"(?P<hours>\d+):(?P<minutes>[0-5]\d):(?P<seconds>[0-5]\d(?:\.\d*)?)")
_UNIT = re.compile(rf"\s*(?P<unit>{_ANY_UNIT})(?![^\W\d])", re.IGNORECASE)
_RATE = re.compile(rf"\s*(?:[a-z]+\s+)?[a-z]*\s*(?:/|\bper\s)\s*(?P<per>{_ANY_UNIT}|m|d|days?)(?!\w)", re.IGNORECASE)
_LEAST_RATE, _MOST_RATE = 1e-9, 1e30  # per second
_DAYS = re.compile(r"\s*days?(?!\w)", re.IGNORECASE)
_SECOND_PART = re.compile(rf",?\s*(?:and\s+)?\d+(?:\.\d*)?\s*(?:{_ANY_UNIT})(?![\w/])", re.IGNORECASE)
_NO_UNIT = re.compile(r"[^\W\d_]\w*|\s*%")  # after a space other words follow


@dataclass(frozen=True)
class PrintedTime:
    """A printed time in seconds, how it was written, and half a unit of its last digit, by which rounding may have moved it."""

    number: float  # as it is printed; of h:mm:ss the seconds
    seconds: float
    unit: str  # a key of UNIT_TITLES
    resolution_s: float
    named: bool  # whether the program printed the unit, or the request names it


def read_time(text: str, after: str, unit: TimeUnit | None) -> PrintedTime | None:
    """Return the time that a pattern's group found, `after` being the rest of the line; None if it is not a finite number.

    The unit is `unit` if it is given, else the one that follows the number, else the second. A time of hours, minutes and
    seconds (0:00:01.5) needs none.

    Raises:
        RecordError: it is a rate, or a time of several parts, of which the number is only one, or its unit is not known.
    """
    text = text.strip()
    if clock := _CLOCK.fullmatch(text.rstrip(_PUNCTUATION)):
        part = _NUMBER.fullmatch(clock["seconds"])
        seconds = 3600 * int(clock["hours"]) + 60 * int(clock["minutes"]) + float(clock["seconds"])
        return PrintedTime(seconds, seconds, "h:mm:ss", _half_unit(part) if part else 0.0, named=True)
    number = _NUMBER.match(text)
    if number is None or not math.isfinite(float(number[0])):
        return None
    own, rest = text[number.end() :].rstrip(_PUNCTUATION), text[number.end() :] + after
    found, rate = _UNIT.match(rest), _RATE.match(rest)
    if own and not any(match and match.end() >= len(own) for match in (found, rate)):
        return None
    printed = _SPELLINGS[found["unit"].lower()] if found else None
    if unit is None:
        _check_single(number[0], rest, found.end() if found else 0, printed, rate)
    value, scale = float(number[0]), UNIT_S[unit or printed or "s"]
    return PrintedTime(value, value * scale, unit or printed or "s", _half_unit(number) * scale, named=bool(unit or printed))


def read_rate(text: str, after: str = "") -> PrintedTime | None:
    """Return the time of one sample by a printed rate, `after` being the rest of the line; None if it is not above zero.

    Raises:
        RecordError: it is a time, by the unit that follows, or out of range, or by an unknown unit.
    """
    text = text.strip()
    number = _NUMBER.match(text)
    if number is None:
        return None
    own, rest = text[number.end() :].rstrip(_PUNCTUATION), text[number.end() :] + after
    found, rate = _UNIT.match(rest), _RATE.match(rest)
    if found and not rate:
        raise RecordError(f"--rate: {number[0]} {found['unit']} is a time; read it with --epoch-s, or correct the pattern")
    if own or not 0 < float(number[0]) < math.inf:
        return None
    unit = _SPELLINGS.get(rate["per"].lower()) if rate else "s"
    if unit is None:
        raise RecordError(f"--rate: {f'{number[0]}{rest}'.strip()!r:.40} has an unknown unit; print a rate per second")
    value = float(number[0]) / UNIT_S[unit]
    if not _LEAST_RATE <= value <= _MOST_RATE:
        raise RecordError(f"--rate: {number[0]:.40} is out of range; correct the pattern")
    return PrintedTime(1 / value, 1 / value, "s", _half_unit(number) / UNIT_S[unit] / value**2, named=True)


def subtract_times(times: Sequence[PrintedTime]) -> list[PrintedTime]:
    """Return the epochs of times since the start, of which there are some: each less the one before it, the first less zero.

    A first time of zero is the start, and no epoch. Both times of a difference are rounded, which doubles its resolution.

    Raises:
        RecordError: they do not grow, or there is no epoch.
    """
    epochs, before_s = [], 0.0
    for number, one in enumerate(times):
        if one.seconds <= before_s and not (number == 0 and one.seconds == 0):
            raise RecordError(
                f"--epoch-s: {one.seconds:g} s follows {before_s:g} s, and times since the start only grow; print more digits, "
                "or leave cumulative out"
            )
        length_s = one.seconds - before_s
        if length_s:
            number_in_unit = one.number * length_s / one.seconds
            epochs.append(replace(one, number=number_in_unit, seconds=length_s, resolution_s=2 * one.resolution_s))
        before_s = one.seconds
    if not epochs:
        raise RecordError("--epoch-s: the only time since the start is 0 s; print one for each epoch")
    return epochs


def find_resolution(times: Sequence[PrintedTime]) -> float | None:
    """Return half a unit of the last digit of a run's times, in seconds; None without any.

    Programs drop trailing zeros, so in each unit the time with the most decimals counts; of several units, the coarsest.
    """
    finest: dict[str, float] = {}
    for one in times:
        finest[one.unit] = min(one.resolution_s, finest.get(one.unit, math.inf))
    return max(finest.values(), default=None)


def _check_single(number: str, rest: str, end: int, unit: TimeUnit | None, rate: re.Match[str] | None) -> None:
    """Check that a number is a whole time: no rate or percentage, and not one part of `1 min 20 s`."""
    if rate and unit is None:
        raise RecordError(f"--epoch-s: {number}{rate[0]} is a rate, not a time; read it as one (--rate), or print seconds")
    if (unit in ("min", "h") and _SECOND_PART.match(rest, end)) or (unit is None and _DAYS.match(rest)):
        raise RecordError(f"--epoch-s: {f'{number}{rest}'.strip()!r:.40} is a time with several units; print seconds")
    if unit is None and (strange := _NO_UNIT.match(rest)):
        raise RecordError(f"--epoch-s: '{number}{strange[0]:.40}' has no known unit; print seconds, or name the unit (--unit)")


def _half_unit(number: re.Match[str]) -> float:
    decimals = number["decimals"] or number["bare"] or ""
    return float(f"5e{int(number['exponent'] or 0) - len(decimals) - 1}")
