"""When to stop: intervals that stay valid whenever one looks at them, at looks and with an error that were fixed beforehand."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean, stdev

from speedproof.stats.estimates import Interval, estimate_mean, two_sided_quantile

ERROR = 0.05  # of all looks together

# After how many pairs one looks, and by how many standard errors the interval then extends to either side of the mean: so many
# that, of normal differences, the chance that any interval up to the n-th pair misses the truth is ERROR · n / 24 (error
# spending: K. K. G. Lan, D. L. DeMets, Biometrika 70 (1983) 659-663; repeated confidence intervals: C. Jennison,
# B. W. Turnbull, Journal of the Royal Statistical Society B 51 (1989) 305-361). Made by benchmarks/simulate_stopping.py from
# its seed and number of paths; a test makes them again from fewer.
CRITICAL = {4: 6.21, 6: 4.65, 8: 3.88, 10: 3.47, 12: 3.21, 16: 2.81, 20: 2.63, 24: 2.51}
MOST_PAIRS = max(CRITICAL)
# The same at ERROR / k, so that k such intervals together miss as rarely (C. E. Bonferroni). Of a number between two of these
# the larger one's values hold.
JOINT_CRITICAL: dict[int, tuple[float, ...]] = {
    1: tuple(CRITICAL.values()),
    2: (7.94, 5.54, 4.47, 3.96, 3.66, 3.19, 2.99, 2.86),
    3: (9.12, 6.11, 4.85, 4.26, 3.92, 3.41, 3.20, 3.06),
    4: (10.07, 6.54, 5.12, 4.48, 4.11, 3.56, 3.34, 3.19),
    5: (10.86, 6.90, 5.34, 4.64, 4.25, 3.68, 3.44, 3.30),
    6: (11.56, 7.20, 5.52, 4.78, 4.37, 3.77, 3.53, 3.38),
    7: (12.17, 7.45, 5.68, 4.90, 4.47, 3.85, 3.61, 3.45),
    8: (12.74, 7.68, 5.83, 5.01, 4.56, 3.92, 3.67, 3.51),
    9: (13.24, 7.89, 5.96, 5.10, 4.63, 3.99, 3.72, 3.57),
    10: (13.73, 8.08, 6.07, 5.18, 4.70, 4.04, 3.78, 3.61),
    12: (14.59, 8.40, 6.27, 5.33, 4.83, 4.14, 3.86, 3.69),
    15: (15.73, 8.83, 6.52, 5.52, 4.98, 4.25, 3.97, 3.79),
    20: (17.34, 9.41, 6.84, 5.77, 5.18, 4.40, 4.10, 3.92),
    25: (18.66, 9.89, 7.10, 5.96, 5.33, 4.52, 4.20, 4.02),
}


@cache
def critical_values(comparisons: int) -> dict[int, float]:
    """Return, for each look, by how many standard errors an interval extends of which so many are to hold together.

    Beyond the table each look has Student's quantile of what it spends alone, which is never too small.
    """
    tabulated = min((number for number in JOINT_CRITICAL if number >= comparisons), default=None)
    if tabulated is not None:
        return dict(zip(CRITICAL, JOINT_CRITICAL[tabulated], strict=True))
    spent = zip(CRITICAL, (0, *CRITICAL), strict=False)
    return {look: two_sided_quantile(look - 1, ERROR / comparisons * (look - before) / MOST_PAIRS) for look, before in spent}


@dataclass(frozen=True)
class Design:
    """How an experiment was to end, and how many intervals of it hold together: what its intervals are made by."""

    repeated: bool = False  # whether rounds could end at any look
    comparisons: int = 1

    def interval_of(self, values: Sequence[float]) -> Interval | None:
        """Return the interval of the mean of pairs' differences; None of too few."""
        if self.repeated:
            return repeat_interval(values, self.comparisons)
        return estimate_mean(values, self.comparisons).interval


SINGLE = Design()


def find_latest_look(pairs: int) -> int | None:
    """Return after how many of so many pairs one looked last; None before the first look."""
    return max((count for count in CRITICAL if count <= pairs), default=None)


def repeat_interval(values: Sequence[float], comparisons: int = 1) -> Interval | None:
    """Return the interval of the mean of pairs' differences that is valid however one came to stop here.

    It is the latest look's: of pairs after it nothing is said yet. None before the first look. Raises ValueError of more pairs
    than the last look has.
    """
    if len(values) > MOST_PAIRS:
        raise ValueError(f"{len(values)} pairs, where the last look is after {MOST_PAIRS}")
    look = find_latest_look(len(values))
    if look is None:
        return None
    return extend_interval(fmean(values[:look]), stdev(values[:look]), look, comparisons)


def extend_interval(mean: float, deviation: float, look: int, comparisons: int = 1) -> Interval:
    """Return the interval of so many pairs' differences, by their mean and sample deviation, at one of the looks."""
    half_width = critical_values(comparisons)[look] * deviation / math.sqrt(look)
    return Interval(mean - half_width, mean + half_width)
