"""The ratios that a reader wants first: the main ones, those of headlines, and their companions."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from speedproof.results.asked import Asked
from speedproof.results.comparison import Comparison, ContainerCost, NoiseFloor, Ratio, Scaling
from speedproof.results.comparison_rows import ClaimResult, DocumentedRatio
from speedproof.stats.finding import RatioFinding, Reader, State
from speedproof.stats.metrics import TRAINING_EPOCH, list_headlines

_MOST = 5
_MainRow = Ratio | ContainerCost | Scaling | NoiseFloor
_Row = TypeVar("_Row", Ratio, ContainerCost, Scaling)


@dataclass(frozen=True)
class Answer:
    """What a comparison says first: its main findings, or why there is none."""

    mains: Sequence[RatioFinding]
    noise: RatioFinding | None = None  # how far a variant differs from itself by the main metric, of most pairs
    alone: ClaimResult | None = None  # the documented number to show if no two variants could be compared
    differences: Sequence[str] = ()  # for which variants could not be compared

    @property
    def documented(self) -> RatioFinding | None:
        """Return the first finding of the main one's variants that has documented numbers, in any mode."""
        if not self.mains or self.mains[0].kind != "ratio":
            return None
        variants = _names_of(self.mains[0])
        return next((one for one in self.mains if one.documented and _names_of(one) == variants), None)


def find_answer(comparison: Comparison, asked: Asked | None = None) -> Answer:
    """Return what a comparison says first, if a proof of what it was `asked`."""
    reader = Reader(comparison, asked)
    mains = _find_mains(reader)
    why = dict.fromkeys(what for one in comparison.incomparable if one.mode == "timed" for what in one.differences)
    measured = [claim for claim in list_judged(comparison) if claim.measured is not None]
    alone = min(measured, key=lambda claim: claim.verdict == "inconclusive", default=None)
    floors = [row for row in comparison.noise_floor if mains and row.metric == mains[0].metric]
    floors.sort(key=lambda row: -row.pairs)
    noise = _read_group(reader, floors[0], floors[1:]) if floors else None
    return Answer(mains, noise, None if mains else alone, list(why))


def list_speedups(comparison: Comparison, asked: Asked | None = None) -> list[RatioFinding]:
    """Return the headline metrics of each two variants: the faster one's speedup; of a proof the candidate's."""
    reader = Reader(comparison)
    ratios = list_headline_ratios(comparison, asked)
    return [reader.read(ratio, turned=asked is None and ratio.centre < 1) for ratio in ratios]


def group_speedups(comparison: Comparison) -> list[list[RatioFinding]]:
    """Return the same of each two variants together, all of the variant that is the faster by the first metric."""
    groups: dict[tuple[tuple[str, str], str | None], list[Ratio]] = {}
    for ratio in list_headline_ratios(comparison):
        groups.setdefault((variants_of(ratio), ratio.experiment), []).append(ratio)
    reader = Reader(comparison)
    return [[reader.read(ratio, turned=own[0].centre < 1) for ratio in own] for own in groups.values()]


def list_judged(comparison: Comparison) -> list[ClaimResult]:
    """Return the documented numbers with an outcome: most were measured; a quality may never have been reached."""
    return [claim for claim in comparison.claims if claim.verdict not in ("not measured", "not comparable")]


def list_headline_ratios(comparison: Comparison, asked: Asked | None = None) -> list[Ratio]:
    """Return the timed ratios of the main metrics; of the times to a quality those to the highest that both variants reach.

    The metric by which a proof was `asked` to compare comes first.
    Of two variants that are compared both ways round, as experiments merged of different ones may, the first way counts.
    """
    timed = [ratio for ratio in comparison.ratios if ratio.mode == "timed"]
    tiers = ([ratio for ratio in timed if ratio.metric in tier] for tier in list_headlines())
    main = next(filter(None, tiers), [])
    if asked is not None:
        main = [
            *(ratio for ratio in timed if ratio.metric == asked.metric),
            *(ratio for ratio in main if ratio.metric != asked.metric),
        ]
    first: dict[frozenset[str], tuple[str, str]] = {}
    main = [
        ratio for ratio in main if first.setdefault(frozenset(variants_of(ratio)), variants_of(ratio)) == variants_of(ratio)
    ]
    # Targets come from the easiest to the hardest.
    highest = {variants_of(ratio): ratio.target for ratio in main if ratio.target is not None}
    return [ratio for ratio in main if ratio.target in (None, highest.get(variants_of(ratio)))]


