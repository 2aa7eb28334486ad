"""Work that is shared by processes, as the making of stand-ins is."""

from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

from speedproof.api import available_cores, end_with_parent

Item = TypeVar("Item")


def do_each(work: Callable[[Item], object], items: Iterable[Item], workers: int | None, chunk: int = 1) -> None:
    """Do a module's `work` on each item, in `workers` processes that end with this one (None: one a core; 1: in this one)."""
    workers = workers or available_cores()
    if workers == 1:
        for item in items:
            work(item)
        return
    # Not forked: a caller may have threads, and a fork copies their locks but not them.
    with ProcessPoolExecutor(workers, get_context("forkserver"), end_with_parent) as pool:
        list(pool.map(work, items, chunksize=chunk))
