"""The verdict: for each candidate an outcome and one sentence, and an exit status."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from pydantic import BaseModel, ConfigDict

from speedproof.config.reading import Reading
from speedproof.report.objection_phrases import describe_objection
from speedproof.report.ratio_phrases import describe_more, write_proof_headline, write_proof_sentence
from speedproof.report.scope import describe_attempt
from speedproof.results.asked import Counted
from speedproof.results.comparison import Comparison, Ratio
from speedproof.results.comparison_rows import ObjectionKind
from speedproof.results.experiment import StopReason
from speedproof.results.trace_results import Difference, LargestTerm
from speedproof.run.proof.next_call import write_next_call
from speedproof.run.proof.plan_notes import find_counted, name_rate
from speedproof.run.proof.request import ProofRequest
from speedproof.run.proof.typed_call import describe_asked
from speedproof.run.proof.variant_labels import call_variants, label_variants, title_variants
from speedproof.stats.finding import RatioFinding, Reader, find_whole
from speedproof.stats.measure_names import title_metric
from speedproof.stats.metrics import METRICS, PROCESS, default_metric
from speedproof.stats.proof_claim import Proof
from speedproof.util.numbers import format_range, format_ratio, format_value
from speedproof.util.secrets import scrub_command

# Of several commands the most sobering outcome counts.
STATUS: dict[Proof, int] = {
    "faster": 0,
    "slower": 0,
    "claim holds": 0,
    "quality not established": 2,
    "inconclusive": 2,
    "worse quality": 1,
    "equivalent": 1,
    "claim fails": 1,
}
_SOBERING: tuple[Proof, ...] = tuple(STATUS)


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid")


class JudgedObjection(_Row):
    """What speaks against a ratio."""

    kind: ObjectionKind
    command: str | None  # None: both
    blocks: bool  # whether the outcome is inconclusive for it
    values: dict[str, float]
    names: list[str]
    sentence: str


class MeasuredVariant(_Row):
    """One command's own times, or its own rates."""

    name: str  # in tables: a letter, or the name that was given
    label: str  # what differs from the other commands
    command: str
    value: float | None  # mean of the metric; None: not every run has it
    low: float | None  # of its 95 % interval
    high: float | None


class Judged(_Row):
    """One command against the first: the ratio is reference / candidate, so above 1 this command is faster."""

    name: str = ""  # in sentences
    command: str
    against: str
    outcome: Proof
    ratio: float | None  # None: not measured
    low: float | None
    high: float | None
    observed: float | None  # the same ratio of its epochs by our own clock; None: it did not see them all, or none are compared
    pairs: int
    quality: str | None
    quality_source: Literal["observed", "reported"] | None = (
        None  # by the quality command, or by the programs; None: there is none
    )
    reference_quality: float | None = None
    candidate_quality: float | None = None
    objections: list[JudgedObjection]
    terms: list[LargestTerm] = []  # of the difference of both traces, the largest first; none without traces
    more: str | None
    whole_process: str | None = None  # a sentence, if its outcome is another one and no other sentence has it
    headline: str = ""  # what the sentence begins with: all of it but the evidence
    sentence: str


class Verdict(_Row):
    """What `speedproof prove --json` prints. Its fields change only with its version."""

    schema_version: Literal[5] = 5
    outcome: Proof
    exit_status: int
    claim: str | None
    metric: str
    source: str
    rounds: int
    equivalence_margin: float
    trust_reported: str | None  # the user's reason
    comparisons: int = 1  # whose intervals hold together
    stopped: StopReason | None = None  # why rounds ended; None: their number was fixed
    attempt: int = 1  # of the proofs of these commands that lie beside each other
    counted: Counted = "epoch"  # what is called an epoch; an interval lies between two printed lines
    rate: str | None = None  # what the rate is called that was read, such as tok/s
    unit: str = "s"  # of each variant's value
    variants: list[MeasuredVariant] = []  # all commands, in their order
    candidates: list[Judged]
    why: str | None = None  # what traces show about the difference
    next_command: str | None = None  # what would decide, if anything is open and something would
    report: str

    @property
    def sentences(self) -> list[str]:
        """Return what was found of each candidate and, if it was proven before, that."""
        return [*(one.sentence for one in self.candidates), *self.further_sentences]

    @property
    def further_sentences(self) -> list[str]:
        """Return what whole processes show, if that differs, and that these commands were proven before, if they were."""
        return [*(one.whole_process for one in self.candidates if one.whole_process), *describe_attempt(self.attempt)]


