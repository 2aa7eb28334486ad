"""What was found of a ratio, as data: computed once, and put into words by `report/` alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Literal

from speedproof.results.asked import Asked, Counted
from speedproof.results.claim import Claim
from speedproof.results.comparison import (
    AblationWhole,
    Comparison,
    ContainerCost,
    NoiseFloor,
    PrintedDigits,
    QualityCheck,
    Ratio,
    Scaling,
    Stage,
    StoppedExperiment,
)
from speedproof.results.comparison_rows import ClaimResult, Needed, Objection, SampledRow, Scope, list_leading
from speedproof.results.quality import Better, Quality
from speedproof.results.run_record import Mode
from speedproof.stats.estimates import LEAST_PAIRS
from speedproof.stats.measure_names import title_metric, title_target
from speedproof.stats.metrics import METRICS, PROCESS
from speedproof.stats.proof_claim import Proof, check_claimed, is_better, is_hidden_by_digits, judge_ratio, name_judged

FoundRow = Ratio | ContainerCost | Scaling | NoiseFloor
FoundKind = Literal["ratio", "scaling", "container", "noise", "stage", "ablation"]
RatioEnds = tuple[float, float | None, float | None]  # a ratio, and the ends of its interval


class State(StrEnum):
    """What is known of a ratio as it is read: of the variant that it speaks for, against the other."""

    FASTER = "faster"  # the whole interval is above 1
    SLOWER = "slower"
    EQUIVALENT = "equivalent"
    INCONCLUSIVE = "inconclusive"
    CONTESTED = "contested"  # inconclusive, whatever its interval says, for what was observed
    WORSE_QUALITY = "worse quality"  # a speedup that does not count, since the faster variant learns less
    TOO_FEW = "no verdict"
    ONE_PAIR = "one pair"


@dataclass(frozen=True)
class NamedVariant:
    """A variant's name in results, and what readers call it."""

    name: str
    title: str


@dataclass(frozen=True)
class MeasuredPlace:
    """Where a number holds; the experiment is named if more than one has timed runs, or runs of its mode."""

    scope: Scope
    hosts: int
    device: str
    shared: bool  # whether another experiment measured there at the same time
    experiment: str | None


@dataclass(frozen=True)
class Caveat:
    """What speaks against a ratio; it `leads` if it is a reason why nothing is concluded."""

    objection: Objection
    leads: bool


@dataclass(frozen=True)
class Learning:
    """The quality of both variants, and how that of the judged one compares."""

    check: QualityCheck
    own: float | None  # of the variant that the ratio speaks for
    other: float | None
    judged: NamedVariant
    better: bool  # by more than the margin, if that need not be established over all seeds


@dataclass(frozen=True)
class ComparedWork:
    """What is known of the work of two variants; the epochs of a run, each variant's own, if they differ."""

    unequal: bool
    reason: str
    epochs: tuple[int, int] | None


@dataclass(frozen=True)
class WholeProcess:
    """The ratio of the whole processes, if that says something else."""

    title: str
    ends: RatioEnds


_MOST_BUDGETS = 3  # rounds that take longer than as many budgets are not proposed


