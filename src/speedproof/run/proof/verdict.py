"""What the measurement says of the claim: an outcome for each command beside the first, one sentence, an exit status."""

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from speedproof.report.answer import capitalize
from speedproof.report.headlines import describe_futile, name_interval
from speedproof.report.objection_phrases import (
    describe_objection,
    describe_remedy,
    describe_unequal_epochs,
    describe_whole_process,
)
from speedproof.report.scope import describe_attempt, name_here, warn_of_machines
from speedproof.results.asked import Claim
from speedproof.results.comparison import Comparison, QualityCheck, Ratio
from speedproof.results.experiment import StopReason
from speedproof.results.objections import ObjectionKind, list_leading
from speedproof.results.quality import Quality
from speedproof.run.proof.request import ProofRequest, read_claim
from speedproof.stats.estimates import LEAST_PAIRS
from speedproof.stats.metrics import METRICS, default_metric
from speedproof.stats.outcomes import MOST_NAMED
from speedproof.stats.proof_claim import Proof, check_claimed, is_better, is_hidden_by_digits, judge_ratio, name_judged
from speedproof.stats.sequential import MOST_PAIRS
from speedproof.util.numbers import format_count, format_digit, format_duration, format_range, format_ratio, format_value
from speedproof.util.secrets import scrub_secrets

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
    """Return what the comparison says of each command beside the first, and of all of them."""
    found = [_find_ratio(comparison, names[0], name, metric) for name in names[1:]]
    commands = [scrub_secrets(command) for command in request.commands]
    judged = [
        _judge_one(ratio, comparison, request, commands[number], commands[0], names[number], metric)
        for number, ratio in enumerate(found, start=1)
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
        comparisons=max((ratio.comparisons for ratio in found if ratio), default=1),
        stopped=comparison.stopped[0].reason if comparison.stopped else None,
        candidates=judged,
        report=report,
    )


def _find_ratio(comparison: Comparison, first: str, other: str, metric: str) -> Ratio | None:
    return next(
        (
            ratio
            for ratio in comparison.ratios
            if {ratio.reference, ratio.candidate} == {first, other}
            and (ratio.metric, ratio.mode, ratio.target) == (metric, "timed", None)
        ),
        None,
    )


def _judge_one(
    ratio: Ratio | None, comparison: Comparison, request: ProofRequest, command: str, first: str, name: str, metric: str
) -> Judged:
    if ratio is None:
        why = next((one.differences for one in comparison.incomparable if name in (one.reference, one.candidate)), ["no pair"])
        said = f"Inconclusive: no ratio of {command} and {first} is formed: {'; '.join(why)}."
        return Judged(
            command=command,
            against=first,
            outcome="inconclusive",
            ratio=None,
            low=None,
            high=None,
            observed=None,
            pairs=0,
            quality=None,
            quality_source=None,
            reference_quality=None,
            candidate_quality=None,
            objections=[],
            more=None,
            sentence=said,
        )
    other = ratio.reference if ratio.candidate == name else ratio.candidate
    commands_by_name = {name: command, other: first}
    claim = read_claim(request.claim) if request.claim else None
    of = "" if name_judged(ratio, claim) == name else f" of {first}"
    outcome, quality = judge_ratio(ratio, claim, comparison.quality), check_claimed(ratio, claim, comparison.quality)
    own_quality, other_quality = _read_qualities(ratio, quality, name)
    learns = "" if quality is None else _describe_quality(ratio, claim, quality, comparison.quality, outcome, of, name)
    hidden = is_hidden_by_digits(ratio, claim, comparison.quality)
    objections = judge_objections(ratio, commands_by_name)
    here = f"{name_here(ratio)}{describe_unequal_epochs(ratio, name)}"
    needed = None if ratio.contested else _describe_needed(ratio, comparison, request, outcome)
    more = _describe_hidden(ratio) if hidden else needed
    return Judged(
        command=command,
        against=first,
        outcome=outcome,
        ratio=ratio.centre,
        low=ratio.low,
        high=ratio.high,
        observed=ratio.observed,
        pairs=ratio.pairs,
        quality=quality.outcome if quality else None,
        quality_source=_name_source(request) if own_quality is not None else None,
        reference_quality=other_quality,
        candidate_quality=own_quality,
        objections=objections,
        more=more,
        sentence=_describe(ratio, comparison, request, outcome, learns, command, first, here, more, hidden, objections),
    )


def _name_source(request: ProofRequest) -> Literal["observed", "reported"]:
    return "observed" if request.quality_command else "reported"


def judge_objections(ratio: Ratio, commands: Mapping[str, str]) -> list[JudgedObjection]:
    """Return what speaks against a ratio, in words, too; `commands` are the variants' commands or titles by name."""
    return [
        JudgedObjection(
            **one.model_dump(exclude={"variant"}),
            command=commands[one.variant] if one.variant else None,
            sentence=describe_objection(one, commands),
        )
        for one in ratio.objections
    ]


def _describe_hidden(ratio: Ratio) -> str:
    """Return what to do about a ratio that is hidden by the digits of its times."""
    if METRICS[ratio.metric].printed == "rate":
        return "rates are printed with too few digits; print more"
    digit_s = ratio.printed.digit_s if ratio.printed else 0.0
    return f"epochs are printed to {format_digit(digit_s)}; print more digits, or drop --epoch-s"