def add_terms(verdict: Verdict, differences: Mapping[tuple[str, str], Difference], names: Sequence[str]) -> Verdict:
    """Add to each candidate why it takes longer or shorter than the first of the variants that are called `names`."""
    found = [differences.get((names[0], name)) for name in names[1:]]
    return verdict.model_copy(
        update={
            "candidates": [
                judged.model_copy(update={"terms": difference.list_largest() if difference else []})
                for judged, difference in zip(verdict.candidates, found, strict=True)
            ]
        }
    )


def choose_metric(request: ProofRequest, epochs: dict[str, int], rates: bool = False) -> str:
    """Return what is compared: the named metric, a rate that is read, the epoch if all variants have one, else the process."""
    return request.metric or default_metric(all(epochs.values()), rates or bool(request.rate))


def judge(comparison: Comparison, request: ProofRequest, metric: str, reading: Reading, report: str, out: Path) -> Verdict:
    """Return the verdict on each candidate, and on all of them, of the proof in the folder `out`, with its `report`."""
    called = _Called(request)
    first, *others = called.commands
    counted = find_counted(reading)
    reader = Reader(comparison, describe_asked(request, metric, 1, reading), called.titles)
    ratios = {name: reader.find_timed(first, name, metric) for name in others}
    found = {name: reader.read(ratio) for name, ratio in ratios.items() if ratio}
    judged = [
        _judge_one(found[name], request, called) if name in found else _judge_none(comparison, called, first, name)
        for name in others
    ]
    for one, ratio in zip(judged, ratios.values(), strict=True):
        one.whole_process = _describe_process(reader, called, ratio)
    outcome = max((one.outcome for one in judged), key=_SOBERING.index)
    return Verdict(
        outcome=outcome,
        exit_status=STATUS[outcome],
        claim=request.claim,
        metric=metric,
        source=reading.source,
        rounds=max((one.pairs for one in judged), default=0),
        equivalence_margin=comparison.equivalence_margin,
        trust_reported=comparison.trust_reported,
        comparisons=max((ratio.comparisons for ratio in ratios.values() if ratio), default=1),
        stopped=comparison.stopped[0].reason if comparison.stopped else None,
        counted=counted,
        rate=name_rate(reading),
        unit=comparison.metrics[metric].unit if metric in comparison.metrics else "s",
        variants=[_measure_variant(comparison, called, name, metric) for name in called.commands],
        candidates=judged,
        next_command=write_next_call(request, list(found.values()), out),
        report=report,
    )


class _Called:
    """What the commands of a request are called in sentences, and what they are, without secrets, by variant."""

    def __init__(self, request: ProofRequest) -> None:
        self.names, self.labels, self.titles = (make(request) for make in (call_variants, label_variants, title_variants))
        self.commands = dict(zip(self.titles, map(scrub_command, request.commands), strict=True))


def _measure_variant(comparison: Comparison, called: _Called, name: str, metric: str) -> MeasuredVariant:
    levels = (one for one in comparison.measured if (one.variant, one.metric, one.mode) == (name, metric, "timed"))
    level = next(levels, None)
    value, low, high = (level.centre, level.low, level.high) if level else (None, None, None)
    return MeasuredVariant(
        name=called.names[name], label=called.labels[name], command=called.commands[name], value=value, low=low, high=high
    )


