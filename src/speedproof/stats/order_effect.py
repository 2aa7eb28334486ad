"""Whether a ratio depends on the order of the runs: what ran before a run, and a trend over the rounds.

In rounds of two variants, each follows the other more often than itself, in whatever order. So a variant that profits from what
the other leaves has a gain that no order balances; it is found by comparing its runs after the other with those after its own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from speedproof.results.experiment import RunPlace
from speedproof.results.objections import Objection
from speedproof.stats.estimates import bounded_exp, one_sided_quantile
from speedproof.stats.metrics import METRICS

if TYPE_CHECKING:
    from speedproof.stats.ratio_checks import Examined

LEAST_ROUNDS = 8  # four terms are estimated, and a few rounds have to remain for the noise
# One-sided. Over 17 kinds of noise, 0.0 to 2.5 % of simulated proofs are contested if honest variants differ by 4 %, and at
# most 0.2 % if they are equal; of gains that rest on the order, 80 % are found (benchmarks/simulate_orders.py).
_CONFIDENCE = 0.99
# Of a gain, what has to remain without following the other. Of honest programs some gain by the other's warm caches, too.
_SHARE = 0.5
# On either side. Without drift, at most 0.1 % of simulated variants are named; of autocorrelated ones and of steps, 4 %.
_TREND_CONFIDENCE = 0.9995


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


def check_order(examined: "Examined") -> list[Objection]:
    """Object if the faster variant is faster because it runs after the other; name variants whose runs have a trend."""
    if len(examined.pairs) < LEAST_ROUNDS or any(run.run.observed is None for pair in examined.pairs for run in pair):
        return []
    return [*_check_profit(examined), *_check_trend(examined)]


def _check_profit(examined: "Examined") -> list[Objection]:
    if examined.outcome not in ("faster", "slower"):
        return []
    sign = 1.0 if examined.centre > 1 else -1.0
    gains = [sign * math.log(reference / candidate) for reference, candidate in examined.values]
    names = (examined.reference, examined.candidate)
    places = [(one.place, other.place) for one, other in examined.pairs]
    if (examined.centre > 1) == METRICS[examined.metric].lower_is_better:  # the candidate is the better one
        names, places = names[::-1], [pair[::-1] for pair in places]
    profit = estimate_profit([order_round(names, *of_round) for of_round in zip(places, gains, strict=True)])
    if profit is None or not profit.significant:
        return []
    values = {"after_own": bounded_exp(profit.own), "after_other": bounded_exp(profit.own + profit.more)}
    return [Objection(kind="order", variant=names[0], blocks=profit.is_most, values=values)]


def order_round(names: tuple[str, str], places: tuple[RunPlace, RunPlace], gain: float) -> OrderedRound:
    """Return a round of two variants by the places of their runs; `gain` is that of the first one."""
    own, other = places
    return OrderedRound(
        gain=gain,
        first=own.number < other.number,
        after_other=own.follows == names[1],
        other_after=other.follows == names[0],
    )


def _check_trend(examined: "Examined") -> list[Objection]:
    """Name the variants whose values rise or fall from the first round to the last by more than two equal variants differ."""
    changes = {}
    for variant, values in zip((examined.reference, examined.candidate), zip(*examined.values, strict=True), strict=True):
        change = find_trend([math.log(value) for value in values])
        if abs(change) > math.log1p(examined.equivalence_margin):
            changes[variant] = change
    if not changes:
        return []
    both = len(changes) == 2 and math.prod(changes.values()) > 0
    found = {None: sum(changes.values()) / 2} if both else changes
    return [
        Objection(kind="trend", variant=variant, blocks=False, values={"change": math.expm1(change)})
        for variant, change in found.items()
    ]


def find_trend(values: Sequence[float]) -> float:
    """Return by how much a line through the values rises from the first to the last; 0 if that is not significant."""
    places = np.arange(len(values)) - (len(values) - 1) / 2
    own = np.array(values)
    spread = float(places @ places)
    slope = float(places @ own) / spread
    rest = own - own.mean() - slope * places
    degrees = len(values) - 2
    error = math.sqrt(float(rest @ rest) / degrees / spread)
    return slope * (len(values) - 1) if abs(slope) > one_sided_quantile(degrees, _TREND_CONFIDENCE) * error else 0.0
