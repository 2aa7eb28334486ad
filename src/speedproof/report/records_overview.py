"""The README's tables of records: what each of them measured, and what became of each claim, in a line."""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_args

from speedproof.report.document import Link, Marked, Words
from speedproof.report.headlines import describe_statement, describe_verdict, name_case
from speedproof.report.markdown import escape_markdown
from speedproof.report.scope import SHARED_MACHINE
from speedproof.results.comparison import COMPARISON_FILE, Comparison
from speedproof.results.comparison_rows import ClaimResult, ClaimVerdict
from speedproof.results.files import read_text, write_text
from speedproof.results.folder import read_current_comparison, read_results
from speedproof.stats.estimates import LEAST_PAIRS
from speedproof.stats.main_ratios import list_judged
from speedproof.stats.metrics import TRAINING_EPOCH
from speedproof.util.errors import RecordError
from speedproof.util.numbers import NO_NUMBER, format_range, format_value

BEGIN = "<!-- {part}: written by `speedproof results list` -->"
END = "<!-- end of {part} -->"
_HEADER = ["Date", "GPU", "Data", "Workload", "Training epoch", "Documented numbers", "Record"]
_CASES_HEADER = ["Claim", "Documented", "Measured (95 % interval)", "Verdict", "Record"]
_NEWEST = 3


def tabulate_records(folder: Path, newest: int | None = None, link: str | None = None) -> str:
    """Return a Markdown table with a row for each record in a folder, or for the newest of them, the newest first.

    Times are each variant's training epoch in timed runs, the slowest first; a range if several machines are not merged. Links
    start with `link`, or else with the folder's name.

    Raises:
        RecordError: a record cannot be read.
    """
    return _tabulate(_HEADER, [_describe_record(record, _link(record, link)) for record in _list_records(folder)[:newest]])


def tabulate_cases(folder: Path, link: str | None = None) -> str:
    """Return a Markdown table of the judged documented numbers: what is documented, what was measured, and the verdict.

    Each claim is taken from the newest record that has enough pairs of runs, or runs, for a verdict on it; if none has,
    from the newest.

    Raises:
        RecordError: a record cannot be read.
    """
    rows: dict[tuple[str, str], list[Words]] = {}
    records = [(_link(record, link), read_current_comparison(record)) for record in _list_records(folder)]
    for enough in (True, False):
        for where, comparison in records:
            for claim in list_judged(comparison):
                if (claim.verdict != "inconclusive" or (claim.counted or 0) >= LEAST_PAIRS) == enough:
                    case = [*_describe_case(claim, comparison.conditions.device_name()), where]
                    rows.setdefault((claim.source, claim.id), case)
    return _tabulate(_CASES_HEADER, list(rows.values()))


def update_readme(readme: Path, folder: Path, link: str | None = None) -> None:
    """Write tables of a folder's records between the marks of a document: `records`, `newest records`, `cases`.

    Links start with `link`, or else with the way from the document to the folder.

    Raises:
        RecordError: the document has no such marks, or a record cannot be read.
    """
    text = read_text(readme)
    link = os.path.relpath(folder.absolute(), readme.absolute().parent) if link is None else link
    tables: dict[str, Callable[[], str]] = {
        "records": lambda: tabulate_records(folder, link=link),
        "newest records": lambda: tabulate_records(folder, _NEWEST, link),
        "cases": lambda: tabulate_cases(folder, link),
    }
    marks = {part: (BEGIN.format(part=part), END.format(part=part)) for part in tables}
    present = {part: (begin, end) for part, (begin, end) in marks.items() if begin in text or end in text}
    for part, (begin, end) in (present or {"records": marks["records"]}).items():
        if not (text.count(begin) == text.count(end) == 1 and text.index(begin) < text.index(end)):
            remedy = "mend them" if present else "add them where the table belongs"
            raise RecordError(f"{readme}: needs a line `{begin}` and after it `{end}`, each once; {remedy}")
        text = f"{text[: text.index(begin)]}{begin}\n{tables[part]()}{text[text.index(end) :]}"
    write_text(readme, text)


def _list_records(folder: Path) -> list[Path]:
    return sorted((path.parent for path in folder.glob(f"*/{COMPARISON_FILE}")), reverse=True)


def _link(record: Path, link: str | None) -> Link:
    return Link(record.name, f"{record.parent.name if link is None else link}/{record.name}/report.md")


def _tabulate(header: Sequence[str], rows: Sequence[Sequence[Words]]) -> str:
    cells = [header, ["---"] * len(header), *(map(escape_markdown, row) for row in rows)]
    return "".join(f"| {' | '.join(row)} |\n" for row in cells)


def _describe_case(claim: ClaimResult, device: str) -> list[Words]:
    measured = format_value(claim.measured, claim.unit)
    if claim.low is not None and claim.high is not None:
        measured += f" ({format_range(claim.low, claim.high, claim.unit)})"
    lacking = claim.reason.partition("; ")[2]  # what keeps it from more, as that a verdict needs more pairs
    return [
        Link(claim.text, claim.url),
        f"{describe_statement(claim)}, {claim.hardware}",
        Marked(f"{measured}, {escape_markdown(device)}{f', {SHARED_MACHINE}' if claim.runs_beside else ''}"),
        f"{describe_verdict(claim)}: {lacking}" if lacking else describe_verdict(claim),
    ]


def _describe_record(record: Path, where: Link) -> list[Words]:
    comparison, runs = read_current_comparison(record), read_results(record).runs
    conditions = comparison.conditions
    dates = sorted({run.run.started[:10] for run in runs})
    counts = Counter(claim.verdict for claim in comparison.claims)
    verdicts = [f"{counts[verdict]} {verdict}" for verdict in get_args(ClaimVerdict) if counts[verdict]]
    epochs = [f"{escape_markdown(title)} {_format_experiments(epochs_s)}" for title, epochs_s in _training_epochs_s(comparison)]
    return [
        dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}",
        conditions.device_name() + (f", {SHARED_MACHINE}" if any(run.had_company for run in runs) else ""),
        "synthetic" if conditions.synthetic_data else conditions.dataset_name or NO_NUMBER,
        name_case(runs[0].run.case),
        Marked(", ".join(epochs) or NO_NUMBER),
        ", ".join(verdicts) or NO_NUMBER,
        where,
    ]


def _format_experiments(epochs_s: list[float]) -> str:
    """Write one machine's time, or the shortest and the longest of several where they read differently."""
    shortest, longest = format_value(min(epochs_s), "s"), format_value(max(epochs_s), "s")
    return shortest if shortest == longest else format_range(min(epochs_s), max(epochs_s), "s")


def _training_epochs_s(comparison: Comparison) -> list[tuple[str, list[float]]]:
    """Return the timed training epochs of every variant, the slowest first: of each experiment, or one of all its machines.

    A stage of an ablation between two variants is left out.
    """
    found: dict[str, list[float]] = {}
    for row in comparison.measured:
        if (row.mode, row.metric) == ("timed", TRAINING_EPOCH):
            found.setdefault(row.title, []).append(row.centre)
    return sorted(found.items(), key=lambda variant: -min(variant[1]))
