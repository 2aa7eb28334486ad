"""A trace's summary, and the difference of two, as tables on a terminal. The files hold all of it, and every digit."""

import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table

from speedproof.report.trace_listings import LONGEST_NAME, Listing, list_difference, list_summary
from speedproof.report.trace_phrases import (
    describe_arithmetic,
    describe_candidates,
    describe_communication,
    describe_counters,
    describe_epoch_change,
    describe_epochs,
    describe_explained_share,
    describe_ideal,
    describe_launches,
    describe_main_cause,
    describe_paths,
    describe_unattributed,
)
from speedproof.results.summary import Summary
from speedproof.results.trace_results import Difference
from speedproof.util.text import find_width, fold, plain, printable

if TYPE_CHECKING:
    from speedproof.stats.found_tables import Findings

_WIDTH = 120  # if the output is not a terminal
_LEAST_TEXT = 16  # characters of a column of words that is not cut into pieces
_BETWEEN = 2  # characters between columns


def print_summary(summary: Summary, console: Console | None = None) -> None:
    """Print where the time of a trace went: the answer, what to know, tables."""
    console = console or make_console()
    print_line(console, describe_epochs(summary))
    if summary.idle_gaps:
        print_line(console, describe_main_cause(summary))
    for warning in summary.warnings:
        print_line(console, f"Note: {warning}")
    console.print()
    for listing in list_summary(summary):
        print_listing(console, listing)
    if summary.ideal_epoch_s is not None:
        print_line(console, describe_ideal(summary))
        print_line(console, describe_unattributed(summary))
    if summary.idle_gaps:
        print_line(console, describe_explained_share(summary))
    if summary.launches is not None:
        print_line(console, describe_launches(summary.launches))
    for text in [*describe_counters(summary), *describe_arithmetic(summary)]:
        print_line(console, text)
    if summary.critical_paths:
        print_line(console, describe_paths(summary))
    if summary.communication is not None:
        print_line(console, describe_communication(summary.communication))
    if summary.candidates:
        print_line(console, describe_candidates(summary))


def print_difference(difference: Difference, console: Console | None = None) -> None:
    """Print why an epoch, or a sample where their number is known, of trace B takes longer or shorter than of trace A."""
    console = console or make_console()
    print_line(console, "".join(describe_epoch_change("A", "B", difference)))
    print_line(console, f"A: {difference.a}")
    print_line(console, f"B: {difference.b}")
    console.print()
    for note in difference.notes:
        print_line(console, f"Note: {note}")
    for listing in list_difference(difference):
        print_listing(console, listing)


def print_metrics(found: "Findings", console: Console | None = None) -> None:
    """Print every metric of the timed runs."""
    from speedproof.report.report_tables import list_further, list_levels  # of a results folder, which no trace's tables need

    console = console or make_console()
    for title, columns, rows in (
        ("Timed runs", ["variant", "metric", ">mean", ">95 % interval", ">runs"], list_levels(found)),
        (
            "Further metrics; a ratio above 1 is better than the first variant",
            ["metric", "variant", ">mean", ">95 % interval", ">runs", ">ratio"],
            list_further(found),
        ),
    ):
        print_listing(console, Listing(title, columns, rows, most=len(rows)))


class _Output(Console):
    """Standard output. That nobody reads it any more is for the command to judge: of a proof, no status of a verdict."""

    def on_broken_pipe(self) -> None:
        raise


def make_console() -> Console:
    """Return standard output, as wide as its terminal; only there text has styles."""
    return _Output(highlight=False, markup=False, width=find_width(sys.stdout) or _WIDTH)  # names of kernels hold brackets


def print_line(console: Console, text: str) -> None:
    """Print a paragraph."""
    console.print(fold(printable(text), console.width), soft_wrap=True)


def print_listing(console: Console, listing: Listing) -> None:
    """Print a table, as far as it has rows."""
    if not listing.rows:
        return
    listing = listing.filled()
    rows = [[plain(printable(cell)) for cell in row] for row in listing.rows[: listing.most]]
    columns = [
        _Column(column.lstrip(">="), cells, column.startswith(">"), column.startswith("="))
        for column, cells in zip(listing.columns, zip(*rows, strict=True), strict=True)
    ]
    if listing.title:
        print_line(console, listing.title)
    fits = sum(column.least + _BETWEEN for column in columns) <= console.width
    of_one_kind = len({column.numbers for column in columns}) == 1
    for line in _draw(console, columns) if fits or of_one_kind else _stack(console, columns):
        console.print(line, soft_wrap=True)
    if (left_off := len(listing.rows) - listing.most) > 0:
        print_line(console, f" and {left_off} more")
    console.print()


@dataclass(frozen=True)
class _Column:
    """A column of a table, of words or of numbers."""

    title: str
    cells: Sequence[str]
    numbers: bool
    names: bool  # to be copied

    @cached_property
    def longest(self) -> int:
        """Return the width of its longest cell, or of a longer word of its name."""
        return max(map(len, (*self.cells, *self.title.split())))

    @property
    def whole(self) -> bool:
        """Return whether its cells stay on one line each: numbers and names do, and their title takes as many as it must."""
        return self.names or (self.numbers and self.longest <= LONGEST_NAME)

    @property
    def least(self) -> int:
        """Return the width below which it cannot be read."""
        return self.longest if self.whole else min(self.longest, _LEAST_TEXT)


def _draw(console: Console, columns: Sequence[_Column]) -> list[str]:
    """Return the lines of a table."""
    head, rows = _draw_rows(console, columns)
    return [*head, *(line for row in rows for line in row)]


def _draw_rows(console: Console, columns: Sequence[_Column]) -> tuple[list[str], list[list[str]]]:
    """Return the lines of a table's head, and those of each row."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for column in columns:
        name = textwrap.fill(column.title, column.longest) if column.whole else column.title
        table.add_column(name, justify="right" if column.numbers else "left", overflow="fold", no_wrap=column.whole)
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*row, end_section=True)  # a blank line follows
    with console.capture() as captured:
        console.print(table)
    groups = [[*lines] for drawn, lines in groupby(map(str.rstrip, captured.get().splitlines()), bool) if drawn]
    size = 1 + next(place for place, line in enumerate(groups[0]) if not line.strip(" ─"))
    return groups[0][:size], [groups[0][size:], *groups[1:]]


def _stack(console: Console, columns: Sequence[_Column]) -> Iterator[str]:
    """Yield a table's rows on lines of their own: the words, as wide as the terminal, and below them the numbers in columns."""
    words = [column for column in columns if not column.numbers]
    head, numbers = _draw_rows(console, [column for column in columns if column.numbers])
    rows = [" · ".join(filter(None, row)) for row in zip(*(column.cells for column in words), strict=True)]
    yield textwrap.indent(fold(" · ".join(column.title for column in words), console.width - 1), " ")
    yield from head
    for row, lines in zip(rows, numbers, strict=True):
        yield textwrap.indent(fold(row, console.width - 1), " ")
        yield from lines
