"""Ratios of paired measurements, levels, and how far they can be trusted."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean, stdev
from typing import TypedDict

from speedproof.results.comparison_rows import ClaimVerdict, Outcome
from speedproof.results.quality import Better

CONFIDENCE = 0.95
_ONE_SIDED = 0.99  # of :class:`LowerBound`
_BEYOND_CHANCE = 0.999
LEAST_PAIRS = 4  # of which a verdict is given
LEAST_HOSTS = 3  # that speak for a model of GPU

Pair = tuple[float, float]  # reference, candidate; both above 0
Slack = tuple[float, float]  # how far a log ratio may lie below and above what it is taken for


def keep_balanced(came_first: Sequence[bool]) -> list[int]:
    """Return which pairs of a fixed number count, by whether the reference ran first: all up to four, or an even number.

    With an odd number of pairs, the last pair of the more frequent order is dropped, so that the plan alone decides which.
    """
    kept = list(range(len(came_first)))
    if len(kept) > LEAST_PAIRS and len(kept) % 2:
        more_frequent = sum(came_first) > len(came_first) / 2
        kept.remove(max(number for number, first in enumerate(came_first) if first == more_frequent))
    return kept


@dataclass(frozen=True)
class Interval:
    """The values that the data do not rule out, at a confidence of 95 %."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high

    @property
    def exponential(self) -> "Interval":
        """Return the interval of what this one is the logarithm's of."""
        return Interval(bounded_exp(self.low), bounded_exp(self.high))


@dataclass(frozen=True)
class Estimate:
    """A centre and its interval; the latter is None of a single value."""

    centre: float
    interval: Interval | None

    @property
    def ends(self) -> "Ends":
        """Return the interval's ends as a record's row has them."""
        return {"low": self.interval.low, "high": self.interval.high} if self.interval else {"low": None, "high": None}


class Ends(TypedDict):
    """The ends of an interval, if there is one."""

    low: float | None
    high: float | None


def estimate_ratio(pairs: Sequence[Pair], comparisons: int = 1) -> Estimate:
    """Return the ratio of one experiment's pairs of positive values, of which there is at least one.

    The interval is one of so many `comparisons` that hold together.

    With d = log(reference / candidate), n pairs, mean m and sample deviation s, the centre is exp(m) and the interval
    exp(m ± t s / √n). Here t is Student's quantile at n - 1 degrees of freedom. This is the paired t interval on a log scale:
    errors of times are relative, a/b is the reciprocal of b/a, and a/b · b/c is a/c. Source: NIST/SEMATECH e-Handbook of
    Statistical Methods, 1.3.5.2 (confidence limits for the mean).
    """
    return _exponential(estimate_mean(list_log_ratios(pairs), comparisons))


def estimate_ratio_over_hosts(hosts: Sequence[Sequence[Sequence[Pair]]], comparisons: int = 1) -> Estimate:
    """Return the ratio over hosts, each with its experiments, each with its pairs; none of these lists is empty.

    Pairs of one experiment, and experiments of one host, agree better with each other than with another host's. So each
    experiment counts as the mean of its log ratios, each host as the mean of its experiments, and the interval is
    :func:`estimate_ratio`'s of the hosts' means alone. docs/simulations.md has its coverage.
    """
    means = [fmean(fmean(list_log_ratios(experiment)) for experiment in host) for host in hosts]
    return _exponential(estimate_mean(means, comparisons))


def estimate_level(hosts: Sequence[Sequence[float]], share: bool) -> Estimate:
    """Return a metric's level: of one experiment's runs where each value stands alone, else of the hosts' means.

    A share (0 to 1) has the t interval, clipped to what a share can be; any other positive value that of its logarithm.
    """
    values = [value for host in hosts for value in host]
    if share or min(values) <= 0:
        found = estimate_mean([fmean(host) for host in hosts])
        if found.interval is None or not share:
            return found
        return Estimate(found.centre, Interval(max(0.0, found.interval.low), min(1.0, found.interval.high)))
    if len(set(values)) == 1:  # as counts of epochs often are: the logarithm's rounding would leave the value's own digits
        return Estimate(values[0], Interval(values[0], values[0]) if len(hosts) > 1 else None)
    return _exponential(estimate_mean([fmean(math.log(value) for value in host) for host in hosts]))


