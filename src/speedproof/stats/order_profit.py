"""What a variant gains by running after the other one, estimated from the order of the runs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from speedproof.results.experiment import RunPlace
from speedproof.stats.estimates import one_sided_quantile

LEAST_ROUNDS = 8  # four terms are estimated, and a few rounds have to remain for the noise
# One-sided. Over 17 kinds of noise, 0.0 to 2.6 % of simulated proofs are contested if honest variants differ by 4 %, and at
# most 0.2 % if they are equal; of gains that rest on the order, 80 % are found (benchmarks/simulate_orders.py).
_CONFIDENCE = 0.99
# Of a gain, what has to remain without following the other. Of honest programs some gain by the other's warm caches, too.
_SHARE = 0.5


@dataclass(frozen=True)
class OrderedRound:
    """A round's log ratio, in favour of one variant, and what the order of its runs was."""

    gain: float
    first: bool  # whether the favoured variant came first
    after_other: bool  # whether the favoured variant's run followed one of the other
    other_after: bool  # whether the other's run followed one of the favoured variant


@dataclass(frozen=True)
class Profit:
    """What a variant gains if no run follows one of the other, and what it gains besides if each does; of log ratios."""

    own: float
    more: float
    significant: bool

    @property
    def is_most(self) -> bool:
        """Return whether most of the gain is one of runs that follow the other variant."""
        return self.own < _SHARE * (self.own + self.more)


def estimate_profit(rounds: Sequence[OrderedRound]) -> Profit | None:
    """Return what the favoured variant gains by following the other; None if these rounds cannot tell.

    A log ratio is a gain, plus or minus the effect of the place in the round, plus what following the other adds for each of
    the two variants: least squares of four terms, and a one-sided t test of the sum of the last two.
    """
    if len(rounds) < LEAST_ROUNDS:
        return None
    terms = np.array([(1.0, 1.0 if one.first else -1.0, one.after_other, one.other_after) for one in rounds])
    gains = np.array([one.gain for one in rounds])
    if np.linalg.matrix_rank(terms) < terms.shape[1]:
        return None
    inverse = np.linalg.inv(terms.T @ terms)
    found = inverse @ terms.T @ gains
    degrees = len(rounds) - terms.shape[1]
    variance = float(np.sum((gains - terms @ found) ** 2)) / degrees
    asked = np.array([0.0, 0.0, 1.0, 1.0])
    more, error = float(asked @ found), math.sqrt(variance * float(asked @ inverse @ asked))
    return Profit(float(found[0]), more, more > one_sided_quantile(degrees, _CONFIDENCE) * error)


def order_round(names: tuple[str, str], places: tuple[RunPlace, RunPlace], gain: float) -> OrderedRound:
    """Return a round of two variants by the places of their runs; `gain` is that of the first one."""
    own, other = places
    return OrderedRound(
        gain=gain,
        first=own.number < other.number,
        after_other=own.follows == names[1],
        other_after=other.follows == names[0],
    )
