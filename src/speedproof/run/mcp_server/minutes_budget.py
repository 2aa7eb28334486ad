"""The minutes that an agent may spend on a server, whatever it calls."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from speedproof.util.errors import SpeedproofError

_LEAST_MIN = 0.05  # a call that has less could not even start a program


class BudgetSpentError(SpeedproofError):
    """The server's minutes are spent."""

    exit_code = 3


class MinutesBudget:
    """A number of minutes, of which each call spends what it takes."""

    def __init__(self, total_min: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Take the minutes of all calls together, and a clock in seconds."""
        self.total_min, self._spent_s, self._clock = total_min, 0.0, clock

    @property
    def left_min(self) -> float:
        """Return the minutes that are left."""
        return max(0.0, self.total_min - self._spent_s / 60)

    def allow(self, asked_min: float | None = None) -> float:
        """Return the minutes of a call: those that are asked for, at most those that are left.

        Raises :class:`BudgetSpentError` if nothing is left.
        """
        if self.left_min < _LEAST_MIN:
            raise BudgetSpentError(
                f"budget spent: {self.left_min:.1f} of {self.total_min:g} minutes are left; ask a person for more"
            )
        return self.left_min if asked_min is None else min(asked_min, self.left_min)

    @contextmanager
    def spending(self) -> Iterator["Spent"]:
        """Count the time of this `with` block, however it ends."""
        began_s, spent = self._clock(), Spent()
        try:
            yield spent
        finally:
            spent.seconds = self._clock() - began_s
            self._spent_s += spent.seconds


class Spent:
    """The seconds that one call took, once it has ended."""

    seconds = 0.0
