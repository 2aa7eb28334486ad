"""A gate in words: for the terminal, for a CI's summary, and for its annotations."""

from speedproof.report.markdown import escape_link, escape_markdown
from speedproof.results.gate_result import Calibration, GatedCommit, GateOutcome, GateReason, GateResult
from speedproof.stats.metrics import METRICS
from speedproof.util.numbers import format_count, format_ratio, format_value
from speedproof.util.text import capitalize

OPENINGS: dict[GateOutcome, str] = {
    "passed": "Passed",
    "regression": "Regression",
    "no improvement": "No improvement",
    "worse quality": "Worse quality",
    "inconclusive": "Inconclusive",
}
LOG, REPORT = "Log of this run", "Report"  # what a summary links to
FAILED = "\N{CROSS MARK}"
# The selector makes it a picture as the others are.
_WARNING = "\N{WARNING SIGN}\N{VARIATION SELECTOR-16}"
_SIGNS: dict[GateOutcome, str] = {"passed": "\N{WHITE HEAVY CHECK MARK}", "inconclusive": _WARNING}
_OPEN_REASONS: dict[GateReason, str] = {
    "check": "a check contradicts the ratio",
    "quality": "{heads} quality is not established",
    "interval": "the interval contains the limit of {limit}",
}


def describe_gate(found: GateResult) -> str:
    """Return the outcome in one sentence, with the numbers that it rests on."""
    opening = OPENINGS[found.outcome]
    if found.reason == "nothing changed":
        return f"{opening}: base and head have the same files, so nothing was measured."
    if found.ratio is None:
        return f"{opening}: base and head have no ratio."
    return f"{opening}: the head is {_describe_ratio(found, found.ratio)}; {_describe_outcome(found, 'it', 'its')}."


def _describe_ratio(found: GateResult, ratio: float) -> str:
    value, interval = format_ratio(ratio, found.low, found.high, found.limit)
    known = "" if found.low is None else f"95 % interval {interval}, "
    return f"{value} as fast as the base ({known}{format_count(found.pairs, 'pair')})"


def _describe_outcome(found: GateResult, head: str, heads: str) -> str:
    """Return what the outcome means; `head` and `heads` name the head, and whose quality it is."""
    allowed = f"{100 * found.regression:g} %"
    match found.outcome:
        case "passed":
            return f"{_describe_tested(found)} is {'excluded' if found.improvement is None else 'shown'}"
        case "regression":
            longer = "" if found.ratio is None else f"{head} takes {_format_longer(found.ratio)} % longer, and "
            return f"{longer}at most {allowed} is allowed"
        case "no improvement":
            return f"a speedup of {100 * (found.improvement or 0):g} % is excluded"
        case "worse quality":
            return f"{heads} quality is worse"
        case _ if found.low is None and found.reason == "interval":
            return "too few pairs for an interval"
        case _:
            return _OPEN_REASONS.get(found.reason, "").format(limit=_format_limit(found), heads=heads)


def _format_longer(ratio: float) -> str:
    percent = 100 / ratio - 100
    return f"{percent:.2g}" if percent < 99.5 else f"{percent:.0f}"


def _format_limit(found: GateResult) -> str:
    return format_value(found.limit, "×")


def list_gate_lines(found: GateResult) -> list[str]:
    """Return what follows the first sentence, a paragraph each."""
    paragraphs = [*found.checks, *found.notes, found.more, f"Why: {found.why}" if found.why else None]
    return [f"{capitalize(text).rstrip('.')}." for text in paragraphs if text]


def write_gate_summary(found: GateResult, link: str | None = None, label: str = LOG) -> str:
    """Return the outcome as Markdown: what it means, both commits, what was noticed, and a link to more."""
    lines = [
        f"### {_SIGNS.get(found.outcome, FAILED)} Speed gate: {OPENINGS[found.outcome].lower()}",
        "",
        *_write_finding(found),
        "",
        f"Command: `{found.command.replace('`', ' ')}`",
        *([f"\n{escape_markdown(' '.join(list_gate_lines(found)))}"] if list_gate_lines(found) else []),
        # A runner's folders are gone when somebody reads this.
        *([f"\nNext: `{found.next_command.replace('`', ' ')}`"] if found.next_command and not link else []),
        *_write_link(link, label),
    ]
    return "\n".join(map(str, lines)) + "\n"


def _write_finding(found: GateResult) -> list[str]:
    """Return the outcome in bold and the numbers that it rests on; without numbers, one sentence."""
    if found.ratio is None:
        return [str(escape_markdown(describe_gate(found)))]
    metric = METRICS[found.metric].title if found.metric in METRICS else "time"
    commits = (("base", found.base), ("head", found.head))
    rows = [[title, _name_commit(one), format_value(one.value, found.unit)] for title, one in commits]
    outcome, ratio = _describe_outcome(found, "the head", "the head's"), _describe_ratio(found, found.ratio)
    if found.outcome == "inconclusive" and found.reason == "interval":
        why = "too few pairs for an interval" if found.low is None else f"the limit is {_format_limit(found)}"
        outcome, ratio = f"{_describe_tested(found)} is neither shown nor excluded", f"{ratio}; {why}"
    return [
        f"**{escape_markdown(capitalize(outcome))}.** The head is {escape_markdown(ratio)}.",
        "",
        *_draw_table(["", "commit", metric], *rows),
    ]


def _describe_tested(found: GateResult) -> str:
    if found.improvement is not None:
        return f"a speedup of at least {100 * found.improvement:g} %"
    return f"a slowdown of more than {100 * found.regression:g} %"


def write_error_summary(message: str, link: str | None = None) -> str:
    """Return an error as Markdown."""
    said = f"### {FAILED} Speed gate: error\n\nNothing was decided: {escape_markdown(message)}"
    return "\n".join([said, *_write_link(link, LOG)]) + "\n"


def _write_link(link: str | None, label: str) -> list[str]:
    return [f"\n[{label}]({escape_link(link)})"] if link else []


def _name_commit(one: GatedCommit) -> str:
    return one.sha[:12] if one.sha.startswith(one.name) else f"{one.sha[:12]} ({one.name})"


def _draw_table(*rows: list[str]) -> list[str]:
    """Return a table whose last column holds numbers."""
    drawn = [f"| {' | '.join(str(escape_markdown(cell)) for cell in row)} |" for row in rows]
    return [drawn[0], f"|{' --- |' * (len(rows[0]) - 1)} ---: |", *drawn[1:]]


def describe_calibration(found: Calibration) -> str:
    """Return what a runner can detect, in one sentence."""
    noise = f"{100 * found.deviation:.2g} % (standard deviation of {format_count(found.pairs, 'pair')})"
    return (
        f"Smallest --regression for this command here: {100 * found.detectable:.6g}%. If nothing changed, a gate excludes it "
        f"nine times in ten within {found.budget_min:g} min. Two runs of one commit differed by {noise}."
    )
