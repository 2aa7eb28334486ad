"""From the lines that a program prints, and when each came, to its epochs: by the seconds in them, or by their arrival."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby, pairwise

from speedproof.config.reading import Reading, TimeUnit
from speedproof.run.epoch_reports import EpochSource, MarkedEpoch, Marks, ReportedValue, Reports, place_values
from speedproof.run.printed_output import Line
from speedproof.run.printed_times import PrintedTime, read_rate, read_time, subtract_times
from speedproof.run.redrawn_lines import group_draws, is_complete, select_states
from speedproof.run.whole_numbers import find_number
from speedproof.util.errors import RecordError

_LONGEST_S = 1e9  # thirty years
_TOGETHER = 0.1  # the share of lines that may come with another, as on a busy machine


def read_lines(lines: Sequence[Line], reading: Reading) -> Marks:
    """Return the epochs, qualities and samples of printed lines.

    With `epoch_s` an epoch takes the seconds on its line, and ends when the line arrives. With `epoch` it lasts from one
    matching line to the next, so the first match begins the first epoch; of a progress bar that is drawn again and again, the
    last draw ends the last epoch. If the program prints a quality before the first epoch ends, a quality belongs to the epoch
    that ends with or after it, else to the last one that ended.

    Raises:
        RecordError: a pattern matches no line or something other than a number, or lines arrived together and so give no times.
    """
    epochs: list[tuple[int, MarkedEpoch]] = []
    times: list[PrintedTime] = []
    began_at_zero = False
    if reading.epoch_s:
        matches = _list_matches(lines, reading.epoch_s, "--epoch-s")
        times = [
            parse_time(find_number(match, "--epoch-s"), line.text[match.end(1) :], reading.unit, line.text)
            for _, line, match in matches
        ]
        if reading.cumulative:
            times = subtract_times(times)
        elif len(times) > 1 and times[0].seconds == 0:  # before its first step some programs print a time of nothing
            times, began_at_zero = times[1:], True
        for (order, line, _), one in zip(matches[-len(times) :], times, strict=True):
            check_length(one.seconds, "--epoch-s", "correct its pattern")
            begun_s = line.at_s - one.seconds
            epochs.append((order, MarkedEpoch(begun_s, None, line.at_s, reported_s=one.seconds, end_seen_s=line.at_s)))
    elif reading.rate:
        matches = _list_matches(lines, reading.rate, "--rate")
        times = [parse_rate(find_number(match, "--rate"), line.text, match) for _, line, match in matches]
        epochs = [(order, mark_sample(one, line.at_s, line.at_s)) for (order, line, _), one in zip(matches, times, strict=True)]
    elif reading.epoch:
        epochs = _read_arrivals(lines, reading.epoch)
    qualities = find_values(lines, reading.quality, "--quality") if reading.quality else []
    samples = find_values(lines, reading.samples, "samples") if reading.samples else []
    marks = place_values(epochs, qualities, samples, times)
    return replace(marks, rates=reading.rate is not None, began_at_zero=began_at_zero)


def mark_sample(time: PrintedTime, ends_s: float, seen_s: float | None) -> MarkedEpoch:
    """Return what stands for an epoch where rates are reported: one sample, by the rate that was reported then."""
    begun_s = ends_s - time.seconds
    return MarkedEpoch(begun_s, None, ends_s, samples=1, reported_s=time.seconds, end_seen_s=seen_s)


def parse_rate(text: str | None, place: str, match: re.Match[str] | None = None) -> PrintedTime:
    """Return the time of one sample by a rate that a program printed; raise :class:`RecordError` if it is not a rate."""
    found = read_rate(text or "", match.string[match.end(1) :] if match else "")
    if found is None:
        value = read_number(text, "--rate", place)  # explains most errors
        raise RecordError(f"--rate: {value:g} is not above 0 ({place.strip()!r:.80}); correct the pattern")
    return found


def find_values(lines: Iterable[Line], pattern: str, key: str) -> list[ReportedValue]:
    """Return the numbers that a pattern's group finds, in order.

    Raises :class:`RecordError` if it finds none, or something other than a number.
    """
    return [
        ReportedValue(order, read_number(find_number(match, key), key, line.text), line.at_s)
        for order, line, match in _list_matches(lines, pattern, key)
    ]


def _list_matches(lines: Iterable[Line], pattern: str, key: str) -> list[tuple[int, Line, re.Match[str]]]:
    """Return what a pattern matches, with its line and this one's number; raise :class:`RecordError` if it is nothing."""
    compiled = re.compile(pattern)
    found = [(order, line, match) for order, line in enumerate(lines) for match in compiled.finditer(line.text)]
    if not found:
        raise RecordError(f"{key}: no printed line matches `{pattern}`; correct the pattern, or print such a line in every run")
    states = select_states(found)
    if not states:
        raise RecordError(f"{key}: `{pattern}` matches progress bars only, none of which comes to its end; correct the pattern")
    return states


