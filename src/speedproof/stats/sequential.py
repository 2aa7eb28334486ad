"""When to stop: intervals that stay valid whenever one looks at them, at looks and with an error that were fixed beforehand."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean, stdev

from speedproof.stats.estimates import (
    CONFIDENCE,
    LEAST_PAIRS,
    Interval,
    Slack,
    count_needed,
    estimate_mean,
    student_quantile,
    two_sided_quantile,
    widen_logs,
)

ERROR = 0.05  # of all looks together

# The numbers of pairs at which the interval is computed, and its half-width there in standard errors. It is chosen so that, for
# normal differences, the chance that any interval up to the n-th pair misses the truth is ERROR · n / 24 (error spending:
# K. K. G. Lan, D. L. DeMets, Biometrika 70 (1983) 659-663; repeated confidence intervals: C. Jennison,
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


def forecast_look(values: Sequence[float], decides: Callable[[Interval], bool], comparisons: int = 1) -> int | None:
    """Return the first look after these differences that would decide, if their mean stays; None if none would.

    Their deviation is taken at its upper limit: by the measured one every third forecast is too low
    (benchmarks/simulate_forecast.py).
    """
    mean, deviation = fmean(values), Noise(stdev(values), len(values) - 1).limit
    looks = (look for look in CRITICAL if look > len(values))
    return next((look for look in looks if decides(extend_interval(mean, deviation, look, comparisons))), None)


# Rounds end if the last look decides less often than this, by what is known so far. Of proofs that would have decided rightly,
# 0.6 % at most were given up, over all noises and effects of benchmarks/simulate_futility.py.
LEAST_CHANCE = 0.07
# The true deviation may be smaller than the measured one: its lower limit of this confidence counts, too.
DEVIATION_CONFIDENCE = 0.80

_Region = tuple[float, float]  # both ends belong to it


@dataclass(frozen=True)
class Question:
    """Where the mean of one value a round lies: it is decided once the whole interval is in one of the `regions`."""

    values: Sequence[float]
    regions: Sequence[_Region]
    comparisons: int = 1
    slack: Slack = (0.0, 0.0)  # by which printed digits widen the interval

    @property
    def answer(self) -> int | None:
        """Return the number of the region that the repeated interval lies in; None if it lies in none."""
        interval = Design(repeated=True, comparisons=self.comparisons).interval_of(self.values)
        return None if interval is None else self._place(interval)

    def find_deciding_look(self) -> int | None:
        """Return the latest look if it decided, else the one that is forecast to; None if none is."""
        if self.answer is not None:
            return find_latest_look(len(self.values))
        return forecast_look(self.values, lambda interval: self._place(interval) is not None, self.comparisons)

    def chance_at(self, look: int) -> float:
        """Return how likely the interval of a later look lies in a region, by the values so far.

        The later mean, given these, is t-distributed about theirs, with variance s² (1/n - 1/N): the predictive distribution of
        a normal sample without prior knowledge (S. Geisser, Predictive Inference (1993), 2.2). The interval's width is taken
        from s, or from its lower limit if that makes a decision likelier.
        """
        from scipy import special

        degrees = len(self.values) - 1
        lower = math.sqrt(degrees / float(special.chdtri(degrees, 1 - DEVIATION_CONFIDENCE)))
        deviation = stdev(self.values)
        return max(self._chance(look, deviation * share) for share in (1.0, lower))

    def count_fixed(self) -> int | None:
        """Return of how many rounds, fixed beforehand, Student's interval would decide if they vary as these do."""
        return count_needed(self.values, lambda interval: self._place(interval) is not None, LEAST_PAIRS, 2, self.comparisons)

    def _place(self, interval: Interval) -> int | None:
        wide = widen_logs(interval, self.slack)
        return next((number for number, (low, high) in enumerate(self.regions) if low <= wide.low and wide.high <= high), None)

    def _chance(self, look: int, deviation: float) -> float:
        """Return the chance that the mean at a look leaves room for its interval of this `deviation` in one of the regions."""
        from scipy import special

        count, half_width = len(self.values), critical_values(self.comparisons)[look] * deviation / math.sqrt(look)
        centre, scale = fmean(self.values), stdev(self.values) * math.sqrt(1 / count - 1 / look)
        if scale == 0:
            return float(self._place(Interval(centre - half_width, centre + half_width)) is not None)
        rooms = [(low + half_width + self.slack[0], high - half_width - self.slack[1]) for low, high in self.regions]
        ends = [
            [float(special.stdtr(count - 1, (end - centre) / scale)) for end in room] for room in rooms if room[0] < room[1]
        ]
        return sum(above - below for below, above in ends)


POWER = 0.90  # of the measurements find a difference that is there
DIFFERENCES = (0.02, 0.05, 0.10)  # that one may want to find, as fractions
_LIMIT = 0.80  # what is known of the noise: that it is below its upper limit of this confidence
_MOST_ROUNDS = 1000


@dataclass(frozen=True)
class Noise:
    """How much the log ratios of pairs of runs vary inside experiments."""

    deviation: float  # sample standard deviation about each experiment's own mean
    degrees: int  # pairs less experiments

    @property
    def limit(self) -> float:
        """Return the upper 80 % limit of the deviation, of normal noise.

        s √(ν / χ²), χ² being the 20 % quantile at ν degrees of freedom. Source: NIST/SEMATECH e-Handbook of Statistical
        Methods, 1.3.5.8 (confidence interval for the standard deviation), one-sided.
        """
        from scipy import special  # here, as below: who reads the workflow need not wait for it

        return self.deviation * math.sqrt(self.degrees / float(special.chdtri(self.degrees, _LIMIT)))


def pool_noise(experiments: Sequence[Sequence[float]]) -> Noise | None:
    """Return the noise of the log ratios of each experiment's pairs; None where no experiment has two pairs."""
    several = [logs for logs in experiments if len(logs) > 1]
    degrees = sum(len(logs) - 1 for logs in several)
    if not degrees:
        return None
    squares = sum((value - fmean(logs)) ** 2 for logs in several for value in logs)
    return Noise(math.sqrt(squares / degrees), degrees)


def find_power(rounds: int, difference: float, deviation: float, comparisons: int = 1) -> float:
    """Return how often Student's interval of so many pairs shows that one variant takes `difference` (a fraction) longer.

    Of a noncentral t with rounds - 1 degrees of freedom and √rounds · log(1 + difference) / deviation. Source: J. Cohen,
    Statistical Power Analysis for the Behavioral Sciences, 2nd edition (1988), 2.3.5 (paired t test).
    """
    from scipy import special

    degrees, shift = rounds - 1, math.sqrt(rounds) * math.log1p(difference) / deviation
    edge = student_quantile(degrees, comparisons)
    return 1 - float(special.nctdtr(degrees, shift, edge))


def count_rounds(difference: float, deviation: float, comparisons: int = 1) -> int | None:
    """Return the least even number of rounds, four or more, that finds a difference often enough; None beyond a thousand."""
    from scipy import special

    if deviation <= 0:
        return LEAST_PAIRS
    # The normal quantiles' number is never too large: from there up.
    least = (special.ndtri(1 - (1 - CONFIDENCE) / comparisons / 2) + special.ndtri(POWER)) ** 2 * (
        deviation / math.log1p(difference)
    ) ** 2
    if least > _MOST_ROUNDS:
        return None
    start = max(LEAST_PAIRS, math.floor(least) // 2 * 2)
    counts = range(start, _MOST_ROUNDS + 1, 2)
    return next((count for count in counts if find_power(count, difference, deviation, comparisons) >= POWER), None)
