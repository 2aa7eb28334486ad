"""What `speedproof bisect` writes: `bisect.json`."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from speedproof.results.experiment import StopReason

BISECT_FILE = "bisect.json"
BisectOutcome = Literal["found", "spread", "no difference", "inconclusive"]
BISECT_STATUS: dict[BisectOutcome, int] = {"found": 0, "spread": 1, "no difference": 1, "inconclusive": 2}


class ChangeRatio(BaseModel):
    """How many times as fast the later commit is: below 1 it is slower."""

    model_config = ConfigDict(extra="forbid")

    ratio: float
    low: float | None = Field(description="Of the 95 % interval; null if there are too few runs")
    high: float | None


class BisectedCommit(BaseModel):
    model_config = ConfigDict(extra="forbid")

    sha: str
    subject: str
    date: str = Field(description="The author's, as 2026-11-27")
    reason: str | None = Field(None, description="Why it was skipped, in words")
    merge: bool = Field(False, description="Whether it is a merge; then the change may be of its branch")


class BisectResult(BaseModel):
    """What `speedproof bisect --json` prints. Its fields change only with its version."""

    model_config = ConfigDict(extra="forbid")

    schema_version: Literal[1] = 1
    outcome: BisectOutcome
    exit_status: int
    command: str
    metric: str | None
    good: BisectedCommit
    bad: BisectedCommit
    ends: ChangeRatio
    commit: BisectedCommit | None = Field(
        description="The one that was found, or the likeliest one; null if the ends do not differ"
    )
    step: ChangeRatio | None = Field(description="The commit's own ratio, from the runs between the ends")
    chance: float | None = Field(description="That it is this commit, if one commit changed the speed")
    several: float = Field(description="How likely several commits changed it")
    suspects: list[BisectedCommit] = Field(
        description="Skipped commits right before the one that was found, any of which it may be"
    )
    skipped: list[BisectedCommit]
    commits: int = Field(description="After the first one, those that change the folder's files")
    commits_run: int
    runs: int
    minutes: float
    stopped: StopReason | None = Field(None, description="Why the rounds of the ends, or an inconclusive search, ended")
