"""All that was found of a comparison, as data: what tables, lists and limits of a report are made of."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from speedproof.results.asked import Asked
from speedproof.results.comparison import (
    AblationWhole,
    Comparison,
    ContainerCost,
    Incomparable,
    Measured,
    Reached,
    RooflinePoint,
    Stage,
    TraceChange,
    Utilization,
)
from speedproof.results.comparison_rows import ClaimResult, SampledRow
from speedproof.results.quality import Quality
from speedproof.results.run_record import Mode
from speedproof.stats.finding import MeasuredPlace, NamedVariant, RatioFinding, Reader, judge_row
from speedproof.stats.main_ratios import group_speedups, list_speedups
from speedproof.stats.measure_names import title_target
from speedproof.stats.metrics import METRICS, PROCESS_TO_QUALITY, TRAINING_EPOCH
from speedproof.util.numbers import Unit

LevelEnds = tuple[float, float | None, float | None]  # a level, and the ends of its interval


@dataclass(frozen=True)
class LevelFinding:
    """A metric of one variant in one mode."""

    variant: NamedVariant
    place: MeasuredPlace
    metric: str
    metric_title: str
    unit: Unit
    ends: LevelEnds
    runs: int = 0
    mode: Mode = "timed"


@dataclass(frozen=True)
class StageFinding:
    """A stage of the ablation, and what it gains over the one before it."""

    variant: NamedVariant
    place: MeasuredPlace
    technique: str  # that changed; empty of the first
    level: float
    gain: RatioFinding | None
    withheld: str | None  # why the gain does not count
    best_quality: float | None
    changes: Sequence[TraceChange]


@dataclass(frozen=True)
class AblationFinding:
    """The last stage against the first, beside the product of all stages."""

    whole: RatioFinding
    withheld: str | None
    product: float
    interaction: float
    multiplies: bool | None  # whether the interval contains the product; None without an interval


@dataclass(frozen=True)
class WayFinding:
    """How a variant's runs reached a quality; levels and ratios by metric, one for each place."""

    variant: NamedVariant
    experiment: str | None  # if several have timed runs, and the row is of one
    target: float
    runs: int
    reached: int
    continued: int
    levels: Mapping[str, Sequence[LevelFinding]]
    gains: Mapping[str, Sequence[RatioFinding]]
    withheld: str | None  # why there is no ratio


@dataclass(frozen=True)
class UnreachedFinding:
    """Two variants without a ratio of their times to a quality."""

    reference: NamedVariant
    candidate: NamedVariant
    title: str  # of the metric, with the level
    reason: str


