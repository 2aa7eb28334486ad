"""Documented numbers beside the measured ones, as a comparison holds them."""

from typing import Literal

from pydantic import Field

from speedproof.results.comparison_rows import Needed, Origin, Scope, SparseRow, StrictRow
from speedproof.results.run_record import Mode
from speedproof.util.numbers import Unit

ClaimVerdict = Literal["reproduced", "exceeded", "not reproduced here", "inconclusive", "not comparable", "not measured"]


class DocumentedRatio(StrictRow):
    """The ratio reference / candidate that a claim states; an end that is open is null."""

    reference: str
    candidate: str
    metric: str
    target: float | None = Field(description="The quality to reach, for the metrics that need one")
    mode: Mode = Field(description="Of the runs that it is held against")
    low: float | None
    high: float | None


class ClaimResult(SparseRow):
    """A documented number beside the measured one."""

    _UNSAID = ("subject", "date", "runs_beside")

    id: str
    text: str
    subject: str = Field("", description="The source's programs that it is about; not there if the claims do not name them")
    source: str
    date: str | None = Field(None, description="When the source first stated it; not there if that is not known")
    url: str
    hardware: str
    unit: Unit
    documented: str
    measured: float | None
    low: float | None = Field(description="95 % interval")
    high: float | None
    scope: Scope | None = Field(None, description="Of how many machines the number is; null if there is none")
    counted: int | None = Field(None, description="Of how many pairs, or runs; null without a number")
    ratio: DocumentedRatio | None = Field(None, description="Which ratio it is, with its range; null if none was measured")
    needed: Needed | None = Field(None, description="What would decide; null if it is decided, or if no number would")
    verdict: ClaimVerdict
    by_experiment: dict[str, ClaimVerdict] = Field({}, description="What each experiment says by itself, where they disagree")
    conditions: list[str] = Field(description="What differs from the documented measurement; empty: nothing known to")
    runs_beside: int = Field(
        0, ge=0, description="Of its runs, those beside which another experiment measured on the machine; not there if none"
    )
    reason: str
    origin: Origin | None