def _describe_needed(ratio: Ratio, comparison: Comparison, request: ProofRequest, outcome: Proof) -> str | None:
    """Return how many more pairs would decide, if there is anything to decide and no claim, of which that says nothing."""
    stopped = comparison.stopped[0] if comparison.stopped else None
    if stopped and stopped.reason == "futile" and outcome in ("inconclusive", "quality not established"):
        return describe_futile(stopped)
    if outcome == "inconclusive" and request.claim is None and (needed := ratio.needed) is not None:
        if request.fixed_rounds:
            return f"{format_count(needed.pairs, 'pair')} would tell; --rounds {needed.pairs} measures all of them again"
        return f"{format_count(needed.pairs, 'pair')} in all would tell, about {format_duration(60 * needed.minutes)} more"
    most = MOST_NAMED if request.fixed_rounds else MOST_PAIRS
    if ratio.outcome == "inconclusive" and request.claim is None and ratio.pairs < most:
        return f"no number of pairs up to {most} would tell, if all vary as these do"
    return None


def _describe(
    ratio: Ratio,
    comparison: Comparison,
    request: ProofRequest,
    outcome: Proof,
    learns: str,
    command: str,
    first: str,
    here: str,
    more: str | None,
    hidden: bool,
    objections: Sequence[JudgedObjection],
) -> str:
    bounds = () if request.claimed is None else (request.claimed,)
    value, interval = format_ratio(ratio.centre, ratio.low, ratio.high, *bounds)
    what = comparison.title_of(ratio.metric)
    pairs = f"{format_count(ratio.pairs, 'pair')} of runs"
    evidence = (
        f"{pairs}, where a verdict needs {LEAST_PAIRS}" if ratio.low is None else f"{name_interval(ratio)} {interval}, {pairs}"
    )
    if whole := describe_whole_process(ratio, comparison):
        evidence += f"; {whole}"
    if ratio.observed is not None:
        evidence += f"; {format_value(ratio.observed, '×')} by our clock"
    near = ""
    if outcome in ("faster", "slower", "claim holds", "claim fails"):
        near = warn_of_machines(ratio, ratio.centre, request.claimed or 1.0)
    if ratio.contested:
        found = f"{command} measured {value} as fast as {first}{here}, by the {what} ({evidence})"
    elif ratio.outcome == "equivalent":
        margin = format_value(comparison.equivalence_margin, "%")
        found = f"{command} is as fast as {first}{here}, within {margin}, by the {what} ({evidence})"
    elif ratio.outcome == "no verdict":
        found = f"no verdict yet: {command} measured {value} as fast as {first}{here}, by the {what} ({evidence})"
    elif outcome == "inconclusive" and request.claim is None:
        found = f"{command} measured {value} as fast as {first}{here}, by the {what} ({evidence})"
    else:
        found = f"{command} is {value} as fast as {first}{here}, by the {what} ({evidence})"
    claimed = f", '{request.claim}'" if request.claim else ""
    head = "Withheld" if outcome == "worse quality" else capitalize(outcome)
    said = f"{more}; {found}" if hidden else f"{found}{learns}{near}{f'; {more}' if more else ''}"
    leading = list_leading(ratio.objections, outcome == "inconclusive")
    doubts = "".join(f"{one.sentence}; " for one, known in zip(objections, ratio.objections, strict=True) if known in leading)
    conditions = [one.sentence for one, known in zip(objections, ratio.objections, strict=True) if known not in leading]
    # A command begins as it was typed.
    after = [f"{one if one.startswith((command, first)) else capitalize(one)}." for one in conditions]
    if comparison.trust_reported:
        after.append(f"Reported times are trusted: {comparison.trust_reported}.")
    if outcome == "inconclusive" and (remedy := describe_remedy(ratio.objections)):
        after.append(remedy)
    return " ".join([f"{head}{claimed}: {doubts}{said}.", *after])


def _read_qualities(ratio: Ratio, quality: QualityCheck | None, name: str) -> tuple[float | None, float | None]:
    """Return the quality of the command `name` and of the first; for a rate, the ratio's reference is that command."""
    if quality is None:
        return None, None
    found = quality.candidate_quality, quality.reference_quality
    return found if ratio.candidate == name else found[::-1]


def _describe_quality(
    ratio: Ratio, claim: Claim | None, quality: QualityCheck, rule: Quality, outcome: Proof, of: str, name: str
) -> str:
    """Return at what quality a ratio was found; both variants' values, whether or not they are judged."""
    own, other = _read_qualities(ratio, quality, name)
    if own is None or other is None:
        return "" if rule.margin is None else f", at a {rule.title} that is not judged: {quality.reason}"
    values = [rule.format(own), rule.format(other)]
    both = " against ".join(values)
    if rule.margin is None:
        return f", at a {rule.title} of {both}, which is not judged (--margin)"
    if outcome == "worse quality":
        return f", but at a worse quality{of}: {quality.reason}"
    if outcome == "quality not established":
        return f", but that the quality{of} is no worse is not established: {quality.reason}"
    decided = outcome in ("faster", "slower", "claim holds")
    if decided and quality.outcome == "no worse":
        judged = " against ".join(values[::-1] if of else values)  # that of the judged variant first
        return f", and the {rule.title}{of} is no worse ({judged}, margin {rule.margin:g})"
    if decided and is_better(ratio, quality, claim, rule):
        return f", and the {rule.title}{of} is better, though this is not established over seeds ({quality.reason})"
    return f", at a {rule.title} of {both}"


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
