"""Between which commits the speed changed: a posterior over them, from noisy runs of a few.

If commit k changed the speed, all runs before it share one level, and all from it on another. For each k, the model is
linear: log cost = level + change · (0 before k, 1 from it on) + round + noise. Level, change and noise are unknown and have
flat priors. A round's runs share an effect, so that a machine that drifts does not look like a change. Sources: A. F. M. Smith,
Biometrika 62 (1975) 407-416 (the posterior); R. Waeber, P. I. Frazier, S. G. Henderson, SIAM Journal on Control and
Optimization 51 (2013) 2261-2279 (to measure where it halves).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from statistics import median

import numpy as np
from numpy.typing import NDArray

from speedproof.stats.estimates import Estimate, Interval, two_sided_quantile

# How much rounds may vary, as a multiple of the noise's variance; each is as likely as the others.
_ROUND_VARIANCES = (0.0, 0.25, 1.0, 4.0, 100.0)
# If two commits changed the speed: the share of the first. A share beyond 0 to 1 is undone in part by the other.
_SHARES = (-1.0, -0.5, 0.25, 0.5, 0.75, 1.5, 2.0)
_PRIOR_OF_SEVERAL = 0.1
_DEVIATIONS = 3.0  # beyond an end's level, a run counts as if it were this far away
_NORMAL_MAD = 1.4826  # by which a median absolute deviation is multiplied to be normal noise's standard deviation
_Values = NDArray[np.float64]


@dataclass(frozen=True)
class CommitRun:
    """One run: of which commit, by its place in the history, in which round, and the logarithm of its cost."""

    place: int
    round: int
    log_cost: float


def limit_outliers(runs: Sequence[CommitRun]) -> list[CommitRun]:
    """Return runs of which none lies further beyond both ends' levels than noise would.

    The ends' medians are the levels; the noise is their runs' median absolute deviation. A run that another program slowed
    would else outweigh many others.
    """
    first, last = (min(run.place for run in runs), max(run.place for run in runs))
    ends = [[run.log_cost for run in runs if run.place == place] for place in (first, last)]
    levels = [median(costs) for costs in ends]
    deviations = [abs(cost - level) for costs, level in zip(ends, levels, strict=True) for cost in costs]
    room = _DEVIATIONS * _NORMAL_MAD * median(deviations)
    low, high = min(levels) - room, max(levels) + room
    return [replace(run, log_cost=min(max(run.log_cost, low), high)) for run in runs]


@dataclass(frozen=True)
class ChangePosterior:
    """How likely each commit is the one that changed the speed, and how likely it is that several did."""

    by_place: dict[int, float]  # of usable commits but the first, if one commit changed it; they sum to 1
    several: float

    @property
    def likeliest(self) -> int:
        return max(self.by_place, key=lambda place: self.by_place[place])

    def chance_until(self, place: int) -> float:
        """Return how likely it is that the change is at this commit or before, if one commit made it."""
        return math.fsum(chance for other, chance in self.by_place.items() if other <= place)


def find_posterior(runs: Sequence[CommitRun], usable: Sequence[int]) -> ChangePosterior:
    """Return the posterior by runs of some of the `usable` commits, the first and the last of which have run."""
    measured = sorted({run.place for run in runs})
    # Commits between two measured ones explain the runs equally well.
    gaps = [[place for place in usable if low < place <= high] for low, high in pairwise(measured)]
    places = np.array([run.place for run in runs])
    steps = np.array([places >= high for high in measured[1:]], dtype=float)
    single = _log_evidence(runs, steps).sum_of_variances() + np.log([len(gap) for gap in gaps]) - math.log(len(usable) - 1)
    total = float(np.logaddexp.reduce(single))
    chances = np.exp(single - total)
    by_place = {place: float(chance) / len(gap) for gap, chance in zip(gaps, chances, strict=True) for place in gap}
    return ChangePosterior(by_place, _chance_of_several(runs, steps, [len(gap) for gap in gaps], total))


def _chance_of_several(runs: Sequence[CommitRun], steps: _Values, sizes: Sequence[int], single: float) -> float:
    """Return how likely two commits changed the speed, given the logarithm of the evidence for a `single` one."""
    pairs = list(combinations(range(len(steps)), 2))
    if not pairs:
        return 0.0
    profiles = np.array([share * steps[one] + (1 - share) * steps[two] for one, two in pairs for share in _SHARES])
    weights = np.array([sizes[one] * sizes[two] for one, two in pairs for _ in _SHARES], dtype=float)
    found = _log_evidence(runs, profiles).sum_of_variances() + np.log(weights / weights.sum())
    several = float(np.logaddexp.reduce(found)) + math.log(_PRIOR_OF_SEVERAL)
    return math.exp(several - float(np.logaddexp(several, single + math.log1p(-_PRIOR_OF_SEVERAL))))


@dataclass(frozen=True)
class _Evidence:
    """The logarithm of how likely the runs are, by variance of rounds and profile, of shape (variances, profiles)."""

    logs: _Values

    def sum_of_variances(self) -> _Values:
        return np.asarray(np.logaddexp.reduce(self.logs, axis=0))


def _log_evidence(runs: Sequence[CommitRun], profiles: _Values) -> _Evidence:
    return _Evidence(np.array([_fit(runs, profiles, variance)[0] for variance in _ROUND_VARIANCES]))


def _fit(runs: Sequence[CommitRun], profiles: _Values, variance: float) -> tuple[_Values, _Values, _Values]:
    """Return the log evidence of each profile, its estimated change, and the variance of that.

    Subtracting a share of its round's mean from each value makes the noise independent (generalized least squares of a random
    effect: W. A. Fuller, G. E. Battese, Journal of the American Statistical Association 68 (1973) 626-632).
    """
    _, rounds, sizes = np.unique([run.round for run in runs], return_inverse=True, return_counts=True)
    shares = 1 - 1 / np.sqrt(1 + sizes * variance)

    def transform(values: _Values) -> _Values:
        means = np.array([np.bincount(rounds, row) for row in np.atleast_2d(values)]) / sizes
        return np.asarray(np.atleast_2d(values) - (shares * means)[:, rounds])

    (costs,) = transform(np.array([run.log_cost for run in runs]) - np.mean([run.log_cost for run in runs]))
    (ones,) = transform(np.ones(len(runs)))
    moved = transform(profiles)
    ones_squared, cross, squared = ones @ ones, moved @ ones, (moved**2).sum(axis=1)
    determinant = np.maximum(ones_squared * squared - cross**2, 1e-300)
    with_ones, with_moved = ones @ costs, moved @ costs
    change = (ones_squared * with_moved - cross * with_ones) / determinant
    level = (with_ones - cross * change) / ones_squared
    residual = ((costs - level[:, None] * ones - change[:, None] * moved) ** 2).sum(axis=1)
    residual = np.maximum(residual, 1e-18 * len(runs))
    degrees = len(runs) - 2
    log = -0.5 * (np.log1p(sizes * variance).sum() + np.log(determinant) + degrees * np.log(residual))
    return log, change, residual / max(1, degrees) * ones_squared / determinant


def estimate_step(runs: Sequence[CommitRun], place: int) -> Estimate:
    """Return by how much the log cost changes at a commit, with its 95 % interval; None of fewer than four runs.

    The variance of rounds is the one that explains the runs best.
    """
    profile = np.array([[run.place >= place for run in runs]], dtype=float)
    fits = [_fit(runs, profile, variance) for variance in _ROUND_VARIANCES]
    best = max(range(len(fits)), key=lambda number: float(fits[number][0][0]))
    change, variance = float(fits[best][1][0]), float(fits[best][2][0])
    rounds = len({run.round for run in runs}) if best else 1
    degrees = len(runs) - rounds - 1
    if len(runs) < 4 or degrees < 1:
        return Estimate(change, None)
    half_width = two_sided_quantile(degrees, 0.05) * math.sqrt(variance)
    return Estimate(change, Interval(change - half_width, change + half_width))
