"""The ledger as tables: on a terminal, and on its page of the documentation."""

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import get_args

from speedproof.report.document import Link, Row, Words
from speedproof.report.records_overview import tabulate_words
from speedproof.report.scope import SHARED_MACHINE
from speedproof.report.trace_listings import Listing
from speedproof.results.comparison_rows import ClaimVerdict
from speedproof.results.files import read_text
from speedproof.run.ledger.entry import LedgerEntry
from speedproof.run.ledger.entry_outcome import EntryOutcome, describe_entry_outcome, describe_measured, describe_versions
from speedproof.util.errors import ConfigError
from speedproof.util.numbers import NO_NUMBER, format_count

JudgedEntries = Mapping[str, tuple[LedgerEntry, list[EntryOutcome]]]
_ANY_BEGIN = "<!-- ledger: written by"
_BEGIN = re.compile(r"<!-- ledger: written by `speedproof ledger list`(?:\s+(?P<ids>[^>]*?))?\s*-->")
BEGIN_TABLE, END_TABLE = "<!-- ledger: written by `speedproof ledger list` -->", "<!-- end of ledger -->"
_NOT_MEASURED = EntryOutcome()


def list_ledger(judged: JudgedEntries) -> Listing:
    """Return a row for each entry, with its newest outcome."""
    columns = ["=id", "documented", "measured (95 % interval)", "outcome", ">est. minutes", "on"]
    rows = [_describe_row(name, entry, (outcomes or [_NOT_MEASURED])[0]) for name, (entry, outcomes) in judged.items()]
    return Listing("", columns, rows, most=len(rows))


def _describe_row(name: str, entry: LedgerEntry, outcome: EntryOutcome) -> Row:
    minutes, device = f"{entry.needs.minutes:g}", "GPU" if entry.needs.gpu else "CPU"
    return [name, entry.documented, describe_measured(outcome), outcome.verdict, minutes, device]


def describe_entry(entry: LedgerEntry, outcomes: Sequence[EntryOutcome]) -> Iterator[str]:
    """Yield what an entry documents, and what was found of it, as lines."""
    yield entry.title
    yield f"Source: {entry.source.project}, {entry.source.place}, {entry.source.url}"
    yield f"Documented: {entry.documented}: {entry.number.text}"
    yield f"Reproduced by: {entry.range_of_ratios}"
    yield f"Program: {entry.program}"
    yield f"Needs: {', '.join([*(['a GPU'] if entry.needs.gpu else []), *entry.needs.packages])}"
    for outcome in outcomes:
        yield describe_entry_outcome(entry, outcome)
        if outcome.results is None:
            continue
        if not entry.workload:  # whose conditions name them
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
    """Return a page's text with the tables of entries and their outcomes between its marks.

    A mark that names ids shows the newest outcome of these alone, and nothing else.
    """
    text = read_text(page)
    begin = _BEGIN.search(text)
    if not begin or text.count(END_TABLE) != 1 or text.index(END_TABLE) < begin.end() or text.count(_ANY_BEGIN) != 1:
        raise ConfigError(f"{page}: needs a line `{BEGIN_TABLE}` and after it `{END_TABLE}`, each once; mend them")
    named = (begin["ids"] or "").split()
    if unknown := [name for name in named if name not in judged]:
        raise ConfigError(f"{page}: no entry {unknown[0]} in {ledger}; correct the line `{begin[0].splitlines()[0]}`")
    shown = {name: (judged[name][0], judged[name][1][:1]) for name in named} if named else judged
    counted = "" if named else f"{_count_outcomes(judged)}\n\n"
    return f"{text[: begin.end()]}\n\n{counted}{_tabulate_page(page, ledger, shown)}\n{text[text.index(END_TABLE) :]}"


def _count_outcomes(judged: JudgedEntries) -> str:
    """Return how many entries there are, of how many projects, and how many have each outcome."""
    entries = [entry for entry, _ in judged.values()]
    counts = Counter((outcomes or [_NOT_MEASURED])[0].verdict for _, outcomes in judged.values())
    projects = format_count(len({entry.source.project for entry in entries}), "project")
    found = ", ".join(f"{counts[verdict]} {verdict}" for verdict in get_args(ClaimVerdict) if counts[verdict])
    on_gpu = sum(entry.needs.gpu for entry in entries)
    return f"{len(entries)} numbers of {projects}, {on_gpu} of them on a GPU. The newest outcomes: {found}."


def _link_entry(name: str, entry: LedgerEntry, ledger: Path, page: Path) -> Link:
    return Link(entry.title, os.path.relpath((ledger / f"{name}.yaml").absolute(), page.absolute().parent))


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
        [_link_entry(name, entry, ledger, page), *_describe_page_row(entry, outcome, page)]
        for name, (entry, outcomes) in sorted(judged.items(), key=lambda one: not one[1][1])  # what was measured comes first
        for outcome in outcomes or [_NOT_MEASURED]
    ]
    return tabulate_words(header, rows)


def _name_machine(outcome: EntryOutcome) -> str:
    return f"{outcome.machine}, {SHARED_MACHINE}" if outcome.shared else outcome.machine


def _describe_page_row(entry: LedgerEntry, outcome: EntryOutcome, page: Path) -> list[Words]:
    report = os.path.relpath((outcome.results / "report.md").absolute(), page.absolute().parent) if outcome.results else ""
    return [
        Link(entry.source.project, entry.source.url),
        entry.program,
        f"{entry.documented}, {entry.source.machine}",
        f"{describe_measured(outcome)}, {_name_machine(outcome)}" if outcome.ratio else NO_NUMBER,
        str(len(outcome.differences)) if outcome.ratio else NO_NUMBER,
        Link(outcome.verdict, report) if report else outcome.verdict,
        outcome.date or NO_NUMBER,
    ]
