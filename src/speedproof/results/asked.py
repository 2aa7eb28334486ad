"""`asked.json`: what a proof was asked, beside its results: the command to type again, and what is claimed of which ratio."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from speedproof.results.claim import Claim
from speedproof.results.evidence_archive import is_there
from speedproof.results.files import read_record

Counted = Literal["epoch", "step", "interval"]  # what a program's "epochs" are; an interval lies between two printed lines
ASKED_FILE = "asked.json"


class Asked(BaseModel):
    """What `speedproof prove` was asked."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    command: str  # without secrets
    metric: str
    margin: float | None
    claim: Claim | None
    counted: Counted = "epoch"
    rate: str | None = None  # what the rate is called that was read; None: training samples per second, or none was
    attempt: Annotated[int, Field(ge=1)] = 1  # of the proofs of these commands that lie beside each other


def read_asked(results: Path) -> Asked | None:
    """Read a results folder's `asked.json`; None if `speedproof prove` did not write it."""
    path = results / ASKED_FILE
    return read_record(path, Asked) if is_there(path) else None
