"""A campaign in words: one sentence of a try, and a table of all."""

from speedproof.report.document import Row
from speedproof.report.trace_listings import Listing
from speedproof.results.campaign_log import Campaign, Try, TryOutcome, TryReason
from speedproof.util.numbers import format_count, format_ratio

_OPENINGS: dict[TryOutcome, str] = {
    "kept": "Kept",
    "dropped": "Dropped",
    "continue": "Not decided yet",
    "refused": "Refused",
}
_REASONS: dict[TryReason, str] = {
    "faster": "it is faster, and is the reference from now on",
    "slower": "it is slower",
    "equivalent": "a gain worth keeping is excluded",
    "not shown": "no gain was shown",
    "budget": "the budget ended before a decision; try the same commit again to add pairs",
    "quality": "its quality is worse, or not established",
    "check": "a check contradicts its times",
    "protected": "it changes protected files",
    "nothing changed": "it has the same files as the reference",
}


def describe_try(row: Try) -> list[str]:
    """Return what came of a try: one sentence, then a line for each check and for the trace."""
    measured = ""
    if row.ratio is not None:
        value, interval = _measure(row)
        known = "" if row.low is None else f"interval {interval}, "
        measured = f" It measured {value} as fast as the reference ({known}{format_count(row.pairs, 'pair')})."
    named = f": {', '.join(row.files)}" if row.files else ""
    first = f"{_OPENINGS[row.outcome]}: {row.commit[:12]} ({row.title}): {_REASONS[row.reason]}{named}.{measured}"
    return [first, *row.checks, *([f"Why: {row.why}"] if row.why else [])]


def describe_campaign(found: Campaign) -> str:
    """Return where a campaign is, in two sentences."""
    if not found.tries:
        return (
            f"A campaign begins at {found.start[:12]}; planned tries: {found.tries_planned}. "
            "Commit a change, then run `speedproof campaign try HEAD`."
        )
    minutes = sum(one.minutes for one in found.tries)
    return (
        f"{found.kept} of {len(found.tries)} tries kept in {minutes:.1f} min; "
        f"{len(found.measured)} of {found.tries_planned} planned tries were measured. "
        f"The reference is {found.reference[:12]}; the campaign began at {found.start[:12]}."
    )


def list_tries(found: Campaign) -> Listing:
    """Return a row for each try."""
    columns = [">try", "commit", "change", "outcome", "because", "ratio", "interval", ">pairs", ">min"]
    rows = [_describe_row(one) for one in found.tries]
    return Listing("", columns, rows, most=len(rows))


def _describe_row(row: Try) -> Row:
    cost = [str(row.pairs), f"{row.minutes:.1f}"]
    return [str(row.number), row.commit[:12], row.title, row.outcome, row.reason, *_measure(row), *cost]


def _measure(row: Try) -> tuple[str, str]:
    return format_ratio(row.ratio, row.low, row.high, 1.0)
