"""What the tools return: models, so that the list of tools has a schema of each answer."""

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from speedproof.results.comparison_rows import ClaimVerdict
from speedproof.results.diagnosis import Diagnosis, Finding
from speedproof.results.gate_result import GatedCommit, GateOutcome, GateReason, GateResult
from speedproof.results.summary import Advice, Epoch, Found, IdleGap, IterationUnit, Kernel, Phase, Summary
from speedproof.results.trace_results import Difference, KernelTerm, LargestTerm, Term
from speedproof.run.ledger.entry import LedgerEntry
from speedproof.run.ledger.entry_outcome import EntryOutcome, describe_entry_outcome
from speedproof.run.proof.verdict import Judged, MeasuredVariant, Verdict
from speedproof.stats.proof_claim import Proof

MOST_ROWS = 12  # of each table; the page has all


class ToolAnswer(BaseModel):
    """What every tool returns besides its own fields."""

    model_config = ConfigDict(extra="forbid")

    minutes_spent: float = Field(0.0, description="By this call")
    minutes_left: float = Field(0.0, description="Of the server's budget, for all further calls")


class RatioAnswer(ToolAnswer):
    """What a comparison measured."""

    ratio: float | None = Field(description="null: not measured")
    low: float | None = Field(description="Lower end of its 95 % interval")
    high: float | None = Field(description="Upper end")
    pairs: int = Field(description="Each is one run of both")
    unit: str = Field(description="Of the values of both")
    to_decide: str | None = Field(description="What would decide; null: it is decided, or nothing is known to")
    terms: list[LargestTerm] = Field(description="The largest of the traces' difference; without traces none")


class QualityAnswer(BaseModel):
    """How the qualities compare."""

    outcome: str = Field(description="no worse, worse, not established, or why it is not judged")
    source: Literal["observed", "reported"] | None = Field(
        description="observed: by a command of the server; reported: by the programs"
    )
    a: float | None
    b: float | None


class ProofAnswer(RatioAnswer):
    """Whether command b is faster than command a on this machine. The ratio is a's time / b's time: above 1, b is faster."""

    outcome: Proof
    sentence: str = Field(description="The outcome in words; quote this one")
    claim: str | None
    observed: float | None = Field(
        description="The same ratio by speedproof's own clock; null: no epochs were seen or compared"
    )
    metric: str
    a: MeasuredVariant
    b: MeasuredVariant
    quality: QualityAnswer | None = Field(description="null: not read")
    contradictions: list[str] = Field(description="Checks that contradict the ratio; the outcome is inconclusive for them")
    doubts: list[str] = Field(description="Checks that put it in doubt")
    attempt: int = Field(description="Number of this proof among those of the same commands; more attempts, more luck")
    why: str | None = Field(description="What traces show about the difference")
    report: str = Field(description="The page with all numbers")
    checksum: str | None = Field(description="Of the files that were measured; they may have been edited since")
    checksums: str | None = Field(description="List of these files, each with its SHA-256")


class GateAnswer(RatioAnswer):
    """Whether commit head is slower than commit base. The ratio is base's time / head's time: below 1, head is slower."""

    outcome: GateOutcome
    reason: GateReason
    base: GatedCommit
    head: GatedCommit
    regression: float = Field(description="The slowdown that must be excluded, as a fraction")
    metric: str | None
    quality: str | None
    contradictions: list[str] = Field(description="What contradicts the ratio, or puts it in doubt")
    notes: list[str]
    report: str | None = Field(description="The page with all numbers")


class TraceAnswer(ToolAnswer):
    """Where the time of a trace went. Tables hold their largest rows."""

    trace: str
    profiler: str
    has_gpu: bool
    found: Found
    iterations: list[Epoch] = Field(description="The first ones")
    phases: list[Phase]
    idle_gaps: list[IdleGap] = Field(description="GPU idle time by cause")
    kernels: list[Kernel]
    advice: list[Advice] = Field(description="Possible savings, which overlap")
    warnings: list[str] = Field(description="What to know before trusting the numbers")
    report: str | None = Field(description="The page; null: no iterations were found")


class DifferenceAnswer(ToolAnswer):
    """Why an iteration of trace b takes longer or shorter than one of trace a. Negative: b takes less."""

    unit: IterationUnit
    a: str
    b: str
    a_s: float = Field(description="Length of an iteration of a")
    b_s: float
    total_s: float = Field(description="b_s - a_s")
    low_s: float | None = Field(description="Lower end of its 95 % interval; null: too few iterations")
    high_s: float | None = Field(description="Upper end")
    condition: str | None = Field(description="What must be true for the numbers to mean something; null: not in doubt")
    terms: list[Term] = Field(description="Largest change first")
    kernels: list[KernelTerm] = Field(description="By group, largest change first")
    residual_s: float = Field(description="The part that no rule explains")
    notes: list[str] = Field(description="What to know before trusting the numbers")
    report: str | None


