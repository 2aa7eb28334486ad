"""The ledger as tables: on a terminal, and on its page of the documentation."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from speedproof.report.document import Link, Row, Words
from speedproof.report.records_overview import tabulate_words
from speedproof.report.trace_listings import Listing
from speedproof.results.files import read_text
from speedproof.run.ledger.entry import LedgerEntry
from speedproof.run.ledger.entry_outcome import EntryOutcome, describe_entry_outcome, describe_measured, describe_versions
from speedproof.util.errors import ConfigError
from speedproof.util.numbers import NO_NUMBER

JudgedEntries = Mapping[str, tuple[LedgerEntry, list[EntryOutcome]]]
BEGIN_TABLE, END_TABLE = "<!-- ledger: written by `speedproof ledger list` -->", "<!-- end of ledger -->"
_NOT_MEASURED = EntryOutcome()


def list_ledger(judged: JudgedEntries) -> Listing:
    """Return a row for each entry, with its newest outcome."""
    columns = ["id", "project", "documented", "measured (95 % interval)", "outcome", ">est. minutes", "on"]
    rows = [_describe_row(name, entry, (outcomes or [_NOT_MEASURED])[0]) for name, (entry, outcomes) in judged.items()]
    return Listing("", columns, rows, most=len(rows))


def _describe_row(name: str, entry: LedgerEntry, outcome: EntryOutcome) -> Row:
    minutes, device = f"{entry.needs.minutes:g}", "GPU" if entry.needs.gpu else "CPU"
    return [name, entry.source.project, entry.documented, describe_measured(outcome), outcome.verdict, minutes, device]


def describe_entry(entry: LedgerEntry, outcomes: Sequence[EntryOutcome]) -> Iterator[str]:
    """Yield what an entry documents, and what was found of it, as lines."""
    yield entry.title
    yield f"Source: {entry.source.project}, {entry.source.place}, {entry.source.url}"
    yield f"Documented: {entry.documented}: {entry.number.text}"
    yield f"Program: {entry.program}"
    yield f"Needs: {', '.join([*(['a GPU'] if entry.needs.gpu else []), *entry.needs.packages])}"
    for outcome in outcomes:
        yield describe_entry_outcome(entry, outcome)
        if outcome.results is None:
            continue
        yield f"Versions: {describe_versions(outcome.versions) or 'not recorded'}"
        if outcome.quality not in ("", "not judged"):
            yield f"Quality: {outcome.quality}"
        yield f"Why: {outcome.why}"
        yield from (f"Differs: {one}" for one in outcome.differences)
        yield f"Results: {outcome.results}"


def write_outcomes_json(outcomes: Sequence[EntryOutcome]) -> str:
    """Return outcomes as JSON."""
    return json.dumps([one.model_dump(mode="json") for one in outcomes], indent=1, ensure_ascii=False)


def compose_ledger_page(page: Path, ledger: Path, judged: JudgedEntries) -> str:
    """Return a page's text with the table of all entries and their outcomes between its marks."""
    text = read_text(page)
    if not (text.count(BEGIN_TABLE) == text.count(END_TABLE) == 1 and text.index(BEGIN_TABLE) < text.index(END_TABLE)):
        raise ConfigError(f"{page}: needs a line `{BEGIN_TABLE}` and after it `{END_TABLE}`, each once; add them")
    before, after = text[: text.index(BEGIN_TABLE)], text[text.index(END_TABLE) :]
    return f"{before}{BEGIN_TABLE}\n\n{_tabulate_page(page, ledger, judged)}\n{after}"


def _tabulate_page(page: Path, ledger: Path, judged: JudgedEntries) -> str:
    header = [
        "Claim",
        "Project",
        "Program",
        "Documented",
        "Measured here (95 % interval)",
        "Conditions that differ",
        "Outcome",
        "Date",
    ]
    rows = [
        _describe_page_row(ledger / f"{name}.yaml", entry, outcome, page)
        for name, (entry, outcomes) in judged.items()
        for outcome in outcomes or [_NOT_MEASURED]
    ]
    return tabulate_words(header, rows)


def _describe_page_row(path: Path, entry: LedgerEntry, outcome: EntryOutcome, page: Path) -> list[Words]:
    here = page.absolute().parent
    report = os.path.relpath((outcome.results / "report.md").absolute(), here) if outcome.results else ""
    return [
        Link(entry.title, os.path.relpath(path.absolute(), here)),
        Link(entry.source.project, entry.source.url),
        entry.program,
        f"{entry.documented}, {entry.source.machine}",
        f"{describe_measured(outcome)}, {outcome.machine}" if outcome.ratio else NO_NUMBER,
        str(len(outcome.differences)) if outcome.ratio else NO_NUMBER,
        Link(outcome.verdict, report) if report else outcome.verdict,
        outcome.date or NO_NUMBER,
    ]
