"""Tables of records for a document: what each of them measured, and what became of each documented number, in a line."""

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, get_args

import yaml
from pydantic import TypeAdapter, ValidationError

from speedproof.report.document import Link, Marked, Words
from speedproof.report.headlines import name_case
from speedproof.report.markdown import escape_markdown
from speedproof.report.scope import SHARED_MACHINE
from speedproof.results.comparison import COMPARISON_FILE, Comparison
from speedproof.results.comparison_rows import ClaimResult, ClaimVerdict
from speedproof.results.files import read_text, write_text
from speedproof.results.folder import read_current_comparison, read_results
from speedproof.stats.estimates import LEAST_PAIRS
from speedproof.stats.found_tables import Findings
from speedproof.stats.main_ratios import list_judged
from speedproof.stats.metrics import TRAINING_EPOCH
from speedproof.util.errors import RecordError
from speedproof.util.numbers import NO_NUMBER, format_range, format_value

BEGIN = "<!-- {part}: written by `speedproof results list` -->"
END = "<!-- end of {part} -->"
_BEGINNING = r"<!-- {part}: written by `speedproof results list`(?:\n(?P<groups>.*?))?\s*-->"
_RECORDS_HEADER = ["Date", "GPU", "Data", "Workload", "Training epoch", "Documented numbers", "Record"]
_CASES_HEADER = ["Claim", "Documented", "Measured here (95 % interval)", "Conditions that differ", "Outcome"]

Groups = Mapping[str, Sequence[str]]


class Setup(NamedTuple):
    """When, where, on what data and of which workload results were measured."""

    date: str
    machine: str
    data: str
    workload: str


class _Case(NamedTuple):
    """A documented number that was judged, and the record that did so."""

    claim: ClaimResult
    device: str
    report: str


def read_setup(results: Path, comparison: Comparison) -> Setup:
    """Return when, where, on what data and of which workload results were measured."""
    read, conditions = read_results(results), comparison.conditions
    return Setup(
        read.days,
        conditions.device_name() + (f", {SHARED_MACHINE}" if any(run.had_company for run in read.runs) else ""),
        "synthetic" if conditions.synthetic_data else conditions.dataset_name or NO_NUMBER,
        name_case(read.runs[0].run.case),
    )


def tabulate_records(folder: Path, link: str | None = None) -> str:
    """Return a Markdown table with a row for each record in a folder, the newest first.

    Times are each variant's training epoch in timed runs, the slowest first; a range if several machines are not merged. Links
    start with `link`, or else with the folder's name.

    Raises:
        RecordError: a record cannot be read.
    """
    rows = [_describe_record(record, Link(record.name, _locate(record, link))) for record in _list_records(folder)]
    return tabulate_words(_RECORDS_HEADER, rows)


def tabulate_cases(folder: Path, link: str | None = None, groups: Groups | None = None) -> str:
    """Return a Markdown table of the documented numbers that were judged, or of those alone whose ids `groups` lists by title.

    Each claim is taken from the newest record that has enough pairs of runs, or runs, for a verdict on it; if none has, from
    the newest.

    Raises:
        RecordError: a record cannot be read, or no record judged a listed claim.
    """
    cases = _find_cases(folder, link)
    if groups is None:
        return tabulate_words(_CASES_HEADER, [_describe_case(case) for case in cases])
    by_id = {case.claim.id: case for case in reversed(cases)}
    if unknown := [name for names in groups.values() for name in names if name not in by_id]:
        raise RecordError(f"no record in {folder} judged {unknown[0]}; correct the list of cases")
    rows = [
        [title if number == 0 else "", *_describe_case(by_id[name])]
        for title, names in groups.items()
        for number, name in enumerate(names)
    ]
    return tabulate_words(["", *_CASES_HEADER], rows)


