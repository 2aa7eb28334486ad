"""`comparison.json`: what the experiments say together. Every number carries where it comes from."""

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from speedproof.results.comparison_rows import (
    ClaimResult,
    EstimateRow,
    Needed,
    Objection,
    Origin,
    Outcome,
    SampledRow,
    SparseRow,
    StrictRow,
)
from speedproof.results.experiment import StopReason
from speedproof.results.files import read_record
from speedproof.results.names import RelativePath
from speedproof.results.quality import Better, Quality
from speedproof.results.run_record import Conditions, Mode
from speedproof.util.numbers import Unit

COMPARISON_FILE = "comparison.json"

QualityOutcome = Literal["no worse", "worse", "not established", "not judged"]


class MetricNote(StrictRow):
    """What a metric is called, what it is computed of, and where it stands."""

    title: str
    unit: Unit
    better: Better
    files: list[str] = Field(description="Of a run's")
    expression: str
    further: bool = Field(description="Whether it stands in the table of further metrics, instead of the first one")


class Measured(SampledRow):
    """One metric of one variant in one mode."""

    variant: str
    title: str
    mode: Mode
    metric: str
    target: float | None = Field(description="The quality to reach, for the metrics that need one")
    values: list[float] = Field(description="Each run's")
    centre: float = Field(description="Of a share the mean, else the exponential of the mean logarithm")
    low: float | None = Field(description="95 % interval; null of a single value")
    high: float | None
    origin: Origin


class Overhead(SampledRow):
    """How many times longer a profiled mode's training epoch takes than the timed mode's."""

    variant: str
    title: str
    mode: Mode
    ratio: float
    origin: Origin


class QualityCheck(SparseRow):
    """Whether the faster of two variants learns as well as the other, by the rule that was fixed beforehand."""

    _UNSAID = ("seeds", "constant")

    outcome: QualityOutcome
    reference_quality: float | None = Field(description="Mean over seeds of the runs' best quality")
    candidate_quality: float | None
    difference: float | None = Field(None, description="Mean over seeds of the faster variant's quality less the other's")
    low: float | None = Field(None, description="95 % interval of the difference")
    high: float | None = None
    seeds: int | None = Field(None, description="Different seeds, if they are too few to judge; not there if they are enough")
    constant: list[Literal["reference", "candidate"]] = Field(
        [], description="Those of which every run reports the same value, of several seeds; not there if there are none"
    )
    diverged: str = Field("", description="Which runs of either variant ended as their loss was no number; empty: none")
    reason: str
    origin: Origin


class WorkCheck(SparseRow):
    """Whether two variants do the same work in a training epoch."""

    _UNSAID = ("epochs",)

    outcome: Literal["equal", "unequal", "unknown"]
    reason: str
    epochs: list[int] = Field([], description="Of the reference's runs and of the candidate's; not there if they are as many")
    origin: Origin


class PrintedDigits(StrictRow):
    """What a ratio of printed times would be if these had all their digits."""

    digit_s: float = Field(description="The coarsest last digit, in seconds: 0.1 of times that are printed as 1.5")
    low: float | None = Field(description="95 % interval; null of a single pair")
    high: float | None
    outcome: Outcome


class Ratio(EstimateRow):
    """The ratio reference / candidate of a metric, formed inside experiments.

    Above 1 the candidate is better in a time. In a rate the two are exchanged, so that above 1 the second variant is better.
    """

    _UNSAID = ("runs_beside", "printed", "observed", "objections", "comparisons")

    reference: str
    candidate: str
    mode: Mode
    metric: str
    target: float | None = Field(description="The quality to reach, for the metrics that need one")
    outcome: Outcome
    needed: Needed | None = Field(description="Pairs that would decide; null if decided, or if no number would")
    claimed: bool = Field(description="Whether a difference was shown and the faster variant's quality is not worse")
    quality: QualityCheck | None = Field(description="null where the metric has its quality built in, or none")
    work: WorkCheck | None = Field(None, description="null where the metric is none of an epoch's")
    printed: PrintedDigits | None = Field(None, description="Not there unless the ratio is of times that programs printed")
    comparisons: int = Field(1, description="How many intervals hold the truth together; not there if it is one")
    observed: float | None = Field(
        None, description="The same of all epochs by our own clock, without the first; not there if it did not see them"
    )
    objections: list[Objection] = Field([], description="What speaks against it; not there if nothing does")
    origin: Origin

    @property
    def contested(self) -> bool:
        """Return whether its outcome is inconclusive, whatever its interval says."""
        return any(objection.blocks for objection in self.objections)

    @property
    def unequal(self) -> bool:
        """Return whether the variants are known to do different work in an epoch."""
        return self.work is not None and self.work.outcome == "unequal"

    @property
    def worse(self) -> bool:
        """Return whether the faster variant learns less than the other."""
        return self.quality is not None and self.quality.outcome == "worse"

    @property
    def withheld(self) -> bool:
        """Return whether a speedup was shown that does not count, since the faster variant learns less."""
        return self.outcome in ("faster", "slower") and self.worse


