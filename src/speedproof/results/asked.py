"""`asked.json`: what a proof was asked, beside its results: the command to type again, and what is claimed of which ratio."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from speedproof.results.evidence_archive import is_there
from speedproof.results.files import read_record

ASKED_FILE = "asked.json"


class Claim(BaseModel):
    """A bound that a ratio is claimed to keep; an end that is open is None."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    value: float
    low: float | None
    high: float | None

    @property
    def text(self) -> str:
        return f"{'≤' if self.low is None else '≥'} {self.value:g}×"

    def judge(self, low: float, high: float) -> Literal["claim holds", "claim fails", "inconclusive"]:
        """Judge the claim by the interval [low, high] of the ratio."""
        least, most = (0.0 if self.low is None else self.low), (float("inf") if self.high is None else self.high)
        if least <= low and high <= most:
            return "claim holds"
        return "claim fails" if high < least or low > most else "inconclusive"


class Asked(BaseModel):
    """What `speedproof prove` was asked."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    command: str  # without secrets
    metric: str
    margin: float | None
    claim: Claim | None
    attempt: Annotated[int, Field(ge=1)] = 1  # of the proofs of these commands that lie beside each other


def read_asked(results: Path) -> Asked | None:
    """Read a results folder's `asked.json`; None if `speedproof prove` did not write it."""
    path = results / ASKED_FILE
    return read_record(path, Asked) if is_there(path) else None