@dataclass(frozen=True)
class RatioFinding:
    """A ratio as it is read: how many times as fast the `subject` is as the other variant; what is known of it, and why."""

    kind: FoundKind
    subject: NamedVariant
    against: NamedVariant
    metric: str
    metric_title: str
    ends: RatioEnds
    pairs: int
    state: State
    place: MeasuredPlace
    better: Better = "lower"
    counted: Counted = "epoch"
    target: float | None = None
    mode: Mode = "timed"
    comparisons: int = 1  # for so many its interval is adjusted
    margin: float = 0.0  # within which variants are equivalent
    rule: Quality = field(default_factory=Quality)
    needed: Needed | None = None
    caveats: Sequence[Caveat] = ()
    titles: Mapping[str, str] = field(default_factory=dict)  # of the variants that caveats name
    learning: Learning | None = None
    work: ComparedWork | None = None
    whole: WholeProcess | None = None
    observed: float | None = None
    printed: PrintedDigits | None = None
    hidden_by_digits: bool = False
    digits_decide: bool = False  # whether printed digits made its outcome another
    ranks: tuple[int, int] | None = None  # of the subject and of the other, if these differ
    scaling: Literal["weak", "strong"] | None = None
    largest: float | None = None  # difference of a pair, as a fraction, of what is compared with itself
    documented: Sequence[ClaimResult] = ()
    others: Sequence[tuple[str | None, RatioEnds]] = ()  # the same ratio in other experiments
    outcome: Proof = "inconclusive"  # in the words of a proof
    claim: Claim | None = None  # of a proof
    stopped: StoppedExperiment | None = None
    fixed_min: float | None = None  # what the fixed rounds that would decide take, if rounds ended as futile
    trust_reported: str | None = None

    @property
    def full_title(self) -> str:
        """Return the metric's title, with the level of quality if it is timed until one."""
        return self.metric_title if self.target is None else title_target(self.metric, self.rule, self.target)

    @property
    def centre(self) -> float:
        """Return the ratio."""
        return self.ends[0]

    @property
    def has_interval(self) -> bool:
        """Return whether there are pairs enough for an interval."""
        return self.ends[1] is not None

    @property
    def is_shown(self) -> bool:
        """Return whether a difference is shown."""
        return self.state in (State.FASTER, State.SLOWER)

    @property
    def is_undecided(self) -> bool:
        """Return whether there are too few pairs for a verdict."""
        return self.state in (State.TOO_FEW, State.ONE_PAIR)

    @property
    def is_open(self) -> bool:
        """Return whether there are pairs enough, but the ratio shows nothing."""
        return self.state in (State.INCONCLUSIVE, State.CONTESTED)

    @property
    def is_of_times(self) -> bool:
        """Return whether it is of times, or of rates of work; a time's name ends with its unit."""
        return self.kind != "ratio" or METRICS[self.metric].unit in ("s", "/s")

    @property
    def unequal(self) -> bool:
        """Return whether the variants are known to do different work in an epoch."""
        return self.work is not None and self.work.unequal

    @property
    def is_beyond_budget(self) -> bool:
        """Return whether the fixed rounds that would decide take several times what the proof was allowed to."""
        allowed_min = self.stopped.budget_min if self.stopped else None
        return self.fixed_min is not None and allowed_min is not None and self.fixed_min > _MOST_BUDGETS * allowed_min

    @property
    def faster_first(self) -> tuple[NamedVariant, NamedVariant]:
        """Return both variants, the faster one first."""
        return (self.subject, self.against) if self.centre >= 1 else (self.against, self.subject)

    @property
    def bounds(self) -> tuple[float, ...]:
        """Return what the ratio is compared with besides 1."""
        return (self.claim.value,) if self.claim else ()


