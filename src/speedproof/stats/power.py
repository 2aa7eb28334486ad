"""How many rounds find a difference of a size, by how much pairs of runs vary: for a plan, before anything runs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from speedproof.stats.estimates import CONFIDENCE, LEAST_PAIRS, student_quantile

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
