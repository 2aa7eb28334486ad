"""A run of several ranks: where each rank's files lie, how each rank ended, and who waited for whom (`ranks.json`).

A run of one process has its files in its own folder. One of several has a folder `rank<k>/` for each, with that rank's
`epochs.csv`, `gpu.csv`, `log.txt`, `ending.json` and, where they are made, `scalars/`, `trace/` and `stats/`; `run.json`,
`epochs.csv`, `log.txt` and `best.pt` beside them are the whole run's.
"""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from speedproof.results.files import read_record
from speedproof.results.names import ProfilerName
from speedproof.results.run_record import RunOutcome
from speedproof.results.summary import WARM_UP_NEEDS_EPOCHS
from speedproof.util.errors import RecordError

RANKS_FILE = "ranks.json"
ENDING_FILE = "ending.json"

# What a rank's compute ends with: collectives among the kernels, or, in a trace without any, the backward phase.
Basis = Literal["communication kernels", "backward phase"]


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Ending(_Row):
    """`ending.json`: how one rank ended. The first that did not end well is the cause; the others lost a partner."""

    schema_version: Literal[1] = 1
    rank: int
    outcome: RunOutcome
    reason: str
    ended_s: float = Field(description="The system's time, in seconds")


class RankTimes(_Row):
    """What one rank waited and communicated, in seconds an epoch: means over the steady epochs."""

    rank: int
    epoch_s: float = Field(description="Length of an epoch")
    waited_s: float | None = Field(
        description="Lost to imbalance: for each collective, the slowest rank's compute less this one's; null: no communication"
    )
    communication_s: float | None = Field(description="Union of the communication kernels; null: none in the trace")
    exposed_s: float | None = Field(description="Of communication_s: while no other kernel runs on this rank's GPU")

    @property
    def hidden_s(self) -> float | None:
        """Return how much of the communication runs beside other kernels."""
        return None if self.communication_s is None or self.exposed_s is None else self.communication_s - self.exposed_s


class Wait(_Row):
    """One step (of training), or all of a part outside of steps: what a rank computed, and waited for which one."""

    epoch: int
    part: Literal["training", "validation"]
    step: int | None = Field(description="Counted from 1; null: collectives outside the training steps")
    rank: int
    compute_s: float = Field(description="From each collective's end, or the epoch's start, to the next one's start")
    waited_s: float
    slowest: int = Field(description="The rank that computed longest")


class RanksSummary(_Row):
    """`ranks.json`: who waits for whom in one run, and how much of the communication is hidden behind other work."""

    schema_version: Literal[1] = 1
    profiler: ProfilerName
    basis: Basis
    ranks: list[RankTimes]
    waits: list[Wait]
    notes: list[str] = Field(description="What these numbers cannot tell")
    seal: str | None = Field(None, description="Digest of all other fields; versions before have none")

    @property
    def steady_waits(self) -> list[Wait]:
        """Return the waits without those of the epoch that warms up, where there are enough others."""
        enough = max((wait.epoch for wait in self.waits), default=0) >= WARM_UP_NEEDS_EPOCHS
        return [wait for wait in self.waits if wait.epoch > 1] if enough else self.waits


def rank_folder(run: Path, rank: int | str) -> Path:
    """Return the folder of one rank of a run of several; a word stands for a rank that only its process knows."""
    return run / f"rank{rank}"


def process_folders(run: Path, ranks: int) -> list[Path]:
    """Return the folder of each of a run's processes: its own where there is only one."""
    return [run] if ranks == 1 else [rank_folder(run, rank) for rank in range(ranks)]


def find_first_failure(run: Path) -> Ending | None:
    """Return how the first rank ended of those that did not end well; None where no rank says so."""
    failures = []
    for path in run.glob(f"rank*/{ENDING_FILE}"):
        try:
            failures.append(read_record(path, Ending))
        except RecordError:
            continue
    failures = [ending for ending in failures if ending.outcome != "completed"]
    return min(failures, key=lambda ending: ending.ended_s, default=None)


def find_silent_ranks(run: Path) -> list[int]:
    """Return the ranks that did not say how they ended: they were killed, or never began."""
    return sorted(int(path.name.removeprefix("rank")) for path in run.glob("rank*") if not (path / ENDING_FILE).exists())


def read_ranks_summary(folder: Path) -> RanksSummary:
    return read_record(folder / RANKS_FILE, RanksSummary)
