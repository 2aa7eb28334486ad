"""How far a long step is: a bar in a terminal, a plain line now and then in a log."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

LINES = 10  # that a log gets
SOON_S = 5  # what ends sooner needs no bar

_silent: list[bool] = []


@contextmanager
def without_progress() -> Iterator[None]:
    """Report nothing in this `with` block, whose caller reports its own progress."""
    _silent.append(True)
    try:
        yield
    finally:
        _silent.pop()


@contextmanager
def report_progress(title: str, total: int, unit: str, done: int = 0, after_s: float = 0) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with each amount that is done, out of `total` `unit`, of which `done` were before.

    Reports go to standard error, as standard output belongs to results; none come before `after_s` seconds have passed.
    """
    if _silent:
        yield lambda _amount: None
        return
    begin_s = time.monotonic()
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _line_writer(title, total, unit, done, begin_s + after_s)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,.0f}/{task.total:,.0f} " + unit))
    progress = Progress(*columns, TimeRemainingColumn(), console=console)
    task = progress.add_task(title, total=total, completed=done)

    def advance(amount: int) -> None:
        progress.advance(task, amount)
        if time.monotonic() >= begin_s + after_s:
            progress.start()

    if not after_s:
        progress.start()
    try:
        yield advance
    finally:
        if progress.live.is_started:  # else it would end a line that it has not begun
            progress.stop()


def _line_writer(title: str, total: int, unit: str, done: int, from_s: float) -> Callable[[int], None]:
    def advance(amount: int) -> None:
        nonlocal done
        before, done = done, done + amount
        if total and done * LINES // total > before * LINES // total and time.monotonic() >= from_s:
            print(f"{title}: {done:,} of {total:,} {unit}", file=sys.stderr, flush=True)

    return advance