def parse_time(text: str | None, after: str, unit: TimeUnit | None, place: str) -> PrintedTime:
    """Return the time that a program printed, `after` being what follows it; raise :class:`RecordError` if it is none."""
    found = read_time(text or "", after, unit)
    if found is None:
        read_number(text, "--epoch-s", place)  # explains most errors
        raise RecordError(f"--epoch-s: {text!r:.40} is not a number ({place.strip()!r:.80}); correct the pattern")
    return found


def check_length(seconds: float, place: str, hint: str) -> None:
    """Check that an epoch can have lasted so long; raise :class:`RecordError` if it cannot."""
    if seconds == 0:  # a time that was rounded away: pairs without it would be chosen by how fast a variant was
        raise RecordError(
            f"{place}: an epoch of 0 s; have the program write more digits, or let our clock time its lines (--epoch)"
        )
    if not 0 < seconds <= _LONGEST_S:
        raise RecordError(f"{place}: an epoch of {seconds:g} s; {hint}")


def read_number(text: str | None, key: str, place: str) -> float:
    """Return what a program wrote as a number, with a percent sign or unit's comma left off.

    Raises :class:`RecordError` if it is not one, or not finite.
    """
    try:
        value = float((text or "").strip().rstrip(",;s%)]}").replace("_", "?"))  # 1_5 is Python's 15, and nobody else's
    except ValueError:
        raise RecordError(f"{key}: {text!r:.40} is not a number ({place.strip()!r:.80}); correct the pattern") from None
    if not math.isfinite(value):
        raise RecordError(f"{key}: {text!r:.40} is not finite ({place.strip()!r:.80}); check what the program computed")
    return value


def add_qualities(marks: Marks, lines: Sequence[Line], pattern: str | None) -> Marks:
    """Put printed qualities to epochs: as many as these in their order, others to that in which they came, or the last before.

    What is printed as an epoch ends comes here a moment later, when the next one has begun.
    """
    values = find_values(lines, pattern, "--quality") if pattern else []
    for order, one in enumerate(values, start=1):
        begun = max(1, sum(epoch.begins_s <= one.at_s for epoch in marks.epochs))
        number = order if len(values) == len(marks.epochs) else begun
        if marks.epochs:
            marks.epochs[number - 1].quality = one.value
        marks.qualities.append((min(number, len(marks.epochs)), one.value, one.at_s))
    return marks


def _read_arrivals(lines: Sequence[Line], pattern: str) -> list[tuple[int, MarkedEpoch]]:
    compiled = re.compile(pattern)
    matches = [(order, line, match) for order, line in enumerate(lines) if (match := compiled.search(line.text))]
    draws = group_draws(matches)
    found = [draw[0][:2] for draw in draws]
    if draws and len(draws[-1]) > 1 and is_complete(draws[-1][-1][1].text):  # its last draw ends the last epoch
        found.append(draws[-1][-1][:2])
    if len(found) < 2:
        raise RecordError(
            f"--epoch: {len(found)} of the printed lines match {pattern!r}, and an epoch lasts from one to the next; "
            "correct the pattern"
        )
    came = [line for _, line in found]
    together = sum(before.read == line.read for before, line in pairwise(came))
    if together > _TOGETHER * len(came) or came[0].read == came[1].read:
        raise RecordError(
            f"--epoch: lines that match {pattern!r} arrived together, so no epoch can be timed by them; have the program "
            "flush each line, or read the seconds that it prints (--epoch-s)"
        )
    return [
        (order, MarkedEpoch(begins_s, None, ends_s, begin_seen_s=begins_s, end_seen_s=ends_s))
        for (begins_s, ends_s), (order, _) in zip(pairwise(_spread_moments(came)), found[1:], strict=True)
    ]


def _spread_moments(lines: Sequence[Line]) -> list[float]:
    """Return when each line came. Those that one read brought share the time since the line before, so that its sum is kept."""
    moments: list[float] = []
    for _, group in groupby(lines, key=lambda line: line.read):
        came = list(group)
        before_s = moments[-1] if moments else came[0].at_s
        moments += [before_s + (came[0].at_s - before_s) * number / len(came) for number in range(1, len(came) + 1)]
    return moments


def _read(reports: Reports, reading: Reading) -> Marks:
    return read_lines(reports.lines, reading)


LINES_SOURCE = EpochSource("lines", "lines", _read, seen="when its lines arrive", arrives=True)
