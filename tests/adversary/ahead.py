"""Trials that begin before their tests ask for them: most of a trial is sleep, so that a core has room for two."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

AT_ONCE = 2
GROUPS = 2  # as many processes of pytest-xdist share the trials


class Ahead:
    """The trials of this process' tests, in their order."""

    def __init__(self, attempt: Callable[..., Any]) -> None:
        self._attempt, self._pool = attempt, ThreadPoolExecutor(AT_ONCE)
        self._results: dict[tuple, Future] = {}

    def result_of(self, item: pytest.Item) -> Any:
        """Return what a test's trial came to; those of its group that come after it begin as well."""
        for other in item.session.items[item.session.items.index(item) :]:
            if _group(other) == _group(item) and self._key(other) not in self._results:
                self._results[self._key(other)] = self._pool.submit(self._attempt, *self._key(other))
        return self._results[self._key(item)].result()

    def stop(self) -> None:
        """Begin no more."""
        self._pool.shutdown(cancel_futures=True)

    def _key(self, item: pytest.Item) -> tuple:
        return tuple(item.callspec.params["tried"])  # type: ignore[attr-defined]


def group_trials(prefix: str, number: int) -> pytest.MarkDecorator:
    """Return the mark of a trial's group."""
    return pytest.mark.xdist_group(f"{prefix}-{number % GROUPS}")


def _group(item: pytest.Item) -> str:
    marker = item.get_closest_marker("xdist_group")
    return marker.args[0] if marker else ""