def _judge_none(comparison: Comparison, called: _Called, first: str, name: str) -> Judged:
    """Return that no ratio of a command and the first is formed, and why."""
    why = next((one.differences for one in comparison.incomparable if name in (one.reference, one.candidate)), ["no pair"])
    said = f"Inconclusive: {called.titles[name]} and {called.titles[first]} cannot be compared"
    return Judged(
        name=called.titles[name],
        command=called.commands[name],
        against=called.commands[first],
        outcome="inconclusive",
        ratio=None,
        low=None,
        high=None,
        observed=None,
        pairs=0,
        quality=None,
        objections=[],
        more=None,
        headline=said,
        sentence=f"{said}: {'; '.join(why)}.",
    )


def _judge_one(found: RatioFinding, request: ProofRequest, called: _Called) -> Judged:
    fixed = request.fixed_rounds is not None
    learning = found.learning
    centre, low, high = found.ends
    reported = learning is not None and learning.own is not None
    return Judged(
        name=found.subject.title,
        command=called.commands[found.subject.name],
        against=called.commands[found.against.name],
        outcome=found.outcome,
        ratio=centre,
        low=low,
        high=high,
        observed=found.observed,
        pairs=found.pairs,
        quality=learning.check.outcome if learning else None,
        quality_source=("observed" if request.quality_command else "reported") if reported else None,
        reference_quality=learning.other if learning else None,
        candidate_quality=learning.own if learning else None,
        objections=list_objections(found, called.commands),
        more=describe_more(found, fixed),
        headline=write_proof_headline(found, request.claim, fixed),
        sentence=write_proof_sentence(found, request.claim, fixed),
    )


def _describe_process(reader: Reader, called: _Called, own: Ratio | None) -> str | None:
    """Return a sentence on the whole processes of a ratio's runs, if their outcome is another one and nothing else shows it."""
    if own is None or own.metric == PROCESS or any(one.kind == "direction" for one in own.objections):
        return None
    whole = reader.find_timed(own.reference, own.candidate, PROCESS)
    if whole is None or whole.outcome == own.outcome or find_whole(own, reader.comparison):
        return None
    value, interval = format_ratio(whole.centre, whole.low, whole.high)
    spread = f" (95 % interval {interval})" if whole.low is not None else ""
    subject, against = called.titles[whole.candidate], called.titles[whole.reference]
    title = reader.comparison.title_of(PROCESS)
    return f"By the {title}, {subject} measured {value} as fast as {against}{spread}: {whole.outcome}."


def list_objections(found: RatioFinding, commands: Mapping[str, str] = MappingProxyType({})) -> list[JudgedObjection]:
    """Return what speaks against a ratio, in words, too; a variant is named by its command, if it has one here."""
    called = {**found.titles, **commands}
    return [
        JudgedObjection(
            **one.objection.model_dump(exclude={"variant"}),
            command=called[one.objection.variant] if one.objection.variant else None,
            sentence=describe_objection(one.objection, found.titles),
        )
        for one in found.caveats
    ]


def tabulate(verdict: Verdict) -> tuple[list[str], list[list[str]]]:
    """Return a header and a row for each variant: its time with its interval, and its ratio with the outcome."""
    observed = any(one.observed is not None for one in verdict.candidates)
    rows = [
        [
            own.name,
            format_value(own.value, verdict.unit),
            "" if own.low is None else format_range(own.low, own.high, verdict.unit),
            "" if one is None or one.ratio is None else format_ratio(one.ratio, one.low, one.high)[0],
            *([_show_observed(one)] if observed else []),
            "" if one is None else one.outcome,
        ]
        for own, one in zip(verdict.variants, [None, *verdict.candidates], strict=True)
    ]
    metric = (
        title_metric(verdict.metric, METRICS[verdict.metric].title, verdict.counted, verdict.rate)
        if verdict.metric in METRICS
        else verdict.metric
    )
    return ["", f">{metric}", ">95 % interval", ">ratio", *([">observed"] if observed else []), "outcome"], rows


def _show_observed(one: Judged | None) -> str:
    return "" if one is None or one.observed is None else format_value(one.observed, "×")
