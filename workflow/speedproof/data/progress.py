"""How far a long step is: a bar in a terminal, a plain line now and then in a log."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

LINES = 10  # that a log gets


@contextmanager
def report_progress(title: str, total: int, unit: str, done: int = 0) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with each amount that is done, out of `total` `unit`, of which `done` were before.

    Reports go to standard error, as standard output belongs to results.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _line_writer(title, total, unit, done)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,.0f}/{task.total:,.0f} " + unit))
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        task = progress.add_task(title, total=total, completed=done)
        yield lambda amount: progress.advance(task, amount)


def _line_writer(title: str, total: int, unit: str, done: int) -> Callable[[int], None]:
    def advance(amount: int) -> None:
        nonlocal done
        before, done = done, done + amount
        if done * LINES // total > before * LINES // total:
            print(f"{title}: {done:,} of {total:,} {unit}", file=sys.stderr, flush=True)

    return advance
