"""The few ratios that a reader wants first, and what is known of each: shown, equivalent, inconclusive, withheld."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from speedproof.results.claim_results import ClaimResult, DocumentedRatio
from speedproof.results.comparison import Comparison, ContainerCost, NoiseFloor, Ratio, Scaling
from speedproof.stats.estimates import LEAST_PAIRS
from speedproof.stats.metrics import METRICS, TRAINING_EPOCH, list_headlines

MainRow = Ratio | ContainerCost | Scaling | NoiseFloor
State = Literal["shown", "equivalent", "inconclusive", "withheld", "contested", "no verdict", "one pair"]

_MOST = 5
_DECIDED: tuple[State, ...] = ("shown", "equivalent", "inconclusive", "withheld", "contested")


@dataclass(frozen=True)
class MainRatio:
    """A ratio, what is known of it, the documented numbers that it is held against, and the same ratio in other experiments."""

    row: MainRow
    state: State
    claims: list[ClaimResult] = field(default_factory=list)
    others: list[MainRow] = field(default_factory=list)
    keeps_direction: bool = False  # what is documented, or asked of two commands, is not turned round

    @cached_property
    def turned(self) -> bool:
        """Return whether it is read the other way round, so that it says how many times as fast the faster variant is."""
        return isinstance(self.row, Ratio) and self.row.centre < 1 and not self.keeps_direction

    @property
    def interval(self) -> tuple[float, float | None, float | None]:
        """Return the ratio and the ends of its interval, as it is read."""
        return orient(self.row, self.turned)

    @property
    def variants(self) -> tuple[str, str]:
        """Return the names of the variant that the ratio is of, the faster one where it is above 1, and of the other."""
        if not isinstance(self.row, Ratio):
            raise TypeError("no ratio of two variants")
        first, second = self.row.reference, self.row.candidate
        return (second, first) if METRICS[self.row.metric].lower_is_better != self.turned else (first, second)


def orient(row: MainRow, turned: bool = False) -> tuple[float, float | None, float | None]:
    """Return a row's ratio and the ends of its interval; where it is `turned`, the reciprocals."""
    centre = row.efficiency if isinstance(row, Scaling) else row.centre
    if not turned:
        return centre, row.low, row.high
    low, high = (None if end is None else 1 / end for end in (row.high, row.low))
    return 1 / centre, low, high


def list_headline_ratios(comparison: Comparison) -> list[Ratio]:
    """Return the timed ratios of the main metrics; of the times to a quality those to the highest that both variants reach.

    Of two variants that are compared both ways round, as experiments merged of different ones may, the first way counts.
    """
    timed = [ratio for ratio in comparison.ratios if ratio.mode == "timed"]
    tiers = ([ratio for ratio in timed if ratio.metric in tier] for tier in list_headlines())
    timed = next(filter(None, tiers), [])
    first: dict[frozenset[str], tuple[str, str]] = {}
    timed = [
        ratio for ratio in timed if first.setdefault(frozenset(variants_of(ratio)), variants_of(ratio)) == variants_of(ratio)
    ]
    # Targets come from the easiest to the hardest.
    highest = {variants_of(ratio): ratio.target for ratio in timed if ratio.target is not None}
    return [ratio for ratio in timed if ratio.target in (None, highest.get(variants_of(ratio)))]


def variants_of(ratio: Ratio | DocumentedRatio) -> tuple[str, str]:
    """Return the names of a ratio's variants, the reference first."""
    return ratio.reference, ratio.candidate


def find_main_ratios(comparison: Comparison, most: int = _MOST) -> list[MainRatio]:
    """Return the ratios to be read first, the main one at the front: times, of these what is decided, and of that what has
    a documented number.

    Of a ratio that several experiments have, which do not speak together, the one of most pairs stands for it, with the others.
    """
    documented: dict[tuple[object, ...], list[ClaimResult]] = {}
    for claim in comparison.claims:
        if claim.ratio:
            documented.setdefault(_key(claim.ratio), []).append(claim)
    of_claims = [ratio for ratio in comparison.ratios if _key(ratio) in documented]
    found = _group([*of_claims, *(ratio for ratio in list_headline_ratios(comparison) if _key(ratio) not in documented)])
    named = {variants_of(claim.ratio) for claim in comparison.claims if claim.ratio}
    found = [
        MainRatio(
            one.row,
            one.state,
            documented.get(_key(one.row), []),
            one.others,
            comparison.of_proof or variants_of(one.row) in named,
        )
        for one in found
        if isinstance(one.row, Ratio)
    ]
    found += _group(cost for cost in comparison.container if cost.metric == TRAINING_EPOCH)
    if not found:
        found = _group(comparison.scaling)
    return sorted(found, key=_rank)[:most]


def find_noise(comparison: Comparison, metric: str) -> NoiseFloor | None:
    """Return how far the first variant differs from itself by a metric, of most pairs; None where no control ran."""
    return max((row for row in comparison.noise_floor if row.metric == metric), key=lambda row: row.pairs, default=None)


def judge_row(row: MainRow) -> State:
    """Return what is known of a ratio, by what was judged of it."""
    if row.low is None or row.high is None:
        return "one pair" if row.pairs == 1 else "no verdict"
    if isinstance(row, Ratio) and row.contested:
        return "contested"
    if isinstance(row, Ratio) and row.withheld:
        return "withheld"
    if isinstance(row, Scaling | NoiseFloor):
        if row.low <= 1 <= row.high:
            return "inconclusive"
        return "shown" if row.pairs >= LEAST_PAIRS else "no verdict"
    match row.outcome:
        case "faster" | "slower":
            return "shown"
        case "inconclusive":
            return "inconclusive"
        case _:
            return row.outcome


def _group(rows: Iterable[MainRow]) -> list[MainRatio]:
    groups: dict[tuple[object, ...], list[MainRow]] = {}
    for row in rows:
        groups.setdefault(_key(row), []).append(row)
    ordered = [sorted(group, key=lambda row: -row.pairs) for group in groups.values()]
    return [MainRatio(first, judge_row(first), others=others) for first, *others in ordered]


def _key(row: object) -> tuple[object, ...]:
    names = ("variant", "reference", "candidate", "smaller", "larger", "mode", "metric", "target")
    return tuple(getattr(row, name, None) for name in names)


def is_of_times(row: MainRow) -> bool:
    """Return whether a ratio is of times or rates."""
    return not isinstance(row, Ratio) or METRICS[row.metric].unit in ("s", "/s")


def _rank(one: MainRatio) -> tuple[bool, int, bool, int, float]:
    decided = 0 if one.state in _DECIDED else 1 + (one.state == "one pair")
    metric = getattr(one.row, "metric", "")
    first = list_headlines()[0]
    place = first.index(metric) if metric in first else len(first)
    return not is_of_times(one.row), decided, not one.claims, place, -abs(math.log(orient(one.row)[0]))
