"""Whether a ratio depends on the order of the runs: what ran before a run, and a trend over the rounds.

In rounds of two variants, each follows the other more often than itself, in whatever order. So a variant that profits from what
the other leaves has a gain that no order balances; it is found by comparing its runs after the other with those after its own.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from speedproof.results.objections import Objection
from speedproof.stats.estimates import bounded_exp, one_sided_quantile
from speedproof.stats.order_profit import LEAST_ROUNDS, estimate_profit, order_round

if TYPE_CHECKING:
    from speedproof.stats.ratio_checks import Examined

# On either side. Without drift, at most 0.1 % of simulated variants are named; of autocorrelated ones and of steps, 4 %.
_TREND_CONFIDENCE = 0.9995


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
    names = examined.variants
    places = [(one.place, other.place) for one, other in examined.pairs]
    if examined.gains:
        names, places = names[::-1], [pair[::-1] for pair in places]
    profit = estimate_profit([order_round(names, *of_round) for of_round in zip(places, gains, strict=True)])
    if profit is None or not profit.significant:
        return []
    values = {"after_own": bounded_exp(profit.own), "after_other": bounded_exp(profit.own + profit.more)}
    return [Objection(kind="order", variant=names[0], blocks=profit.is_most, values=values)]


def _check_trend(examined: "Examined") -> list[Objection]:
    """Name the variants whose values rise or fall from the first round to the last by more than two equal variants differ."""
    changes = {}
    for variant, values in zip(examined.variants, zip(*examined.values, strict=True), strict=True):
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
