"""When to stop: intervals that stay valid whenever one looks at them, at looks and with an error that were fixed beforehand."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from speedproof.stats.estimates import Interval

ERROR = 0.05  # of all looks together

# After how many pairs one looks, and by how many standard errors the interval then extends to either side of the mean: so many
# that, of normal differences, the chance that any interval up to the n-th pair misses the truth is ERROR · n / 24 (error
# spending: K. K. G. Lan, D. L. DeMets, Biometrika 70 (1983) 659-663; repeated confidence intervals: C. Jennison,
# B. W. Turnbull, Journal of the Royal Statistical Society B 51 (1989) 305-361). Made by benchmarks/simulate_stopping.py from
# its seed and number of paths; a test makes them again from fewer.
CRITICAL = {4: 6.21, 6: 4.65, 8: 3.88, 10: 3.47, 12: 3.21, 16: 2.81, 20: 2.63, 24: 2.51}
MOST_PAIRS = max(CRITICAL)


def find_latest_look(pairs: int) -> int | None:
    """Return after how many of so many pairs one looked last; None before the first look."""
    return max((count for count in CRITICAL if count <= pairs), default=None)


def repeat_interval(log_ratios: Sequence[float]) -> Interval | None:
    """Return the interval of the mean of pairs' log ratios that is valid however one came to stop here.

    It is the latest look's: of pairs after it nothing is said yet. None before the first look. Raises ValueError of more pairs
    than the last look has.
    """
    if len(log_ratios) > MOST_PAIRS:
        raise ValueError(f"{len(log_ratios)} pairs, where the last look is after {MOST_PAIRS}")
    look = find_latest_look(len(log_ratios))
    if look is None:
        return None
    return extend_interval(fmean(log_ratios[:look]), stdev(log_ratios[:look]), look)


def extend_interval(mean: float, deviation: float, look: int) -> Interval:
    """Return the interval of so many pairs' log ratios, by their mean and sample deviation, at one of the looks."""
    half_width = CRITICAL[look] * deviation / math.sqrt(look)
    return Interval(mean - half_width, mean + half_width)
