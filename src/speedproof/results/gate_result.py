"""What a gate writes: `gate.json`, its outcome, and `calibration.json`, what its runner can detect."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from speedproof.results.experiment import StopReason
from speedproof.results.trace_results import LargestTerm

GATE_FILE, CALIBRATION_FILE = "gate.json", "calibration.json"

GateOutcome = Literal["passed", "regression", "no improvement", "worse quality", "inconclusive"]
# interval: it holds the limit. check: a check contradicts the ratio. quality: it may be worse.
GateReason = Literal["decided", "nothing changed", "interval", "check", "quality"]
GATE_STATUS: dict[GateOutcome, int] = {"passed": 0, "regression": 1, "no improvement": 1, "worse quality": 1, "inconclusive": 2}


class GatedCommit(BaseModel):
    """One of the two commits, and what its runs took."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(description="As it was asked for, for example main")
    sha: str
    value: float | None = Field(None, description="Mean of the metric; null if nothing was measured")


class GateResult(BaseModel):
    """What `speedproof gate --json` prints. Its fields change only with its version.

    The ratio is the time of the base over that of the head: below 1 the head is slower.
    """

    model_config = ConfigDict(extra="forbid")

    schema_version: Literal[1] = 1
    outcome: GateOutcome
    exit_status: int
    reason: GateReason
    command: str
    base: GatedCommit
    head: GatedCommit
    regression: float = Field(description="The slowdown that must be excluded, as a fraction")
    improvement: float | None = Field(description="The speedup that must be shown, as a fraction; null if none is asked for")
    limit: float = Field(description="What the whole interval must reach for the gate to pass")
    ratio: float | None = None
    low: float | None = Field(None, description="Of the 95 % interval, which is valid however early the rounds ended")
    high: float | None = None
    pairs: int = 0
    metric: str | None = None
    unit: str = "s"
    quality: str | None = None
    checks: list[str] = Field([], description="What contradicts the ratio, or puts it in doubt, in words")
    notes: list[str] = Field([], description="What to know about the two folders, in words")
    stopped: StopReason | None = None
    budget_min: float | None = Field(None, description="Minutes that its rounds could take, in all calls; null if not limited")
    more: str | None = Field(None, description="What would decide, in words; null if it is decided or nothing is known to")
    next_command: str | None = Field(None, description="The command that goes on until it is decided")
    why: str | None = Field(None, description="What traces show about the difference")
    terms: list[LargestTerm] = Field([], description="Its largest terms")
    minutes: float = 0.0
    report: str | None = Field(None, description="The page with all numbers")


class Calibration(BaseModel):
    """How much two runs of one commit differ on a runner: what a gate there can detect follows from it."""

    model_config = ConfigDict(extra="forbid")

    schema_version: Literal[1] = 1
    asked: str = Field(description="Digest of what was measured: the command, and how it is read and run")
    host: str | None = Field(description="Anonymous id of the machine, the same until it restarts")
    metric: str
    pairs: int
    deviation: float = Field(description="Sample standard deviation of the pairs' log ratios")
    round_s: float = Field(description="How long a round takes: each commit once")
    budget_min: float
    detectable: float = Field(description="The smallest slowdown, as a fraction, that is decided nine times in ten")
