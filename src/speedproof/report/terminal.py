"""A trace's summary, and the difference of two, as tables on a terminal. The files hold all of it, and every digit."""

import sys
import textwrap
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table

from speedproof.report.trace_listings import LONGEST_NAME, Listing, list_difference, list_summary
from speedproof.report.trace_phrases import (
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
    from speedproof.results.comparison import Comparison

_WIDTH = 120  # if the output is not a terminal


def print_summary(summary: Summary, console: Console | None = None) -> None:
    """Print where the time of a trace went: the answer, what to know, tables."""
    console = console or make_console()
    print_line(console, describe_epochs(summary))
    if summary.idle_gaps:
        print_line(console, describe_main_cause(summary))
    for warning in summary.warnings:
        print_line(console, f"Note: {warning}")
    for listing in list_summary(summary):
        print_listing(console, listing)
    if summary.ideal_epoch_s is not None:
        print_line(console, describe_ideal(summary))
        print_line(console, describe_unattributed(summary))
    if summary.idle_gaps:
        print_line(console, describe_explained_share(summary))
    if summary.launches is not None:
        print_line(console, describe_launches(summary.launches))
    for text in describe_counters(summary):
        print_line(console, text)
    if summary.critical_paths:
        print_line(console, describe_paths(summary))
    if summary.communication is not None:
        print_line(console, describe_communication(summary.communication))
    if summary.candidates:
        print_line(console, describe_candidates(summary))


def print_difference(difference: Difference, console: Console | None = None) -> None:
    """Print why an epoch, or a sample where their number is known, of one trace takes longer or shorter than of another."""
    console = console or make_console()
    print_line(console, "".join(describe_epoch_change(difference.a, difference.b, difference)))
    for note in difference.notes:
        print_line(console, f"Note: {note}")
    for listing in list_difference(difference):
        print_listing(console, listing)


def print_metrics(comparison: "Comparison", console: Console | None = None) -> None:
    """Print every metric of the timed runs."""
    from speedproof.report.report_tables import list_further, list_levels  # of a results folder, which no trace's tables need

    console = console or make_console()
    for title, columns, rows in (
        ("Timed runs", ["variant", "metric", ">mean", ">95 % interval", ">runs"], list_levels(comparison)),
        (
            "Further metrics; a ratio above 1 is better than the first variant",
            ["metric", "variant", ">mean", ">95 % interval", ">runs", ">ratio"],
            list_further(comparison),
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
    left_off = len(listing.rows) - listing.most
    title = plain(printable(listing.title)) or None
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.caption = f"and {left_off} more" if left_off > 0 else None
    rows = [[plain(printable(cell)) for cell in row] for row in listing.rows[: listing.most]]
    for column, cells in zip(listing.columns, zip(*rows, strict=True), strict=True):
        numbers, name = column.startswith(">"), column.lstrip(">")
        longest = max(len(word) for word in (*cells, *name.split()))
        if whole := numbers and longest <= LONGEST_NAME:  # a number stays on one line; what it is of takes as many as it must
            name = textwrap.fill(name, longest)
        table.add_column(name, justify="right" if numbers else "left", overflow="fold", no_wrap=whole)
    for row in rows:
        table.add_row(*row)
    console.print(table)
