"""What became of a documented number, in words: of page, Markdown and terminal alike."""

from speedproof.results.claim_results import ClaimResult


def describe_verdict(claim: ClaimResult) -> str:
    """Return the outcome; of a number that was judged, with how many conditions differ from its source's."""
    number = len(claim.conditions)
    if claim.verdict not in ("reproduced", "exceeded", "not reproduced here") or not number:
        return claim.verdict
    return f"{claim.verdict}, {'1 condition differs' if number == 1 else f'{number} conditions differ'}"


def describe_statement(claim: ClaimResult) -> str:
    """Return what a source states, and since when if that is known."""
    return f"{claim.documented} ({claim.date})" if claim.date else claim.documented
