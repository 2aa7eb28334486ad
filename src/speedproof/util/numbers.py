"""How a number is written for people: one rule for every table, sentence and figure."""

import math

Unit = str  # `%`, `×` and `epochs` have rules of their own; any other is written after its number

# A share is kept as a fraction and shown in percent.
_SCALE = {"%": 100.0}
_JOINED = {"×": "×", "": ""}
_SIGNIFICANT_DIGITS = 3
_DIGITS = range(_SIGNIFICANT_DIGITS, 8)  # that a ratio may have
_GROUPED_FROM = 10_000
# Short times are written in the unit that fits: their values are below 1000 of it.
_SHORT_TIMES = ((1e-6, 1e9, "ns"), (1e-3, 1e6, "µs"), (0.1, 1e3, "ms"))
# An interval of two pairs may span many powers of ten: beyond these, a ratio's digits say nothing.
_RATIOS_SHOWN = (0.01, 9999)
_LARGE = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"))
NO_NUMBER = "–"
_LEAST_PLAIN_S = 1e-4  # a shorter digit is written in a unit that fits


def format_value(value: float | None, unit: Unit = "") -> str:
    """Format a number with three significant digits (integers whole) and its unit; a dash for None.

    A fraction with the unit `%` is written in percent, a whole number of epochs without decimals, a short time in ms, µs or ns.
    """
    if value is None:
        return NO_NUMBER
    factor, unit = _fit_unit(value, unit)
    value *= factor
    return f"{_digits(value, unit)}{_suffix(unit)}"


def format_change(seconds: float) -> str:
    """Format a change of a time, with its sign."""
    return f"{'−' if seconds < 0 else '+'}{format_value(abs(seconds), 's')}"


def format_large(value: float | None, unit: Unit) -> str:
    """Format a number of bytes, FLOP, or these per second, with the prefix that fits."""
    scale, prefix = next(((scale, prefix) for scale, prefix in _LARGE if value and abs(value) >= scale), (1e3, "k"))
    return format_value(None if value is None else value / scale, f"{prefix}{unit}")


def format_duration(seconds: float) -> str:
    """Write how long something takes, in seconds or minutes."""
    return format_value(seconds, "s") if seconds < 100 else format_value(seconds / 60, "min")


def format_digit(seconds: float) -> str:
    """Write the worth of a last digit, such as 0.1 s, which has no more digits of its own."""
    return f"{seconds:g}{_suffix('s')}" if seconds >= _LEAST_PLAIN_S else format_value(seconds, "s")


def format_decimals(value: float, decimals: int, unit: Unit = "") -> str:
    """Write a number with so many decimals, and its unit."""
    return f"{value:.{decimals}f}{_suffix(unit)}"


def format_range(low: float | None, high: float | None, unit: Unit = "") -> str:
    """Write `low–high` with one unit, that of the value between them; a dash where an end is missing."""
    if low is None or high is None:
        return NO_NUMBER
    factor, unit = _fit_unit(math.sqrt(low * high) if low > 0 else high, unit)
    low, high = factor * low, factor * high
    return f"{_digits(low, unit)}–{_digits(high, unit)}{_suffix(unit)}"


def format_ratio(median: float | None, low: float | None, high: float | None, *bounds: float) -> tuple[str, str]:
    """Write a ratio and its interval with three digits each, or as many as it takes.

    More, where the interval's ends would look the same; and more of one that would read as 1, or one of the `bounds` that it
    is compared with, in an interval without that.
    """
    if median is None or low is None or high is None:
        return format_value(median, "×"), format_range(low, high, "×")
    digits = next((n for n in _DIGITS if low == high or _digits(low, "×", n) != _digits(high, "×", n)), _DIGITS[-1])
    outside = [bound for bound in (1.0, *bounds) if not low <= bound <= high]
    value, *ends = (
        _digits(one, "×", max((_digits_apart(one, bound, digits) for bound in outside), default=digits))
        for one in (median, low, high)
    )
    return f"{value}×", f"{'–'.join(ends)}×"


def format_count(number: int, noun: str) -> str:
    """Write how many there are of a thing whose plural ends in s."""
    return f"{number} {noun}{'s' if number != 1 else ''}"


def format_printed(digits: str, unit: Unit = "") -> str:
    return f"{digits}{_suffix(unit)}"


def _fit_unit(value: float, unit: Unit) -> tuple[float, Unit]:
    """Return by what a number of a unit is multiplied to be read well, and the unit that it then has."""
    if unit == "s" and value:
        for below, factor, short in _SHORT_TIMES:
            if abs(value) < below:
                return factor, short
    return 1.0, unit


def _digits_apart(value: float, bound: float, least: int) -> int:
    """Return how many digits keep a rounded ratio above or below a bound as it is, at least `least`."""
    rounded = ((n, float(f"{value:.{n - 1}e}")) for n in _DIGITS if n >= least)
    return next((n for n, shown in rounded if shown != bound and (shown < bound) == (value < bound)), _DIGITS[-1])


def _digits(value: float, unit: Unit, significant: int = _SIGNIFICANT_DIGITS) -> str:
    value *= _SCALE.get(unit, 1.0)
    if unit == "%":
        if 0 < abs(value) < 0.05:  # one decimal would say that there is nothing
            return f"{value:.1g}"
        return f"{value:.0f}" if abs(value) >= 10 else f"{value:.1f}"
    if unit == "epochs" and value == round(value):
        return f"{value:.0f}"
    if value == 0:
        return "0"
    if unit == "×" and not _RATIOS_SHOWN[0] <= value <= _RATIOS_SHOWN[1]:
        return f"<{_RATIOS_SHOWN[0]:g}" if value < _RATIOS_SHOWN[0] else f">{_RATIOS_SHOWN[1]:g}"
    # Rounded before its digits are counted: 99.96 has two before the point, but is shown as 100.
    rounded = float(f"{value:.{significant - 1}e}")
    decimals = max(0, significant - 1 - math.floor(math.log10(abs(rounded))))
    text = f"{value:,.{decimals}f}" if abs(value) >= _GROUPED_FROM else f"{value:.{decimals}f}"
    return text.replace(",", "\N{NARROW NO-BREAK SPACE}")


def _suffix(unit: Unit) -> str:
    return _JOINED.get(unit, f"\N{NO-BREAK SPACE}{unit}")
