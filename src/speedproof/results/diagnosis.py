"""`doctor.json`: what the machine that trains can do and measure, and what of it is used."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, model_validator

from speedproof.results.evidence_archive import is_there
from speedproof.results.files import read_record

DOCTOR_FILE = "doctor.json"

# good: works; notice: works, but read the hint before you quote numbers; absent: cannot be measured or used here;
# problem: the requested configuration cannot run.
FindingState = Literal["good", "notice", "absent", "problem"]


class Software(BaseModel):
    """What the framework of a workload's programs sees of the GPU; the workload's command `software` prints it."""

    model_config = ConfigDict(extra="forbid")

    framework: str  # name and version
    cuda: str | None  # the version that it was built for; None: without CUDA
    gpu: str | None  # the name of the one that it would use


class Finding(BaseModel):
    """What is known about one subject."""

    model_config = ConfigDict(extra="forbid")

    subject: str
    state: FindingState
    found: str
    hint: str | None = None  # one line; None if nothing is to be done

    @model_validator(mode="after")
    def _whatever_is_not_good_has_a_hint(self) -> "Finding":
        if (self.state == "good") != (self.hint is None):
            raise ValueError("a finding needs a hint unless it is good")
        return self


class Diagnosis(BaseModel):
    """All findings."""

    model_config = ConfigDict(extra="forbid")

    schema_version: Literal[2] = 2
    findings: list[Finding]
    seal: str | None = None  # see results.files.write_sealed

    def select(self, state: FindingState) -> list[Finding]:
        return [finding for finding in self.findings if finding.state == state]

    def describe_problems(self) -> str:
        """Return all problems with their hints, in one line; empty if there are none."""
        return "; ".join(f"{one.subject}: {one.found}; {one.hint}" for one in self.select("problem"))


def read_diagnosis(results: Path) -> Diagnosis | None:
    """Read a results folder's `doctor.json`; None where no doctor was asked."""
    path = results / DOCTOR_FILE
    return read_record(path, Diagnosis) if is_there(path) else None
