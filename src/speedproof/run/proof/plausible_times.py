"""Whether the epochs that a program prints fit into its process, and which unit would explain that they do not."""

from collections.abc import Sequence
from itertools import pairwise

from speedproof.config.reading import TimeUnit
from speedproof.run.arrivals import are_since_start, took_as_observed
from speedproof.run.epoch_reports import Marks
from speedproof.run.printed_times import UNIT_S, UNIT_TITLES, PrintedTime
from speedproof.run.proof.request import ProofRequest
from speedproof.util.errors import RecordError
from speedproof.util.numbers import format_value

# The launch and the end of a process lie outside of all its epochs, so they can only add up to less. What may make them more is
# rounding, for which each has a unit of its last digit (programs also round up), and two clocks: time.time() is slewed by NTP,
# at 0.05 % by the kernel's adjtime(2), at up to 8.3 % by chrony's default maxslewrate (chrony.conf(5), 83 333 ppm).
_CLOCKS = 0.09
_SMALL = 1 / 1000  # the epochs' share of the process
_MOST = 0.5  # that share in a unit that explains it
_SOME = 0.03  # the same of too long epochs: a program may print one iteration of thirty


def note_zero(marks: Marks) -> list[str]:
    """Return that the first printed time is not counted, if it is 0, in at most one line."""
    return ["its first printed time is 0, so it is skipped"] if marks.began_at_zero else []


def check_plausible(
    marks: Marks, process_s: float, request: ProofRequest, *, cumulative: bool, asked: TimeUnit | None = None
) -> None:
    """Check that a run's printed times can be its epochs in a process that lasted so long, and, unless trusted, by our clock.

    `cumulative` says whether they count from the start, and `asked` is the unit that was asked for.

    Raises:
        RecordError: they cannot.
    """
    if not request.trust_reported:
        if not cumulative:
            check_observed_growth(marks)
        check_observed_unit(marks, asked)
    check_total([] if marks.rates else marks.times, process_s, request.gpus)


def check_total(times: Sequence[PrintedTime], process_s: float, ranks: int) -> None:
    """Check that a run's printed epochs can have been in a process that lasted so long, in which so many ranks may print.

    Epochs may be a small share of an honest process. They are suspicious only if no unit is printed or asked for, and another
    one makes them most of the process.

    Raises:
        RecordError: they cannot, or hardly; it names the likely unit.
    """
    total_s = sum(one.seconds for one in times)
    rounding_s = sum(2 * one.resolution_s for one in times)
    longest_s = ranks * process_s * (1 + _CLOCKS)
    if total_s - rounding_s > longest_s:
        _check_growing(times, process_s, longest_s)
        _check_pairs(times, total_s, process_s)
        fitting = [unit for unit in UNIT_S if _SOME * process_s <= _in_unit(times, unit) <= longest_s]
        _refuse(total_s, process_s, fitting[-1] if fitting else None)
    if 0 < total_s < process_s * _SMALL and not any(one.named for one in times):
        for unit in UNIT_S:
            if _MOST * process_s <= _in_unit(times, unit) <= longest_s:
                _refuse(total_s, process_s, unit)


def check_observed_growth(marks: Marks) -> None:
    """Check that printed epochs are not times since the start, by the moments at which they came.

    Raises:
        RecordError: they are, in their unit or, if none is printed or asked for, in any.
    """
    units: list[TimeUnit] = ["s"] if any(one.named for one in marks.times) else list(UNIT_S)
    for unit in units:
        if are_since_start(marks, UNIT_S[unit]):
            last_s = UNIT_S[unit] * marks.times[-1].seconds
            raise RecordError(
                f"--epoch-s: the times grow to {format_value(last_s, 's')}, each by the time since the previous one; are these "
                f"times since the start? add --cumulative{'' if unit == 's' else f' --unit {unit}'}"
            )


def check_observed_unit(marks: Marks, asked: TimeUnit | None) -> None:
    """Check that an asked unit does not contradict our clock, with which another unit agrees.

    Raises:
        RecordError: it does.
    """
    if asked is None:
        return
    for unit in UNIT_S:
        if unit != asked and took_as_observed(marks, UNIT_S[unit] / UNIT_S[asked]):
            raise RecordError(
                f"--unit {asked}: the last epoch would take {format_value(marks.times[-1].seconds, 's')}, but by our clock the "
                f"times are {UNIT_TITLES[unit]}; use --unit {unit}, or trust them (--trust-reported)"
            )


def _check_growing(times: Sequence[PrintedTime], process_s: float, longest_s: float) -> None:
    """Check that epochs which are too long together are not times since the start, which grow up to the process' time."""
    last_s = times[-1].seconds
    growing = len(times) > 1 and all(one.seconds < other.seconds for one, other in pairwise(times))
    if growing and _MOST * process_s <= last_s <= longest_s:
        raise RecordError(
            f"--epoch-s: the times grow to {format_value(last_s, 's')} in a process of {format_value(process_s, 's')}; are "
            "these times since the start? add --cumulative"
        )


def _check_pairs(times: Sequence[PrintedTime], total_s: float, process_s: float) -> None:
    """Check that epochs which are too long together are not each printed twice, which equal times alone do not show."""
    seconds = [one.seconds for one in times]
    if seconds[::2] == seconds[1::2] and len(set(seconds)) > 1:
        raise RecordError(
            f"{_name_total(total_s, process_s)}, and each time comes twice; have the pattern match only one of the two lines"
        )


def _in_unit(times: Sequence[PrintedTime], unit: TimeUnit) -> float:
    """Return what the epochs add up to, in seconds, if all numbers are of this unit."""
    return sum(one.number for one in times) * UNIT_S[unit]


def _refuse(total_s: float, process_s: float, likely: TimeUnit | None) -> None:
    said = _name_total(total_s, process_s)
    if likely is None:
        raise RecordError(f"{said}; correct the pattern, which must match each epoch's time (no rate) once, or add --unit")
    raise RecordError(f"{said}; are these {UNIT_TITLES[likely]}? add --unit {likely}")


def _name_total(total_s: float, process_s: float) -> str:
    return f"--epoch-s: the epochs add up to {format_value(total_s, 's')} in a process of {format_value(process_s, 's')}"
