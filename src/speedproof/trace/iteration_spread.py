"""The interval of a difference between two traces' iterations, from how much these differ among themselves.

It is Welch's: the iterations of each trace have a spread of their own. How much one run differs from the next is not in it.
"""

import math
from collections.abc import Sequence
from statistics import fmean, variance

from speedproof.results.summary import Summary

_CONFIDENCE = 0.95


def measure_interval(a: Summary, b: Summary, total_s: float) -> tuple[float, float] | None:
    """Return the interval around a difference of mean iterations; None if a part of these was seen once, or none was."""
    errors = [error for summary in (a, b) for error in _list_errors(summary)]
    if any(error is None for error in errors):
        return None
    known = [error for error in errors if error is not None]
    squared = math.fsum(error for error, _ in known)
    if not squared:
        return total_s, total_s
    from scipy import special

    degrees = squared**2 / math.fsum(error**2 / degrees for error, degrees in known)
    half = float(special.stdtrit(degrees, (1 + _CONFIDENCE) / 2)) * math.sqrt(squared)
    return total_s - half, total_s + half


def _list_errors(summary: Summary) -> list[tuple[float, int] | None]:
    """Return the squared standard error of each part of a mean iteration, and its degrees of freedom."""
    epochs = summary.steady_epochs
    validation = [epoch.duration_s - epoch.training_s for epoch in epochs if epoch.validates]
    errors = [_square_error([epoch.training_s for epoch in epochs], 1.0)]
    return [*errors, _square_error(validation, summary.validation_share)] if validation else errors


def _square_error(lengths_s: Sequence[float], weight: float) -> tuple[float, int] | None:
    if len(lengths_s) < 2:
        return None
    return weight**2 * variance(lengths_s, fmean(lengths_s)) / len(lengths_s), len(lengths_s) - 1
