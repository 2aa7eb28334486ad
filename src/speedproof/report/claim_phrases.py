"""What became of a documented number, in words: of page, Markdown and terminal alike."""

from speedproof.report.document import Badge, Tone
from speedproof.report.ratio_phrases import describe_needed
from speedproof.results.claim_results import ClaimResult, ClaimVerdict
from speedproof.util.numbers import format_range, format_value

_TONES: dict[ClaimVerdict, Tone] = {"reproduced": "good", "exceeded": "good", "not reproduced here": "bad"}


def describe_verdict(claim: ClaimResult) -> str:
    """Return the outcome; of a number that was judged, with how many conditions differ from its source's."""
    number = len(claim.conditions)
    if claim.verdict not in _TONES or not number:
        return claim.verdict
    return f"{claim.verdict}, {'1 condition differs' if number == 1 else f'{number} conditions differ'}"


def badge_verdict(verdict: ClaimVerdict, text: str) -> Badge:
    """Return a text in the colour of an outcome."""
    return Badge(text, _TONES.get(verdict, "open"))


def describe_statement(claim: ClaimResult) -> str:
    """Return what a source states, and since when if that is known."""
    return f"{claim.documented} ({claim.date})" if claim.date else claim.documented


def describe_outcome(claim: ClaimResult) -> str:
    """Return a documented number beside the measured one, and the outcome."""
    spread = "" if claim.low is None else f", 95 % interval {format_range(claim.low, claim.high, claim.unit)}"
    needed = f", {describe_needed(claim.needed, claim.scope)}" if claim.needed else ""
    return (
        f"{claim.text}: {claim.documented} on {claim.hardware}; measured {format_value(claim.measured, claim.unit)}{spread} "
        f"({claim.reason}): {describe_verdict(claim)}{needed}."
    )
