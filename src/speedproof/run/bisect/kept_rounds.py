"""Rounds of a bisection, kept in its folder: an interrupted one goes on from them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from speedproof.results.files import read_record, write_json
from speedproof.run.bisect.search import UnusableCommitError
from speedproof.util.errors import RecordError

ROUNDS_FILE = "rounds.json"


class KeptRound(BaseModel):
    """What one round of runs found: a cost of each place, or which place cannot be used."""

    model_config = ConfigDict(extra="forbid")

    places: list[int]
    costs: list[float] = []
    unusable: int | None = None
    reason: str = ""


class RoundsFile(BaseModel):
    """The rounds of a bisection so far."""

    model_config = ConfigDict(extra="forbid")

    schema_version: Literal[1] = 1
    asked: str  # digest of the command, how it is run, and the commits
    metric: str | None = None
    minutes: float = 0.0
    rounds: list[KeptRound] = []


class KeptRounds:
    """Measures rounds, or returns those that an earlier call of the same bisection measured in the same order."""

    def __init__(self, path: Path, asked: str) -> None:
        self._path = path
        self.replaces = path.is_file()  # a bisection of something else
        self.file = RoundsFile(asked=asked)
        try:
            if self.replaces and (kept := read_record(path, RoundsFile)).asked == asked:
                self.file, self.replaces = kept, False
        except RecordError:
            pass
        self._next = 0

    @property
    def runs(self) -> int:
        """Return how many runs were compared."""
        return sum(len(one.costs) for one in self.file.rounds)

    @property
    def commits_run(self) -> int:
        """Return how many commits they are of."""
        return len({place for one in self.file.rounds if one.costs for place in one.places})

    def replay(self, places: Sequence[int]) -> Sequence[float] | None:
        """Return the costs of the next kept round; None if there is none of these places.

        Raises :class:`UnusableCommitError` if that round found one.
        """
        rounds = self.file.rounds
        if self._next < len(rounds) and rounds[self._next].places != list(places):
            del rounds[self._next :]
        if self._next == len(rounds):
            return None
        self._next += 1
        found = rounds[self._next - 1]
        if found.unusable is not None:
            raise UnusableCommitError(found.unusable, found.reason)
        return found.costs

    def measure(self, places: Sequence[int], run: Callable[[Sequence[int]], Sequence[float]]) -> Sequence[float]:
        """Measure a round by `run`, and note what it found."""
        found = KeptRound(places=list(places))
        try:
            found.costs = list(run(places))
        except UnusableCommitError as error:
            found.unusable, found.reason = error.place, error.reason
            raise
        finally:
            if found.costs or found.unusable is not None:
                self.file.rounds.append(found)
                self._next = len(self.file.rounds)
        return found.costs

    def write(self, metric: str | None, minutes: float) -> None:
        """Write the rounds so far."""
        self.file.metric, self.file.minutes = metric, round(minutes, 4)
        write_json(self._path, self.file)