@dataclass(frozen=True)
class Findings:
    """What a comparison found, read once by whatever shows it; ratios above 1 favour the candidate."""

    comparison: Comparison
    asked: Asked | None = None  # if a proof

    @cached_property
    def reader(self) -> Reader:
        return Reader(self.comparison)

    @property
    def rule(self) -> Quality:
        return self.comparison.quality

    @property
    def device(self) -> str:
        return self.comparison.conditions.device_name()

    @property
    def speaks_for_models(self) -> bool:
        """Return whether a ratio holds for a model of GPU."""
        return any(row.scope == "model" for row in self.comparison.ratios)

    @property
    def most_comparisons(self) -> int:
        """Return for how many comparisons a metric's intervals are adjusted, at most."""
        return max((row.comparisons for row in self.comparison.ratios), default=1)

    @property
    def measured_metrics(self) -> set[str]:
        return {row.metric for row in self.comparison.measured}

    @property
    def claims(self) -> Sequence[ClaimResult]:
        return self.comparison.claims

    @property
    def incomparable(self) -> Sequence[Incomparable]:
        return self.comparison.incomparable

    @property
    def utilization(self) -> Sequence[Utilization]:
        return self.comparison.utilization

    @property
    def roofline(self) -> Sequence[RooflinePoint]:
        return self.comparison.roofline

    @cached_property
    def speedups(self) -> list[RatioFinding]:
        """Return the headline metrics of each two variants, as the faster one's speedup, of a proof the candidate's."""
        return list_speedups(self.comparison, self.asked)

    @cached_property
    def grouped_speedups(self) -> list[list[RatioFinding]]:
        """Return the same of each two variants together, all of the variant that is the faster by the first metric."""
        return group_speedups(self.comparison)

    @cached_property
    def noises(self) -> list[RatioFinding]:
        return [self.reader.read(row) for row in self.comparison.noise_floor]

    @cached_property
    def scalings(self) -> list[RatioFinding]:
        return [self.reader.read(row) for row in self.comparison.scaling]

    @cached_property
    def containers(self) -> list[tuple[RatioFinding, LevelFinding]]:
        """Return what the container costs each variant, and the metric's level outside."""
        rows = self.comparison.container
        return [(self.reader.read(row), self._read_level(row, (row.outside, None, None))) for row in rows]

    @cached_property
    def ratios(self) -> list[RatioFinding]:
        """Return the timed ratios that need no quality to be reached."""
        return [self.reader.read(row) for row in self.comparison.ratios if row.mode == "timed" and row.target is None]

    @cached_property
    def levels(self) -> list[LevelFinding]:
        """Return the timed levels that need no quality to be reached."""
        rows = [row for row in self.comparison.measured if row.mode == "timed" and row.target is None]
        return [self._read_measured(row) for row in rows]

    def is_further(self, found: RatioFinding | LevelFinding) -> bool:
        """Return whether a metric is one of those that are listed apart."""
        return self.comparison.metrics[found.metric].further

    @cached_property
    def further(self) -> list[tuple[LevelFinding, RatioFinding | None]]:
        """Return the further levels, each with its ratio to the first variant, if it has one."""
        known = {None, *self.measured_metrics}
        first = next(iter(self.comparison.variants))
        ratios = {(one.metric, _names(one), one.place.experiment): one for one in self.ratios}
        levels = [one for one in self.levels if self.is_further(one) and METRICS[one.metric].listed_with in known]
        keys = [(one.metric, frozenset((first, one.variant.name)), one.place.experiment) for one in levels]
        return [(one, ratios.get(key) if one.variant.name != first else None) for one, key in zip(levels, keys, strict=True)]

    @cached_property
    def qualities(self) -> list[RatioFinding]:
        """Return, once for each two variants of an experiment, the first ratio that has their qualities."""
        found: dict[tuple[frozenset[str], str | None], RatioFinding] = {}
        for one in self.ratios:
            if one.learning is not None:
                found.setdefault((_names(one), one.place.experiment), one)
        return list(found.values())

    @cached_property
    def overheads(self) -> list[LevelFinding]:
        """Return how many times longer each profiled mode's training epoch takes than the timed mode's."""
        return [
            LevelFinding(
                NamedVariant(row.variant, row.title),
                self.reader.place(row),
                TRAINING_EPOCH,
                METRICS[TRAINING_EPOCH].title,
                "×",
                (row.ratio, None, None),
                mode=row.mode,
            )
            for row in self.comparison.overheads
        ]

    @cached_property
    def stages(self) -> list[StageFinding]:
        before: dict[str | None, NamedVariant] = {}
        found = []
        for row in self.comparison.ablation:
            own = NamedVariant(row.variant, row.title)
            found.append(self._read_stage(row, own, before.get(row.experiment, own)))
            before[row.experiment] = own
        return found

    @cached_property
    def ablations(self) -> list[AblationFinding]:
        titles = {row.variant: row.title for row in self.comparison.ablation}
        return [self._read_whole(row, titles) for row in self.comparison.ablation_whole]

    @cached_property
    def ways(self) -> list[WayFinding]:
        """Return how each variant reached each quality in reach; ratios are against the experiment's first variant."""
        in_reach = {row.target for row in self.comparison.reached if row.reached}
        rows = Counter((row.variant, row.target) for row in self.comparison.reached)
        return [
            self._read_way(row, alone=rows[row.variant, row.target] == 1)
            for row in self.comparison.reached
            if row.target in in_reach
        ]

    def _read_way(self, row: Reached, alone: bool) -> WayFinding:
        """Return what a row says; one that is `alone`, of any experiment, since older files do not name them."""
        comparison = self.comparison

        def is_of_row(one: SampledRow) -> bool:
            return (alone and row.experiment is None) or one.experiment == row.experiment

        levels = [one for one in comparison.measured if (one.variant, one.target) == (row.variant, row.target)]
        timed = [one for one in comparison.ratios if one.mode == "timed" and is_of_row(one)]
        first = next((one.reference for one in timed if METRICS[one.metric].better == "lower"), None)
        gains = [one for one in timed if (one.reference, one.candidate, one.target) == (first, row.variant, row.target)]
        withheld = {(one.target, one.reference, one.candidate): one.reason for one in comparison.unreached}
        return WayFinding(
            NamedVariant(row.variant, row.title),
            row.experiment if self.reader.are_several("timed") else None,
            row.target,
            row.runs,
            row.reached,
            row.continued,
            _by_metric([self._read_measured(one) for one in levels if is_of_row(one)]),
            _by_metric([self.reader.read(one) for one in gains]),
            withheld.get((row.target, first or "", row.variant)),
        )

    @cached_property
    def unreached(self) -> list[UnreachedFinding]:
        """Return of each two variants the best quality that runs of both reached, but not all of them."""
        rows = [row for row in self.comparison.unreached if row.reference_reached and row.candidate_reached]
        highest = {(row.reference, row.candidate): row for row in rows}  # from the easiest target to the hardest
        titles = self.comparison.variants
        return [
            UnreachedFinding(
                NamedVariant(row.reference, titles[row.reference]),
                NamedVariant(row.candidate, titles[row.candidate]),
                title_target(PROCESS_TO_QUALITY, self.rule, row.target),
                row.reason,
            )
            for row in highest.values()
        ]

    def _read_stage(self, row: Stage, own: NamedVariant, before: NamedVariant) -> StageFinding:
        place, gain = self.reader.place(row), None
        if row.centre is not None:
            title, ends = self.comparison.title_of(row.metric), (row.centre, row.low, row.high)
            gain = RatioFinding("stage", own, before, row.metric, title, ends, row.pairs, judge_row(row), place)
        return StageFinding(own, place, row.technique, row.level, gain, row.withheld, row.best_quality, row.changes)

    def _read_whole(self, row: AblationWhole, titles: Mapping[str, str]) -> AblationFinding:
        own, other = (NamedVariant(name, titles[name]) for name in (row.candidate, row.reference))
        title = self.comparison.title_of(row.metric)
        whole = RatioFinding("ablation", own, other, row.metric, title, *self.reader.read_common(row))
        return AblationFinding(whole, row.withheld, row.product, row.interaction, row.multiplies)

    def _read_measured(self, row: Measured) -> LevelFinding:
        return self._read_level(row, (row.centre, row.low, row.high), len(row.values))

    def _read_level(self, row: Measured | ContainerCost, ends: LevelEnds, runs: int = 0) -> LevelFinding:
        note, own = self.comparison.metrics[row.metric], NamedVariant(row.variant, row.title)
        return LevelFinding(own, self.reader.place(row), row.metric, note.title, note.unit, ends, runs)


_Found = TypeVar("_Found", LevelFinding, RatioFinding)


def _by_metric(found: Sequence[_Found]) -> dict[str, list[_Found]]:
    metrics: dict[str, list[_Found]] = defaultdict(list)
    for one in found:
        metrics[one.metric].append(one)
    return metrics


def _names(found: RatioFinding) -> frozenset[str]:
    return frozenset((found.subject.name, found.against.name))