class Incomparable(StrictRow):
    """Two variants of which no ratio is formed, since something besides their techniques differed inside an experiment."""

    reference: str
    candidate: str
    mode: Mode
    experiment: str
    differences: list[str]


class NoiseFloor(EstimateRow):
    """How far a variant differs from itself: a variant's timed runs against its control's, paired as any two variants are."""

    variant: str
    title: str
    metric: str
    largest: float = Field(description="The largest relative difference of a pair, as a fraction")
    origin: Origin


class ContainerCost(EstimateRow):
    """How many times longer a variant takes inside the container: experiments with an image and without one, by turns."""

    variant: str
    title: str
    metric: str
    outside: float = Field(description="The metric outside, as a level")
    outcome: Outcome = Field(description="Of inside against outside")
    claimed: bool = Field(description="Whether a difference was shown")
    origin: Origin


class RooflinePoint(StrictRow):
    """A variant's training epoch beside the shortest that its GPU could take for the same work."""

    variant: str
    title: str
    flop_per_epoch: float
    bytes_per_epoch: float = Field(description="Least traffic of the GPU's memory, read and written")
    flop_per_s: float = Field(description="Measured, of large matrix products in half precision")
    bytes_per_s: float = Field(description="Measured, of large copies: read and written")
    arithmetic_s: float
    traffic_s: float
    measured_s: float = Field(description="Training epoch of timed runs, geometric mean")
    share: float = Field(description="The larger of the two bounds / the measured epoch")
    origin: Origin


class Utilization(StrictRow):
    """A variant's counted FLOP in its timed runs, beside what the datasheet of its GPU states."""

    variant: str
    title: str
    of: Literal["epoch", "process"] = Field(description="What the FLOP are of; process: the epochs were not observed")
    flop: dict[str, int] = Field(description="By type of the numbers, as torch counted them in one discarded run")
    seconds: float = Field(description="Median of that epoch or process in timed runs")
    flop_per_s: float
    product: str | None = Field(description="The GPU's name in its datasheet; null: a CPU, or an unknown GPU")
    source: str | None
    gpus: int
    mfu: float | None = Field(description="Model FLOP utilization; null: no peak is known, or the speed is impossible")
    origin: Origin


class TraceChange(StrictRow):
    """One term of the exact difference between the traces of two stages, in seconds a training epoch."""

    kind: Literal["gpu", "idle", "cpu"]
    name: str
    seconds: float


class Stage(SampledRow):
    """One stage of the ablation: a variant, and what it gains over the one before it."""

    variant: str
    title: str
    technique: str = Field(description="What changed against the stage before; empty on the first")
    metric: str
    level: float = Field(description="The variant's own value of the metric")
    centre: float | None = Field(description="The stage before / this one; null on the first")
    low: float | None = Field(description="95 % interval; null for a single value")
    high: float | None
    pairs: int
    outcome: Outcome
    claimed: bool
    withheld: str | None = Field(description="Why the gain does not count, since the faster of the two learns less; else null")
    best_quality: float | None = Field(description="Median over runs of each run's best quality")
    changes: list[TraceChange] = Field(description="The training epoch's largest terms of the two traces' exact difference")
    origin: Origin


class AblationWhole(EstimateRow):
    """The ablation's last variant against its first, measured, beside the product of its stages."""

    reference: str
    candidate: str
    metric: str
    outcome: Outcome
    withheld: str | None = Field(description="Why the speedup does not count, since the faster variant learns less; else null")
    product: float = Field(description="Of the stages' centres")
    interaction: float = Field(description="centre / product: 1 where the parts multiply to the whole")
    multiplies: bool | None = Field(description="Whether the interval contains the product; null without an interval")
    origin: Origin


class Scaling(SampledRow):
    """What a GPU gets done beside others, against what it gets done in a variant on fewer: 1 where nothing is lost."""

    smaller: str
    larger: str
    smaller_title: str
    larger_title: str
    smaller_ranks: int
    larger_ranks: int
    kind: Literal["weak", "strong"] = Field(description="weak: the same work a GPU; strong: the same work in all")
    efficiency: float = Field(description="Samples a second and GPU, larger / smaller")
    low: float | None = Field(description="95 % interval; null for a single value")
    high: float | None
    pairs: int
    origin: Origin


