"""What Snakemake's own report starts with: the first screen, as reStructuredText."""

import re
from pathlib import Path

from speedproof.report.document import Link, Words
from speedproof.util.text import printable


def describe_results(results: Path) -> str:
    """Return the outcome, the sentence, the facts and the caveats of a results folder.

    Raises :class:`RecordError` if it has no comparison, or one that is out of date.
    """
    from speedproof.report.figures.figure_data import read_evidence  # which a login node that only plans may lack
    from speedproof.report.first_screen import compose_first_screen

    first = compose_first_screen(read_evidence(results))
    outcome = ", ".join(_escape(badge.text) for badge in first.badges)
    facts = [(fact.name, fact.text) for fact in (*first.facts, *first.caveats)] + ([("Why", first.why)] if first.why else [])
    fields = [f":{_escape(name)}: {_escape(text)}" for name, text in facts]
    said = f"**{_escape(first.sentence)}** {_escape(first.note)}".rstrip()
    return "\n".join([said, "", f"Outcome: {outcome}.", "", *fields])


def _escape(words: Words) -> str:
    """Return words on one line, in which no character is markup."""
    parts = [words] if isinstance(words, str | Link) else words
    text = "".join(part.text if isinstance(part, Link) else part for part in parts)
    return re.sub(r"([^\w\s]|_)", r"\\\1", printable(" ".join(text.split())))