@dataclass(frozen=True)
class Reader:
    """Reads findings of a comparison: of what a proof was asked, and with the variants' `titles` if they are not the own."""

    comparison: Comparison
    asked: Asked | None = None
    titled: Mapping[str, str] | None = None

    def read(self, row: FoundRow, turned: bool = False) -> RatioFinding:
        """Return what is found of a row; if it is `turned`, the other variant is its subject."""
        match row:
            case Ratio():
                return self._read_ratio(row, turned)
            case Scaling():
                larger, smaller = NamedVariant(row.larger, row.larger_title), NamedVariant(row.smaller, row.smaller_title)
                title, metric = f"{row.kind} scaling", "scaling efficiency"
                ranks, common = (row.larger_ranks, row.smaller_ranks), self.read_common(row)
                return RatioFinding("scaling", larger, smaller, metric, title, *common, ranks=ranks, scaling=row.kind)
            case _:
                kind: Literal["container", "noise"] = "container" if isinstance(row, ContainerCost) else "noise"
                own, title = NamedVariant(row.variant, row.title), self.comparison.title_of(row.metric)
                largest = row.largest if isinstance(row, NoiseFloor) else None
                return RatioFinding(kind, own, own, row.metric, title, *self.read_common(row), largest=largest)

    def find_timed(self, first: str, other: str, metric: str) -> Ratio | None:
        """Return the ratio of two variants' timed runs by a metric, whichever of them is the reference."""
        timed = (one for one in self.comparison.ratios if (one.metric, one.mode, one.target) == (metric, "timed", None))
        return next((one for one in timed if {one.reference, one.candidate} == {first, other}), None)

    def read_common(self, row: FoundRow | AblationWhole, turned: bool = False) -> tuple[RatioEnds, int, State, MeasuredPlace]:
        """Return what every finding of a ratio has: its ends, its pairs, its state and where it holds."""
        return orient(row, turned), row.pairs, judge_row(row, turned), self.place(row)

    def place(self, row: SampledRow) -> MeasuredPlace:
        """Return where a row's number holds."""
        several = self.are_several("timed") or self.are_several(getattr(row, "mode", "timed"))
        device = self.comparison.conditions.device_name()
        return MeasuredPlace(row.scope, row.hosts, device, row.runs_beside > 0, row.experiment if several else None)

    def are_several(self, mode: Mode) -> bool:
        """Return whether runs of more than one experiment were measured in a mode."""
        names = self._measured.get(mode, set())
        return len(names) > 1 or None in names  # None: one number of several experiments

    @cached_property
    def _measured(self) -> dict[Mode, set[str | None]]:
        """Return of which experiments numbers were measured, by mode."""
        found: dict[Mode, set[str | None]] = {}
        for one in self.comparison.measured:
            found.setdefault(one.mode, set()).add(one.experiment)
        return found

    def _read_ratio(self, ratio: Ratio, turned: bool) -> RatioFinding:
        comparison, note = self.comparison, self.comparison.metrics[ratio.metric]
        titles = self.titled or comparison.variants
        reference, candidate = (NamedVariant(name, titles[name]) for name in (ratio.reference, ratio.candidate))
        # A ratio above 1 favours the second variant; of a rate these two are exchanged.
        favours_candidate = METRICS[ratio.metric].lower_is_better != turned
        subject, against = (candidate, reference) if favours_candidate else (reference, candidate)
        claim = self._claim_of(ratio)
        state = judge_row(ratio, turned)
        outcome = self._judge(ratio, claim, state)
        counted = self.asked.counted if self.asked else "epoch"
        rate = self.asked.rate if self.asked else None
        leading = list_leading(ratio.objections, outcome == "inconclusive")
        return RatioFinding(
            "ratio",
            subject,
            against,
            ratio.metric,
            title_metric(ratio.metric, comparison.title_of(ratio.metric), counted, rate),
            *self.read_common(ratio, turned),
            better=note.better,
            counted=counted,
            target=ratio.target,
            mode=ratio.mode,
            comparisons=ratio.comparisons,
            margin=comparison.equivalence_margin,
            rule=comparison.quality,
            needed=ratio.needed,
            caveats=[Caveat(one, one in leading) for one in ratio.objections],
            titles=titles,
            learning=_read_learning(ratio, claim, comparison.quality, {one.name: one for one in (subject, against)}, subject),
            work=_read_work(ratio, subject),
            whole=find_whole(ratio, comparison, turned),
            observed=ratio.observed,
            printed=ratio.printed,
            hidden_by_digits=is_hidden_by_digits(ratio, claim, comparison.quality),
            digits_decide=ratio.printed is not None and ratio.printed.outcome != ratio.outcome,
            outcome=outcome,
            claim=claim,
            stopped=comparison.stopped[0] if comparison.stopped else None,
            fixed_min=_estimate_fixed(comparison),
            trust_reported=comparison.trust_reported,
        )

    def _claim_of(self, ratio: Ratio) -> Claim | None:
        """Return what a proof claims of this ratio."""
        of_it = self.asked is not None and (ratio.metric, ratio.mode, ratio.target) == (self.asked.metric, "timed", None)
        return self.asked.claim if self.asked and of_it else None

    def _judge(self, ratio: Ratio, claim: Claim | None, state: State) -> Proof:
        """Return the outcome in the words of a proof; what was not asked to keep its quality need not establish that."""
        if self.asked is not None:
            return judge_ratio(ratio, claim, self.comparison.quality)
        return _OUTCOMES.get(state, "inconclusive")


def _estimate_fixed(comparison: Comparison) -> float | None:
    """Return how many minutes the fixed rounds that would decide take, by the processes of those that were run."""
    stopped = comparison.stopped[0] if comparison.stopped else None
    lasted_s = sum(sum(one.values) for one in comparison.measured if (one.metric, one.mode) == (PROCESS, "timed"))
    return stopped.needed * lasted_s / stopped.rounds / 60 if stopped and stopped.needed and lasted_s else None


