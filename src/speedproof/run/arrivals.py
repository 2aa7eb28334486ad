"""When a program's reports reached us: its epochs by our own clock, and whether that says how long they took."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from speedproof.results.observations import Arrivals
from speedproof.run.epoch_reports import Marks
from speedproof.run.printed_times import PrintedTime

# Reports may come this much too early after each other, since the first was noticed late. In 400 runs of honest programs with
# eight epochs of 3 and 30 ms, on two cores under a load of eight processes, it was 12.5 ms at most, and 4.2 ms in 98 of 100.
_LATE_S, _LATE = 0.02, 0.01
# Fewer times may grow by chance, and in a shorter span reports that come together may seem to be as far apart as they grow. In
# 300 runs of honest programs, eight at once on two cores, no epochs looked like times since the start (100 of equal epochs, 200
# of epochs that grow by 2 to 60 %, half of these with buffered output); of 100 runs that print such times, 97 did.
_LEAST_GROWING, _LEAST_SPAN_S = 4, 5 * _LATE_S


def judge_arrivals(marks: Marks) -> Arrivals:
    """Return whether the moments at which a program's reports came say how long its epochs took; if not, why."""
    ends_s = _list_ends(marks)
    if marks.unseen == "replaced":
        return "replaced"
    if ends_s is None and marks.epochs and marks.unseen == "file":
        return "file"
    if ends_s is None or len(ends_s) < 2:
        return "none"
    if any(before >= end for before, end in pairwise(ends_s)) or _are_crowded(marks, ends_s):
        return marks.unseen
    return "seen"


def _are_crowded(marks: Marks, ends_s: Sequence[float]) -> bool:
    """Return whether epochs after the first took longer, as reported, than passed between their reports."""
    if marks.rates:
        return False
    reported_s = sum(epoch.total_s for epoch in marks.epochs[1:])
    # Half a unit of the last digit by rounding, and a whole one of a program that rounds up.
    digits_s = sum(2 * time.resolution_s for time in marks.times[1:])
    span_s = ends_s[-1] - ends_s[0]
    return reported_s - digits_s > _extend(span_s)


def are_since_start(marks: Marks, scale: float = 1.0) -> bool:
    """Return whether printed times, multiplied by `scale`, are times since the start and not epochs, by our clock.

    Each is longer than the one before by what passed between their reports, and together they are longer than an honest
    program's epochs may be, in this unit.
    """
    ends_s = _list_ends(marks)
    if marks.rates or ends_s is None or len(marks.times) != len(ends_s) or len(ends_s) < _LEAST_GROWING:
        return False
    times = [replace(one, seconds=scale * one.seconds, resolution_s=scale * one.resolution_s) for one in marks.times]
    steps = zip(pairwise(times), pairwise(ends_s), strict=True)
    whole = ((times[0], times[-1]), (ends_s[0], ends_s[-1]))
    if not all(_grew_as_passed(printed, moments) for printed, moments in [*steps, whole]):
        return False
    span_s = ends_s[-1] - ends_s[0]
    return span_s > _LEAST_SPAN_S and sum(one.seconds - 2 * one.resolution_s for one in times[1:]) > _extend(span_s)


def took_as_observed(marks: Marks, scale: float) -> bool:
    """Return whether printed times, multiplied by `scale`, are what passed between their reports, to a tenth, by our clock."""
    ends_s = _list_ends(marks)
    if marks.rates or ends_s is None or len(marks.times) != len(ends_s) or ends_s[-1] - ends_s[0] <= _LEAST_SPAN_S:
        return False
    pairs = [
        (scale * time.seconds, end - before) for time, (before, end) in zip(marks.times[1:], pairwise(ends_s), strict=True)
    ]
    return len(pairs) > 1 and all(0.9 * passed_s - _LATE_S <= time_s <= _extend(passed_s) for time_s, passed_s in pairs)


def _grew_as_passed(printed: tuple[PrintedTime, PrintedTime], moments_s: tuple[float, float]) -> bool:
    """Return whether a time is longer than an earlier one, by as much as passed between their reports."""
    grown_s, passed_s = printed[1].seconds - printed[0].seconds, moments_s[1] - moments_s[0]
    digits_s = sum(2 * one.resolution_s for one in printed)
    return grown_s > 0 and abs(grown_s - passed_s) - digits_s <= _extend(passed_s) - passed_s


def _extend(seconds: float) -> float:
    """Return what passed between two reports at most if this passed by our clock."""
    return seconds * (1 + _LATE) + _LATE_S


def list_observed(marks: Marks) -> list[float | None]:
    """Return how long each epoch took by our clock: from the epoch before, the first from its begin if that was seen."""
    ends_s, first = _list_ends(marks), marks.epochs[0].begin_seen_s if marks.epochs else None
    if ends_s is None:
        return [None] * len(marks.epochs)
    return [None if first is None else ends_s[0] - first, *(end - before for before, end in pairwise(ends_s))][: len(ends_s)]


def find_start_up(marks: Marks, launched_s: float) -> float | None:
    """Return how long it took from the launch to the first epoch: to its begin, or to its end less the time that it reports."""
    if not marks.epochs or marks.rates:
        return None
    first = marks.epochs[0]
    if first.begin_seen_s is not None:
        return max(0.0, first.begin_seen_s - launched_s)
    return None if first.end_seen_s is None else max(0.0, first.end_seen_s - first.total_s - launched_s)


def find_time_after(marks: Marks, gone_s: float) -> float | None:
    """Return how long the program and its children went on after the last epoch's end reached us."""
    ends_s = _list_ends(marks)
    return max(0.0, gone_s - ends_s[-1]) if ends_s else None


def _list_ends(marks: Marks) -> list[float] | None:
    """Return when each epoch's end reached us; None if one did not, or there are no epochs."""
    ends_s = [epoch.end_seen_s for epoch in marks.epochs]
    known = [end for end in ends_s if end is not None]
    return known if known and len(known) == len(ends_s) else None
