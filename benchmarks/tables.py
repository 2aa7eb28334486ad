"""Tables of the documents that a benchmark writes, between two comments that name it."""

import argparse
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path


def mark_table(name: str, script: str) -> tuple[str, str]:
    """Return the comments around the table of the benchmark `script`."""
    return f"<!-- {name}: written by `{script}` -->", f"<!-- end of {name} -->"


def read_table(page: Path, name: str, script: str) -> str:
    """Return the text between the comments in a page."""
    begin, end = mark_table(name, script)
    _, found, rest = page.read_text(encoding="utf-8").partition(begin)
    if not found or end not in rest:
        raise SystemExit(f"{page}: {begin} … {end} is missing")
    return rest.partition(end)[0].strip()


def write_table(page: Path, name: str, script: str, table: str) -> None:
    """Replace the text between the comments in a page."""
    read_table(page, name, script)
    begin, end = mark_table(name, script)
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    page.write_text(f"{before}{begin}\n\n{table.strip()}\n\n{end}{rest.partition(end)[2]}", encoding="utf-8")


def make_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table."""
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def percent(share: float) -> str:
    """Return a share in percent, without the sign."""
    return f"{100 * share:.1f}"


def state_precision(proofs: int) -> str:
    """Return a sentence on how exact a simulated share is."""
    near_5, near_50 = (100 * math.sqrt(share * (1 - share) / proofs) for share in (0.05, 0.5))
    return f"Simulated: {proofs:,} proofs a cell, a standard error of {near_5:.2f} points at 5 % and {near_50:.2f} at 50 %."


def print_or_write(about: str, tabulate: Callable[[int], str], proofs: int, page: Path, table: tuple[str, str]) -> None:
    """Run a benchmark's command line: print its tables of so many proofs, and put them into the page with `--write`."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--proofs", type=int, default=proofs)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    tables = tabulate(asked.proofs)
    print(tables)
    if asked.write:
        write_table(page, *table, tables)