def update_readme(readme: Path, folder: Path, link: str | None = None) -> None:
    """Write tables of a folder's records between the marks of a document: `records`, `cases`.

    The first mark of `cases` may hold YAML lines, `title: [id, …]`: which claims are shown, in groups. Links start with `link`,
    or else with the way from the document to the folder.

    Raises:
        RecordError: the document has no such marks, or a record cannot be read.
    """
    text = read_text(readme)
    link = os.path.relpath(folder.absolute(), readme.absolute().parent) if link is None else link
    present = [part for part in ("records", "cases") if END.format(part=part) in text or _find_beginnings(text, part)]
    for part in present or ["records"]:
        begin, end = _find_beginnings(text, part), END.format(part=part)
        if not (len(begin) == text.count(end) == 1 and begin[0].start() < text.index(end)):
            remedy = "mend them" if present else "add them where the table belongs"
            raise RecordError(f"{readme}: needs a line `{BEGIN.format(part=part)}` and after it `{end}`, each once; {remedy}")
        groups = _read_groups(begin[0]["groups"], readme)
        table = tabulate_records(folder, link) if part == "records" else tabulate_cases(folder, link, groups)
        text = f"{text[: begin[0].end()]}\n{table}{text[text.index(end) :]}"
    write_text(readme, text)


def _find_beginnings(text: str, part: str) -> list[re.Match[str]]:
    return list(re.finditer(_BEGINNING.format(part=part), text, re.DOTALL))


def _read_groups(text: str | None, readme: Path) -> Groups | None:
    if text is None:
        return None
    try:
        return TypeAdapter(dict[str, list[str]]).validate_python(yaml.safe_load(text))
    except (yaml.YAMLError, ValidationError):
        raise RecordError(f"{readme}: the list of cases needs lines `title: [id, …]`") from None


def _find_cases(folder: Path, link: str | None) -> list[_Case]:
    found: dict[tuple[str, str], _Case] = {}
    records = [(_locate(record, link), read_current_comparison(record)) for record in _list_records(folder)]
    for enough in (True, False):
        for report, comparison in records:
            for claim in list_judged(comparison):
                if (claim.verdict != "inconclusive" or _has_enough(claim)) == enough:
                    found.setdefault((claim.source, claim.id), _Case(claim, comparison.conditions.device_name(), report))
    return list(found.values())


def _has_enough(claim: ClaimResult) -> bool:
    return (claim.counted or 0) >= LEAST_PAIRS


def _list_records(folder: Path) -> list[Path]:
    return sorted((path.parent for path in folder.glob(f"*/{COMPARISON_FILE}")), reverse=True)


def _locate(record: Path, link: str | None) -> str:
    return f"{record.parent.name if link is None else link}/{record.name}/report.md"


def tabulate_words(header: Sequence[str], rows: Sequence[Sequence[Words]]) -> str:
    cells = [header, ["---"] * len(header), *(map(escape_markdown, row) for row in rows)]
    return "".join(f"| {' | '.join(row)} |\n" for row in cells)


def _describe_case(case: _Case) -> list[Words]:
    claim = case.claim
    measured = format_value(claim.measured, claim.unit)
    if claim.low is not None and claim.high is not None:
        measured += f" ({format_range(claim.low, claim.high, claim.unit)})"
    return [
        Link(claim.text, claim.url),
        f"{claim.documented}, {claim.hardware}",
        Marked(f"{measured}, {escape_markdown(case.device)}{f', {SHARED_MACHINE}' if claim.runs_beside else ''}"),
        str(len(claim.conditions)),
        Link(_describe_outcome(claim), case.report),
    ]


def _describe_outcome(claim: ClaimResult) -> str:
    if claim.verdict != "inconclusive" or _has_enough(claim):
        return claim.verdict
    return f"{claim.verdict}: a verdict needs {LEAST_PAIRS} {'pairs' if claim.ratio else 'runs'}"


def _describe_record(record: Path, where: Link) -> list[Words]:
    comparison = read_current_comparison(record)
    setup = read_setup(record, comparison)
    counts = Counter(claim.verdict for claim in comparison.claims)
    verdicts = [f"{counts[verdict]} {verdict}" for verdict in get_args(ClaimVerdict) if counts[verdict]]
    epochs = [f"{escape_markdown(title)} {_format_experiments(epochs_s)}" for title, epochs_s in _training_epochs_s(comparison)]
    return [
        *setup,
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
    for one in Findings(comparison).levels:
        if one.metric == TRAINING_EPOCH:
            found.setdefault(one.variant.title, []).append(one.ends[0])
    return sorted(found.items(), key=lambda variant: -min(variant[1]))