class DoctorAnswer(ToolAnswer):
    """What this machine can run and measure."""

    summary: str
    findings: list[Finding]


class LedgerRow(BaseModel):
    """A documented speedup of another project, and what was measured of it."""

    id: str
    title: str
    project: str
    documented: str
    outcome: ClaimVerdict
    ratio: float | None
    low: float | None = Field(description="Lower end of its 95 % interval")
    high: float | None
    sentence: str
    needs_gpu: bool
    minutes: float = Field(description="That a person's `speedproof ledger run` takes, roughly")
    source: str = Field(description="Page that states the number")
    differences: list[str] = Field(description="Conditions that differ from the source's; only of a single entry")


class LedgerAnswer(ToolAnswer):
    """Entries of the ledger."""

    entries: list[LedgerRow]


def answer_proof(verdict: Verdict, checksum: str | None, checksums: str | None) -> ProofAnswer:
    """Return a proof's verdict on its one candidate."""
    (judged,), (a, b) = verdict.candidates, verdict.variants
    return ProofAnswer(
        **judged.model_dump(include={"outcome", "ratio", "low", "high", "observed", "pairs"}),
        **verdict.model_dump(include={"claim", "metric", "unit", "attempt", "why", "report"}),
        sentence=" ".join(verdict.sentences),
        a=a,
        b=b,
        quality=_answer_quality(judged),
        contradictions=[one.sentence for one in judged.objections if one.blocks],
        doubts=[one.sentence for one in judged.objections if not one.blocks],
        terms=judged.terms,
        to_decide=judged.more,
        checksum=checksum,
        checksums=checksums,
    )


def _answer_quality(judged: Judged) -> QualityAnswer | None:
    if judged.quality is None or judged.quality_source is None:
        return None
    return QualityAnswer(
        outcome=judged.quality, source=judged.quality_source, a=judged.reference_quality, b=judged.candidate_quality
    )


def answer_gate(found: GateResult) -> GateAnswer:
    """Return a gate's result."""
    fields = {"outcome", "reason", "base", "head", "regression", "ratio", "low", "high", "pairs", "metric", "unit", "quality"}
    return GateAnswer(
        **found.model_dump(include={*fields, "notes", "terms", "report"}), contradictions=found.checks, to_decide=found.more
    )


def answer_trace(name: str, summary: Summary, report: str | None) -> TraceAnswer:
    """Return the largest rows of a trace's summary."""
    return TraceAnswer(
        trace=name,
        profiler=summary.profiler,
        has_gpu=summary.has_gpu,
        found=summary.found,
        iterations=summary.epochs[:MOST_ROWS],
        phases=sorted(summary.phases, key=lambda phase: -phase.wall_s)[:MOST_ROWS],
        idle_gaps=summary.idle_gaps[:MOST_ROWS],
        kernels=summary.kernels[:MOST_ROWS],
        advice=summary.advice[:MOST_ROWS],
        warnings=summary.warnings,
        report=report,
    )


def answer_difference(traces: Sequence[str], found: Difference, report: str | None) -> DifferenceAnswer:
    """Return the largest rows of a difference."""
    return DifferenceAnswer(
        **found.model_dump(include={"unit", "total_s", "low_s", "high_s", "condition", "residual_s", "notes"}),
        a=traces[0],
        b=traces[1],
        a_s=found.epoch_a_s,
        b_s=found.epoch_b_s,
        terms=found.terms[:MOST_ROWS],
        kernels=found.kernels[:MOST_ROWS],
        report=report,
    )


def answer_doctor(diagnosis: Diagnosis, summary: str) -> DoctorAnswer:
    """Return all findings with their summary."""
    return DoctorAnswer(summary=summary, findings=diagnosis.findings)


def answer_entry(name: str, entry: LedgerEntry, outcomes: Sequence[EntryOutcome], whole: bool) -> LedgerRow:
    """Return an entry with its newest outcome, and if `whole`, with the conditions that differ."""
    newest = next(iter(outcomes), EntryOutcome())
    return LedgerRow(
        id=name,
        title=entry.title,
        project=entry.source.project,
        documented=entry.documented,
        outcome=newest.verdict,
        ratio=newest.ratio,
        low=newest.low,
        high=newest.high,
        sentence=describe_entry_outcome(entry, newest),
        needs_gpu=entry.needs.gpu,
        minutes=entry.needs.minutes,
        source=entry.source.url,
        differences=newest.differences if whole else [],
    )