class Reached(SparseRow):
    """How many of a variant's timed runs reached a quality."""

    _UNSAID: ClassVar[tuple[str, ...]] = ("experiment",)

    variant: str
    title: str
    target: float
    experiment: str | None = Field(None, description="The experiment that it is of; not there of the only one, or of several")
    runs: int
    reached: int
    continued: int = Field(0, description="Of those that reached it, after being killed and going on from a checkpoint")
    origin: Origin


class Unreached(StrictRow):
    """Two variants without a ratio of their ways to a quality: some run did not reach it, and the others would flatter."""

    reference: str
    candidate: str
    target: float
    reference_reached: int
    candidate_reached: int
    reason: str
    origin: Origin


class Continued(StrictRow):
    """A run that was killed and went on from a checkpoint, in new processes."""

    experiment: str
    run: str
    epochs: list[int] = Field(description="The first epoch of each process but the first")
    reasons: list[str] = Field(description="Why the process before each of them ended")
    origin: Origin


class PreparedVariant(StrictRow):
    """A variant whose runs in an experiment started from volumes that another process prepared before the first run."""

    experiment: str
    variant: str
    title: str
    seconds: float = Field(description="What that process took, which no time of the variant's runs holds")
    volumes: int
    from_store: int = Field(description="Of the volumes, those that an earlier experiment or attempt had left")
    origin: Origin


class StoppedExperiment(StrictRow):
    """An experiment whose timed rounds went on until its variants were decided: its intervals are valid whenever it stopped."""

    experiment: str
    rounds: int
    most: int
    reason: StopReason
    budget_min: float | None
    fixed: int | None = Field(
        None,
        description="Rounds of a plan fixed beforehand, by the noise of the first four, that finds a difference as large as "
        "equivalence_margin with a power of 90 %; null if that exceeds 1000",
    )
    reachable: int | None = Field(None, description="Of rounds that ended as futile: at which look they would have ended")
    needed: int | None = Field(
        None, description="Of these: the fixed number of rounds that would decide; null beyond a thousand"
    )
    origin: Origin


class Throttled(StrictRow):
    """A run in which the GPU held its clocks down."""

    experiment: str
    run: str
    share: float = Field(description="Of the samples in which the GPU was not idle, as a fraction")
    reasons: list[str]
    origin: Origin


class Comparison(SparseRow):
    """`comparison.json`."""

    _UNSAID = ("trust_reported", "of_proof", "utilization")

    schema_version: Literal[6] = 6
    experiments: list[str]
    made_of: dict[RelativePath, str] = Field(
        {}, description="SHA-256 of each experiment.json, summary.json and ranks.json; versions before did not say"
    )
    conditions: Conditions
    quality: Quality
    equivalence_margin: float = Field(description="Two variants are equivalent if their ratio's interval lies within this of 1")
    metrics: dict[str, MetricNote] = Field(description="What is named below by metric, in the order of tables")
    variants: dict[str, str] = Field(description="Titles by name, the reference first")
    measured: list[Measured]
    ratios: list[Ratio]
    incomparable: list[Incomparable]
    noise_floor: list[NoiseFloor]
    scaling: list[Scaling] = Field([])
    ablation: list[Stage]
    ablation_whole: list[AblationWhole]
    reached: list[Reached]
    unreached: list[Unreached] = Field([])
    overheads: list[Overhead]
    container: list[ContainerCost] = Field([])
    roofline: list[RooflinePoint] = Field([])
    utilization: list[Utilization] = Field([], description="Not there if no FLOP were counted")
    prepared: list[PreparedVariant] = Field([])
    stopped: list[StoppedExperiment] = Field([])
    throttled: list[Throttled]
    continued: list[Continued] = Field([])
    claims: list[ClaimResult]
    warnings: list[str]
    of_proof: bool = Field(False, description="Whether `speedproof prove` measured it; not there if it did not")
    trust_reported: str | None = Field(
        None, description="Why reported times count that our own clock does not support; not there if they do not"
    )
    seal: str | None = Field(None, description="Digest of all other fields; versions before have none")

    def title_of(self, metric: str) -> str:
        return self.metrics[metric].title

    @model_validator(mode="after")
    def _every_metric_has_a_note(self) -> "Comparison":
        rows = (self.measured, self.ratios, self.noise_floor, self.container, self.ablation)
        for name in {row.metric for of_kind in rows for row in of_kind} - self.metrics.keys():
            raise ValueError(f"metrics: lacks the metric {name:.60}")
        return self


def read_comparison(path: Path) -> Comparison:
    return read_record(path, Comparison)
