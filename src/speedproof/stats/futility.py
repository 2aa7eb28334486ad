"""What rounds are to decide of two variants, and whether those that are left plausibly do."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from speedproof.stats.estimates import LEAST_PAIRS, Interval, Slack, widen_logs
from speedproof.stats.outcomes import count_needed
from speedproof.stats.sequential import Design, critical_values

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
