"""What an interval shows of two variants and of a documented number, and how many pairs would decide."""

import math
from collections.abc import Callable, Sequence
from statistics import fmean, stdev

from speedproof.results.claim_results import ClaimVerdict
from speedproof.results.comparison_rows import Outcome
from speedproof.results.quality import Better
from speedproof.stats.estimates import Interval, student_quantile

MOST_NAMED = 1000  # more than anybody runs: beyond, no number is named


def judge_within_margin(interval: Interval, margin: float) -> Outcome:
    """Return how the variant that a ratio above 1 favours compares: equivalent if the whole interval is within the margin.

    `margin` is a fraction: 0.02 makes 1/1.02 to 1.02 equivalent, so that a ratio and its reciprocal get the same outcome.
    """
    if 1 / (1 + margin) <= interval.low and interval.high <= 1 + margin:
        return "equivalent"
    if interval.low > 1:
        return "faster"
    return "slower" if interval.high < 1 else "inconclusive"


def judge_interval(interval: Interval, expected: tuple[float, float], better: Better = "higher") -> ClaimVerdict:
    """Return what an interval says of a documented range [a, b], either end of which may be infinite.

    Reproduced: it lies inside; exceeded: wholly beyond the end that is better; not reproduced here: wholly beyond the worse
    one. If the better end is open, nothing exceeds the range.
    """
    low, high, (least, most) = interval.low, interval.high, expected
    if better == "lower":
        low, high, least, most = -high, -low, -most, -least
    if least <= low and high <= most:
        return "reproduced"
    if low > most:
        return "exceeded"
    return "not reproduced here" if high < least else "inconclusive"


def count_needed(
    values: Sequence[float], decides: Callable[[Interval], bool], least: int, step: int, comparisons: int = 1
) -> int | None:
    """Return of how many values the interval would decide, if their mean and deviation stayed; None where it is beyond reach.

    `values` are those measured, two or more; counts are multiples of `step`, more than were measured, and `least` or more.
    """
    centre, deviation = fmean(values), stdev(values)
    for count in range(max(least, (len(values) // step + 1) * step), MOST_NAMED + 1, step):
        half_width = student_quantile(count - 1, comparisons) * deviation / math.sqrt(count)
        if decides(Interval(centre - half_width, centre + half_width)):
            return count
    return None