def variants_of(ratio: Ratio | DocumentedRatio) -> tuple[str, str]:
    """Return the names of a ratio's variants, the reference first."""
    return ratio.reference, ratio.candidate


def _find_mains(reader: Reader) -> list[RatioFinding]:
    """Return the most important ratios, the main one first.

    What a proof was asked comes first. Times come before other metrics, then ratios with enough pairs, then those with a
    documented number. Epochs of unequal work come after equal work and times to a quality. If several experiments measured a
    ratio, the one with most pairs stands for it, and the others are listed with it.
    """
    comparison = reader.comparison
    documented: dict[tuple[object, ...], list[ClaimResult]] = {}
    for claim in comparison.claims:
        if claim.ratio:
            documented.setdefault(_key(claim.ratio), []).append(claim)
    of_claims = [ratio for ratio in comparison.ratios if _key(ratio) in documented]
    ratios = [*of_claims, *(ratio for ratio in list_headline_ratios(comparison, reader.asked) if _key(ratio) not in documented)]
    named = {variants_of(claim.ratio) for claim in comparison.claims if claim.ratio}
    found = []
    for first, others in _group(ratios):
        # What is documented, or asked of two commands, is not turned round.
        keeps_direction = comparison.of_proof or variants_of(first) in named
        turned = first.centre < 1 and not keeps_direction
        found.append(replace(_read_group(reader, first, others, turned), documented=documented.get(_key(first), [])))
    containers = _group(cost for cost in comparison.container if cost.metric == TRAINING_EPOCH)
    found += [_read_group(reader, *group) for group in containers]
    found = found or [_read_group(reader, *group) for group in _group(comparison.scaling)]
    return sorted(found, key=partial(_rank, reader.asked))[:_MOST]


def _group(rows: Iterable[_Row]) -> list[tuple[_Row, list[_Row]]]:
    """Return of the rows that several experiments have the one of most pairs, and the others."""
    groups: dict[tuple[object, ...], list[_Row]] = {}
    for row in rows:
        groups.setdefault(_key(row), []).append(row)
    ordered = [sorted(group, key=lambda row: -row.pairs) for group in groups.values()]
    return [(group[0], group[1:]) for group in ordered]


def _read_group(reader: Reader, first: _MainRow, others: Sequence[_MainRow], turned: bool = False) -> RatioFinding:
    elsewhere = [(one.experiment, reader.read(one, turned).ends) for one in others]
    return replace(reader.read(first, turned), others=elsewhere)


def _key(row: object) -> tuple[object, ...]:
    names = ("variant", "reference", "candidate", "smaller", "larger", "mode", "metric", "target")
    return tuple(getattr(row, name, None) for name in names)


def _names_of(finding: RatioFinding) -> set[str]:
    return {finding.subject.name, finding.against.name}


def _rank(asked: Asked | None, one: RatioFinding) -> tuple[bool, bool, int, bool, bool, int, float]:
    is_asked = asked is not None and (one.metric, one.target) == (asked.metric, None)
    undecided = {State.TOO_FEW: 1, State.ONE_PAIR: 2}.get(one.state, 0)
    first = list_headlines()[0]
    place = first.index(one.metric) if one.metric in first else len(first)
    # Epochs of unequal work come after other ratios; until a quality is reached, work may differ.
    unequal = one.unequal and one.target is None
    return not is_asked, not one.is_of_times, undecided, not one.documented, unequal, place, -abs(math.log(one.centre))
