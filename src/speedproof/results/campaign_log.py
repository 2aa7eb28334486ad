"""What a campaign writes: `campaign.json`, with each try, what came of it, and what it cost."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from speedproof.results.experiment import StopReason
from speedproof.results.trace_results import LargestTerm

CAMPAIGN_FILE = "campaign.json"

# continue: trying the same commit again adds pairs.
TryOutcome = Literal["kept", "dropped", "continue", "refused"]
# protected: it changes files that decide how it is measured. check: what was observed contradicts its ratio.
TryReason = Literal["faster", "slower", "equivalent", "not shown", "budget", "quality", "check", "protected", "nothing changed"]
TRY_STATUS: dict[TryOutcome, int] = {"kept": 0, "dropped": 1, "refused": 1, "continue": 2}


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Try(_Row):
    """One try of a campaign. The ratio is the reference's time over the commit's: above 1 the commit is faster."""

    number: int
    commit: str
    title: str = Field(description="First line of the commit's message")
    reference: str = Field(description="The commit that it was compared with")
    outcome: TryOutcome
    reason: TryReason
    exit_status: int
    found: str | None = Field(None, description="What the comparison shows; null if nothing was measured")
    comparisons: int = Field(1, description="How many comparisons share the error of 5 %")
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    observed: float | None = Field(None, description="The same ratio by our own clock")
    pairs: int = 0
    metric: str | None = None
    quality: str | None = None
    reference_quality: float | None = None
    candidate_quality: float | None = None
    checks: list[str] = Field([], description="What contradicts the ratio, in words")
    files: list[str] = Field([], description="Protected files that it changes")
    more: str | None = Field(None, description="What would decide, in words")
    why: str | None = Field(None, description="What traces show about the difference")
    terms: list[LargestTerm] = Field([], description="Its largest terms")
    stopped: StopReason | None = None
    budget_min: float | None = Field(None, description="Minutes that its rounds could take, in all calls; null if not limited")
    minutes: float = 0.0
    report: str | None = None


class Campaign(_Row):
    """A series of tries against a reference, which each kept one replaces."""

    schema_version: Literal[1] = 1
    command: str
    start: str = Field(description="The first reference, a commit")
    reference: str = Field(description="The commit that the next try is compared with")
    tries_planned: int
    protected: list[str] = Field(description="Patterns of files that no try may change")
    request: dict[str, Any] = Field(description="How the command is run and read")
    tries: list[Try] = []

    @property
    def measured(self) -> list[Try]:
        """Return the tries that spent some of the error."""
        return [one for one in self.tries if one.found is not None]

    @property
    def kept(self) -> int:
        """Return how many tries were kept."""
        return sum(one.outcome == "kept" for one in self.tries)
