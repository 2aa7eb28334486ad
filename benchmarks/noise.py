"""Kinds of noise that a machine may add to the times of runs, for the simulations of proofs."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NOISE = 0.02  # relative deviation of a run's time
QUIET = 0.01  # the same beside a disturbance
SLOWER = 0.05  # what a disturbance adds

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]
Noise = Callable[[np.random.Generator, Bools], Array]  # of orders, the log times; see Kind


@dataclass(frozen=True)
class Kind:
    """A kind of noise: the logs of run times, by proof and run, if the two variants are equal.

    It is given the orders: whether a run is one of the candidate. If it `favours`, one variant may profit from what ran before.
    Few false claims are promised only of what is `promised`.
    """

    name: str
    noise: Noise
    favours: bool = False
    promised: bool = True


def normal(rng: np.random.Generator, candidate: Bools, deviation: float = NOISE) -> Array:
    """Return normal deviations."""
    return deviation * rng.standard_normal(candidate.shape)


def heavy_tailed(rng: np.random.Generator, candidate: Bools) -> Array:
    """Return Student's t with three degrees of freedom, of the same deviation."""
    return NOISE / math.sqrt(3) * rng.standard_t(3, candidate.shape)


def in_bursts(rng: np.random.Generator, candidate: Bools) -> Array:
    """Return normal deviations; one run in twenty begins three that take 5 to 30 % longer."""
    begins = rng.random(candidate.shape) < 0.05
    slowdown = np.where(begins, np.log1p(rng.uniform(0.05, 0.30, candidate.shape)), 0.0)
    later = [np.pad(slowdown, ((0, 0), (lag, 0)))[:, : candidate.shape[1]] for lag in (0, 1, 2)]
    return normal(rng, candidate) + np.maximum.reduce(later)


def autocorrelated(rng: np.random.Generator, candidate: Bools) -> Array:
    """Return an autoregression of first order with a correlation of 0.7."""
    steps, values = normal(rng, candidate), np.empty(candidate.shape)
    values[:, 0] = steps[:, 0]
    for run in range(1, candidate.shape[1]):
        values[:, run] = 0.7 * values[:, run - 1] + math.sqrt(1 - 0.7**2) * steps[:, run]
    return values


def drifting(rng: np.random.Generator, candidate: Bools) -> Array:
    """Return normal deviations and a drift of 20 % from the first run to the last."""
    return normal(rng, candidate, QUIET) + math.log1p(0.2) * np.linspace(0, 1, candidate.shape[1])


def in_steps(rng: np.random.Generator, candidate: Bools) -> Array:
    """Return two speeds, 10 % apart, between which the machine changes after six runs on average."""
    changes = np.cumsum(rng.random(candidate.shape) < 1 / 6, axis=1) + rng.integers(0, 2, (len(candidate), 1))
    return normal(rng, candidate, QUIET) + math.log1p(0.1) * (changes % 2)


def slow_first(rng: np.random.Generator, candidate: Bools) -> Array:
    """Return a first run that takes 20 % longer, and others that take less and less of that."""
    return normal(rng, candidate, QUIET) + math.log1p(0.2) * np.exp(-np.arange(candidate.shape[1]) / 2)


def rounded(rng: np.random.Generator, candidate: Bools) -> Array:
    """Return normal deviations of times that are printed with two digits: 1.00 s to a hundredth."""
    return np.log(np.round(np.exp(normal(rng, candidate, QUIET)), 2))


def slow_every(period: int) -> Noise:
    """Return the noise of a machine on which every so many runs, from a random one on, one is slower."""

    def noise(rng: np.random.Generator, candidate: Bools) -> Array:
        slow = (np.arange(candidate.shape[1]) + rng.integers(0, period, (len(candidate), 1))) % period == 0
        return normal(rng, candidate, QUIET) + math.log1p(SLOWER) * slow

    return noise


def carried_over(applies: Callable[[Bools, Bools], Bools]) -> Noise:
    """Return the noise of runs that are faster if the variant of a run and that of the run before it `apply`."""

    def noise(rng: np.random.Generator, candidate: Bools) -> Array:
        faster = np.zeros(candidate.shape, bool)
        faster[:, 1:] = applies(candidate[:, :-1], candidate[:, 1:])
        return normal(rng, candidate, QUIET) - math.log1p(SLOWER) * faster

    return noise


def faster_up_to_two_later(rng: np.random.Generator, candidate: Bools) -> Array:
    """Return the noise of a candidate that is faster if the reference ran in one of the last two runs."""
    faster = np.zeros(candidate.shape, bool)
    faster[:, 1:] = candidate[:, 1:] & ~candidate[:, :-1]
    faster[:, 2:] |= candidate[:, 2:] & ~candidate[:, :-2]
    return normal(rng, candidate, QUIET) - math.log1p(SLOWER) * faster


def slow_pairs(rng: np.random.Generator, candidate: Bools) -> Array:
    """Return the noise of a machine that is slow for two runs and fast for two, from a random one on."""
    slow = (np.arange(candidate.shape[1]) + rng.integers(0, 4, (len(candidate), 1))) % 4 < 2
    return normal(rng, candidate, QUIET) + math.log1p(SLOWER) * slow


KINDS = (
    Kind("normal", normal),
    Kind("heavy tails", heavy_tailed),
    Kind("bursts", in_bursts),
    Kind("autocorrelated", autocorrelated),
    Kind("drift", drifting),
    Kind("steps", in_steps),
    Kind("slow first runs", slow_first),
    Kind("rounded", rounded),
    *(Kind(f"slow every {period} runs", slow_every(period)) for period in range(2, 9)),
    Kind("faster after the same variant", carried_over(lambda before, now: before == now)),
    Kind("faster after the other variant", carried_over(lambda before, now: before != now)),
    Kind("faster after the reference", carried_over(lambda before, now: ~before), favours=True, promised=False),
    Kind("candidate faster after the reference", carried_over(lambda before, now: ~before & now), favours=True, promised=False),
    Kind("candidate faster up to two runs after the reference", faster_up_to_two_later, favours=True, promised=False),
    Kind("two runs of four slow", slow_pairs, promised=False),
)  # fmt: skip