def judge_row(row: FoundRow | Stage | AblationWhole, turned: bool = False) -> State:
    """Return what is known of a ratio, by what was judged of it; if it is `turned`, of the other variant."""
    if row.low is None or row.high is None:
        return State.ONE_PAIR if row.pairs == 1 else State.TOO_FEW
    if isinstance(row, Ratio) and row.contested:
        return State.CONTESTED
    if isinstance(row, Ratio | Stage | AblationWhole) and row.withheld:
        return State.WORSE_QUALITY
    if isinstance(row, Stage) and row.outcome in ("faster", "slower") and not row.claimed:
        return State.CONTESTED  # a stage has no objections of its own, only whether its ratio counts
    if isinstance(row, Ratio | ContainerCost | Stage | AblationWhole):
        found = State(row.outcome)
        return _TURNED.get(found, found) if turned else found
    if row.pairs < LEAST_PAIRS:
        return State.TOO_FEW
    if row.low <= 1 <= row.high:
        return State.INCONCLUSIVE
    return State.FASTER if row.low > 1 else State.SLOWER


_TURNED = {State.FASTER: State.SLOWER, State.SLOWER: State.FASTER}
_OUTCOMES: dict[State, Proof] = {
    State.FASTER: "faster",
    State.SLOWER: "slower",
    State.EQUIVALENT: "equivalent",
    State.WORSE_QUALITY: "worse quality",
}


def orient(row: FoundRow | AblationWhole, turned: bool = False) -> RatioEnds:
    """Return a row's ratio and the ends of its interval; if it is `turned`, the reciprocals."""
    centre = row.efficiency if isinstance(row, Scaling) else row.centre
    if not turned:
        return centre, row.low, row.high
    low, high = (None if end is None else 1 / end for end in (row.high, row.low))
    return 1 / centre, low, high


def find_whole(ratio: Ratio, comparison: Comparison, turned: bool = False) -> WholeProcess | None:
    """Return the ratio of the same runs' whole processes if it says something else, or the numbers of epochs differ."""
    if ratio.metric == PROCESS or any(one.kind == "direction" and "process" in one.values for one in ratio.objections):
        return None
    variants = (ratio.reference, ratio.candidate)
    if comparison.metrics[ratio.metric].better == "higher":  # of a rate they are exchanged
        variants = variants[::-1]
    same = (*variants, ratio.mode, ratio.scope, ratio.experiment, PROCESS)
    fields = ("reference", "candidate", "mode", "scope", "experiment", "metric")
    whole = next((one for one in comparison.ratios if tuple(getattr(one, name) for name in fields) == same), None)
    if whole is None or not (_disagree(ratio, whole) or (ratio.work is not None and ratio.work.epochs)):
        return None
    return WholeProcess(comparison.title_of(PROCESS), orient(whole, turned))


def _disagree(ratio: Ratio, whole: Ratio) -> bool:
    """Return whether what one ratio shows is not what the other one shows; an inconclusive one shows nothing."""
    shown = ratio.outcome in ("faster", "slower", "equivalent") and whole.outcome in ("faster", "slower")
    return shown and ratio.outcome != whole.outcome


def _read_learning(
    ratio: Ratio, claim: Claim | None, rule: Quality, variants: Mapping[str, NamedVariant], subject: NamedVariant
) -> Learning | None:
    check = check_claimed(ratio, claim, rule)
    if check is None:
        return None
    own, other = check.candidate_quality, check.reference_quality
    if subject.name == ratio.reference:
        own, other = other, own
    return Learning(check, own, other, variants[name_judged(ratio, claim)], is_better(ratio, check, claim, rule))


def _read_work(ratio: Ratio, subject: NamedVariant) -> ComparedWork | None:
    if ratio.work is None:
        return None
    epochs: tuple[int, int] | None = None
    # An objection that names the epochs is enough.
    if ratio.work.epochs and not any("epochs" in one.values for one in ratio.objections):
        first, second = ratio.work.epochs
        epochs = (first, second) if subject.name == ratio.reference else (second, first)
    return ComparedWork(ratio.unequal, ratio.work.reason, epochs)