def estimate_mean(values: Sequence[float], comparisons: int = 1) -> Estimate:
    """Return the mean of at least one value, and Student's t interval of two or more.

    Of several `comparisons` all intervals together hold the truth at :data:`CONFIDENCE`.
    """
    centre = fmean(values)
    if len(values) < 2:
        return Estimate(centre, None)
    half_width = student_quantile(len(values) - 1, comparisons) * stdev(values) / math.sqrt(len(values))
    return Estimate(centre, Interval(centre - half_width, centre + half_width))


@dataclass(frozen=True)
class LowerBound:
    """A mean, and the lower ends of its one-sided intervals at 99 % and 99.9 %: what is above 0 there is significant."""

    centre: float
    least: float
    beyond_chance: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "LowerBound":
        """Return the mean of at least one value; of a single one it has no lower end."""
        centre = fmean(values)
        if len(values) < 2:
            return cls(centre, -math.inf, -math.inf)
        error = stdev(values) / math.sqrt(len(values))
        ends = [centre - one_sided_quantile(len(values) - 1, confidence) * error for confidence in (_ONE_SIDED, _BEYOND_CHANCE)]
        return cls(centre, *ends)


def list_log_ratios(pairs: Sequence[Pair]) -> list[float]:
    return [math.log(reference / candidate) for reference, candidate in pairs]


def find_slack(reference: float, candidate: float) -> Slack:
    """Return how far the digits of two printed times let their log ratio be off, by half a unit of each as a share of its time.

    A time v that is printed to a digit of 2 r lies in [v - r, v + r]. So a ratio a / b lies between (a - r) / (b + s) and
    (a + r) / (b - s).
    """
    return _log_share(-reference) + _log_share(candidate), _log_share(reference) + _log_share(-candidate)


def _log_share(share: float) -> float:
    return abs(math.log1p(share)) if share > -1 else math.inf


def mean_slack(hosts: Sequence[Sequence[Sequence[Slack]]]) -> Slack:
    """Return the slack of a mean of log ratios, by host, experiment and pair, as :func:`estimate_ratio_over_hosts` forms it."""
    below, above = (
        fmean(fmean(fmean(pair[end] for pair in experiment) for experiment in host) for host in hosts) for end in (0, 1)
    )
    return below, above


def widen_logs(of_logs: Interval, slack: Slack) -> Interval:
    """Return an interval of log ratios with the slack of its values added."""
    return Interval(of_logs.low - slack[0], of_logs.high + slack[1])


def widen_ratio(interval: Interval, slack: Slack) -> Interval:
    """Return an interval of a ratio with the slack of its values' logarithms added."""
    if slack == (0.0, 0.0):  # none of its digits changes
        return interval
    return widen_logs(Interval(math.log(interval.low), math.log(interval.high)), slack).exponential


def student_quantile(degrees: float, comparisons: int = 1) -> float:
    """Return the two-sided quantile of Student's t at :data:`CONFIDENCE`, of so many intervals together (Bonferroni's)."""
    return two_sided_quantile(degrees, (1 - CONFIDENCE) / comparisons)


@cache
def two_sided_quantile(degrees: float, error: float) -> float:
    """Return the value that the absolute value of Student's t exceeds with probability `error`."""
    from scipy import special

    return float(special.stdtrit(degrees, 1 - error / 2))  # as stats.t.ppf, which takes a second to import


@cache
def one_sided_quantile(degrees: float, confidence: float) -> float:
    """Return the one-sided quantile of Student's t."""
    from scipy import special

    return float(special.stdtrit(degrees, confidence))


def _exponential(of_logs: Estimate) -> Estimate:
    return Estimate(math.exp(of_logs.centre), of_logs.interval and of_logs.interval.exponential)


def bounded_exp(value: float) -> float:
    """Return e to a power; the largest and the smallest float where it would leave them, as of two wildly different pairs."""
    return math.exp(max(-700.0, min(700.0, value)))


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
    """Judge a documented range [a, b], whose ends may be infinite, by an interval.

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
    """Return how many values would decide, with the same mean and deviation; None if it is beyond reach.

    `values` are those measured, two or more; counts are multiples of `step`, more than were measured, and `least` or more.
    """
    centre, deviation = fmean(values), stdev(values)
    for count in range(max(least, (len(values) // step + 1) * step), MOST_NAMED + 1, step):
        half_width = student_quantile(count - 1, comparisons) * deviation / math.sqrt(count)
        if decides(Interval(centre - half_width, centre + half_width)):
            return count
    return None
