"""The README's table of records: what each of them measured, in a line."""

from collections import Counter
from pathlib import Path
from typing import get_args

from speedproof.common.errors import RecordError
from speedproof.common.numbers import NO_NUMBER, format_range, format_value
from speedproof.records.comparison import COMPARISON_FILE, Comparison, Verdict
from speedproof.records.files import read_text, write_text
from speedproof.records.results import read_current_comparison, read_results
from speedproof.report.markdown import escape_markdown

BEGIN = "<!-- records: written by `speedproof records` -->"
END = "<!-- end of records -->"
_HEADER = ["Date", "GPU", "Workload", "Training epoch", "Documented numbers", "Record"]


def tabulate_records(folder: Path) -> str:
    """Return a Markdown table with a row for each record in a folder, the newest first; links start with the folder's name.

    Times are the training epoch of timed runs, of each side, the slowest first; of several machines that do not speak together,
    the range.

    Raises:
        RecordError: a record cannot be read.
    """
    records = sorted((path.parent for path in folder.glob(f"*/{COMPARISON_FILE}")), reverse=True)
    rows = [_HEADER, ["---"] * len(_HEADER), *(_describe_record(record) for record in records)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def update_readme(readme: Path, folder: Path) -> None:
    """Write the table of a folder's records between the two marks of a README.

    Raises:
        RecordError: the README has no such marks, or a record cannot be read.
    """
    text = read_text(readme)
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise RecordError(f"{readme}: needs a line `{BEGIN}` and after it `{END}`, each once; add them where the table belongs")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    write_text(readme, f"{before}{BEGIN}\n{tabulate_records(folder)}{END}{after}")


def _describe_record(record: Path) -> list[str]:
    comparison = read_current_comparison(record)
    runs = read_results(record).runs
    dates = sorted({run.run.started[:10] for run in runs})
    sides = sorted(_training_epochs_s(comparison).items(), key=lambda side: -min(side[1]))
    counts = Counter(claim.verdict for claim in comparison.claims)
    verdicts = [f"{counts[verdict]} {verdict}" for verdict in get_args(Verdict) if counts[verdict]]
    return [
        dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}",
        escape_markdown(comparison.conditions.device_name()),
        escape_markdown(runs[0].run.case.replace("_", " ")),
        ", ".join(f"{escape_markdown(title)} {_format_blocks(epochs_s)}" for title, epochs_s in sides) or NO_NUMBER,
        ", ".join(verdicts) or NO_NUMBER,
        f"[{record.name}]({record.parent.name}/{record.name}/report.md)",
    ]


def _format_blocks(epochs_s: list[float]) -> str:
    """Write one machine's time, or the shortest and the longest of several where they read differently."""
    shortest, longest = min(epochs_s), max(epochs_s)
    alike = format_value(shortest, "s") == format_value(longest, "s")
    return format_value(shortest, "s") if alike else format_range(shortest, longest, "s")


def _training_epochs_s(comparison: Comparison) -> dict[str, list[float]]:
    """Return the timed training epochs of every side, by title: of each block, or one of all its machines.

    A step on the way between two sides is no side.
    """
    found: dict[str, list[float]] = {}
    for row in comparison.measured:
        if (row.arm, row.metric) == ("timed", "training_epoch_s"):
            found.setdefault(row.title, []).append(row.centre)
    return found
