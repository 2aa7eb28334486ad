"""What follows an experiment while it goes on: its progress, its value so far, what becomes of a trace that is lost."""

from dataclasses import dataclass

from speedproof.results.experiment import PlannedRun
from speedproof.results.run_record import Run
from speedproof.stats.metrics import Compared
from speedproof.util.errors import SpeedproofError


@dataclass(frozen=True)
class EndedRun:
    """A run of the plan that is whole, just now or since an earlier attempt."""

    folder: str
    planned: PlannedRun
    run: Run
    compared: Compared | None  # what the rounds are decided by; None: it is not timed
    kept: bool


class Observer:
    """Observes what an experiment does while it does it; this one ignores all."""

    def begin_run(self, planned: PlannedRun) -> None:
        """Take note that a run is about to start; what is done now delays it, and none of its time."""

    def end_run(self, ended: EndedRun) -> None:
        """Take note of a run that is whole."""

    def lose_trace(self, planned: PlannedRun, error: SpeedproofError) -> None:
        """Raise why a profiled run failed; return instead to let the experiment go on without its trace."""
        raise error
