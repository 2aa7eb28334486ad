"""Ratios of paired measurements and how far they can be trusted."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean, median, stdev

from scipy import special

CONFIDENCE = 0.95

Pair = tuple[float, float]  # numerator, denominator; both above 0


@dataclass(frozen=True)
class Interval:
    """The values that the data do not rule out, at a confidence of 95 %."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Return whether `value` is not ruled out."""
        return self.low <= value <= self.high


def median_ratio(pairs: Sequence[Pair]) -> float:
    """Return the median of the pairs' ratios, numerator first. All values must be above 0."""
    return median(numerator / denominator for numerator, denominator in pairs)


def ratio_interval(pairs: Sequence[Pair]) -> Interval | None:
    """Return the 95 % interval of the ratio of paired positive values, or None with fewer than two pairs.

    With d = log(numerator / denominator), n pairs, mean m and sample deviation s, it is exp(m ± t s / √n), t being
    Student's quantile at n - 1 degrees of freedom: the paired t interval on a log scale, where the error of a time is
    relative and the interval of a/b is the reciprocal of that of b/a. Source: NIST/SEMATECH e-Handbook of Statistical
    Methods, 1.3.5.2 (confidence limits for the mean).
    """
    return _log_interval([_log_ratio(pair) for pair in pairs])


def merged_interval(blocks: Sequence[Sequence[Pair]]) -> Interval | None:
    """Return the 95 % interval of a ratio over blocks, each with its pairs; None with fewer than two pairs in all.

    Pairs of one block share its GPU and its day, so they may agree better with each other than with another block's. The
    interval therefore spans two: that of all pairs, and that of the blocks' mean log ratios, one value a block. With one
    block, or one pair a block, the two are the same or there is only the first. docs/statistics.md has its coverage.
    """
    logs = [[_log_ratio(pair) for pair in block] for block in blocks if block]
    of_pairs = _log_interval([value for block in logs for value in block])
    of_blocks = _log_interval([fmean(block) for block in logs])
    if of_pairs is None or of_blocks is None:
        return of_pairs
    return Interval(min(of_pairs.low, of_blocks.low), max(of_pairs.high, of_blocks.high))


def _log_ratio(pair: Pair) -> float:
    return math.log(pair[0] / pair[1])


def _log_interval(logs: Sequence[float]) -> Interval | None:
    if len(logs) < 2:
        return None
    centre, half_width = fmean(logs), _student_quantile(len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    return Interval(math.exp(centre - half_width), math.exp(centre + half_width))


@cache
def _student_quantile(degrees: int) -> float:
    """Return the two-sided quantile of Student's t at :data:`CONFIDENCE`."""
    return float(special.stdtrit(degrees, (1 + CONFIDENCE) / 2))  # as stats.t.ppf, which takes a second to import
