"""The verdict: for each candidate an outcome and one sentence, and an exit status."""

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict

from speedproof.report.objection_phrases import describe_objection
from speedproof.report.ratio_phrases import describe_more, write_proof_sentence
from speedproof.report.scope import describe_attempt
from speedproof.results.comparison import Comparison
from speedproof.results.comparison_rows import ObjectionKind
from speedproof.results.experiment import StopReason
from speedproof.run.proof.request import ProofRequest, describe_asked
from speedproof.stats.finding import RatioFinding, Reader
from speedproof.stats.metrics import default_metric
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


class Judged(_Row):
    """One command against the first: the ratio is reference / candidate, so above 1 this command is faster."""

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
    more: str | None
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
    candidates: list[Judged]
    report: str

    @property
    def sentences(self) -> list[str]:
        """Return what was found of each candidate and, if it was proven before, that."""
        return [*(one.sentence for one in self.candidates), *describe_attempt(self.attempt)]


def choose_metric(request: ProofRequest, epochs: dict[str, int]) -> str:
    """Return what is compared: the named metric, a rate that is read, the epoch if all variants have one, else the process."""
    return request.metric or default_metric(all(epochs.values()), bool(request.rate))


def judge(comparison: Comparison, request: ProofRequest, names: list[str], metric: str, source: str, report: str) -> Verdict:
    """Return the verdict on each candidate, and on all of them."""
    titles = dict(zip(names, map(scrub_command, request.commands), strict=True))
    reader = Reader(comparison, describe_asked(request, metric, 1), titles)
    ratios = {name: reader.find_timed(names[0], name, metric) for name in names[1:]}
    judged = [
        _judge_one(reader.read(ratio), request) if ratio else _judge_none(comparison, titles, names[0], name)
        for name, ratio in ratios.items()
    ]
    outcome = max((one.outcome for one in judged), key=_SOBERING.index)
    return Verdict(
        outcome=outcome,
        exit_status=STATUS[outcome],
        claim=request.claim,
        metric=metric,
        source=source,
        rounds=max((one.pairs for one in judged), default=0),
        equivalence_margin=comparison.equivalence_margin,
        trust_reported=comparison.trust_reported,
        comparisons=max((ratio.comparisons for ratio in ratios.values() if ratio), default=1),
        stopped=comparison.stopped[0].reason if comparison.stopped else None,
        candidates=judged,
        report=report,
    )


def _judge_none(comparison: Comparison, titles: Mapping[str, str], first: str, name: str) -> Judged:
    """Return that no ratio of a command and the first is formed, and why."""
    why = next((one.differences for one in comparison.incomparable if name in (one.reference, one.candidate)), ["no pair"])
    return Judged(
        command=titles[name],
        against=titles[first],
        outcome="inconclusive",
        ratio=None,
        low=None,
        high=None,
        observed=None,
        pairs=0,
        quality=None,
        objections=[],
        more=None,
        sentence=f"Inconclusive: {titles[name]} and {titles[first]} cannot be compared: {'; '.join(why)}.",
    )


def _judge_one(found: RatioFinding, request: ProofRequest) -> Judged:
    learning = found.learning
    centre, low, high = found.ends
    reported = learning is not None and learning.own is not None
    return Judged(
        command=found.subject.title,
        against=found.against.title,
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
        objections=list_objections(found),
        more=describe_more(found, request.fixed_rounds is not None),
        sentence=write_proof_sentence(found, request.claim, request.fixed_rounds is not None),
    )


def list_objections(found: RatioFinding) -> list[JudgedObjection]:
    """Return what speaks against a ratio, in words, too."""
    return [
        JudgedObjection(
            **one.objection.model_dump(exclude={"variant"}),
            command=found.titles[one.objection.variant] if one.objection.variant else None,
            sentence=describe_objection(one.objection, found.titles),
        )
        for one in found.caveats
    ]


def tabulate(verdict: Verdict, comparison: Comparison, names: list[str]) -> tuple[list[str], list[list[str]]]:
    """Return a header and a row for each variant: its time with its interval, and its quality."""
    unit = comparison.metrics[verdict.metric].unit if verdict.metric in comparison.metrics else "s"
    observed = any(one.observed is not None for one in verdict.candidates)
    rows = []
    for number, name in enumerate(names):
        level = next(
            (one for one in comparison.measured if (one.variant, one.metric, one.mode) == (name, verdict.metric, "timed")), None
        )
        one = verdict.candidates[number - 1] if number else None
        rows.append(
            [
                comparison.variants.get(name, name),
                format_value(level.centre if level else None, unit),
                "" if level is None or level.low is None else format_range(level.low, level.high, unit),
                "" if one is None or one.ratio is None else format_ratio(one.ratio, one.low, one.high)[0],
                *([_show_observed(one)] if observed else []),
                "" if one is None else one.outcome,
            ]
        )
    return ["variant", f">{verdict.metric}", ">95 % interval", ">ratio", *([">observed"] if observed else []), "outcome"], rows


def _show_observed(one: Judged | None) -> str:
    return "" if one is None or one.observed is None else format_value(one.observed, "×")
