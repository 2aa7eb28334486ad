"""`difference.json`: where the difference between two traces' epochs comes from, term by term."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from speedproof.results.files import read_record
from speedproof.results.summary import EpochPart, IterationUnit

DIFFERENCE_FILE = "difference.json"


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Term(_Row):
    """A reason why an iteration of `b` takes longer than one of `a`. Negative: `b` takes less."""

    kind: Literal["gpu", "idle", "cpu"] = Field(description="gpu: kernels; idle: a cause; cpu: a phase, without a GPU")
    part: EpochPart = Field(description="Part of the iteration")
    name: str = Field(description="As in the account")
    a_s: float = Field(description="Seconds per iteration of a")
    b_s: float = Field(description="Seconds per iteration of b")
    seconds_per_epoch: float = Field(description="b_s - a_s")
    seconds_per_sample: float | None = Field(description="The same per training sample; null: unknown")


class KernelTerm(_Row):
    """A group of kernels in both traces. Calls at the same time count each."""

    group: str = Field(description="Readable, derived from the names")
    a_s: float = Field(description="Sum of its calls' lengths on all GPUs, per iteration of a")
    b_s: float = Field(description="The same for b")
    seconds_per_epoch: float = Field(description="b_s - a_s")


class Difference(_Row):
    """total_s = sum of the terms' seconds_per_epoch + residual_s."""

    schema_version: Literal[1] = Field(1, description="Version of this format")
    unit: IterationUnit = Field("epoch", description="Word for what is compared")
    notes: list[str] = Field([], description="What to know before trusting the numbers")
    a: str = Field(description="The first trace")
    b: str = Field(description="The second trace")
    epochs_a: int = Field(description="Counted iterations of a")
    epochs_b: int = Field(description="Counted iterations of b")
    samples_a: float | None = Field(description="Training samples per iteration of a; null: unknown")
    samples_b: float | None = Field(description="The same for b")
    epoch_a_s: float = Field(description="Length of an iteration of a, validation at its share")
    epoch_b_s: float = Field(description="The same for b")
    terms: list[Term] = Field(description="Largest change first, whatever its sign")
    kernels: list[KernelTerm] = Field([], description="By group, largest change first")
    residual_s: float = Field(description="The part that no rule explains, per iteration")
    total_s: float = Field(description="epoch_b_s - epoch_a_s")
    residual_per_sample_s: float | None = Field(description="Residual per training sample; null: unknown")
    total_per_sample_s: float | None = Field(description="Total per training sample; null: unknown")
    seal: str | None = Field(None, description="Checksum of all other fields; null: old file")


def read_difference(folder: Path) -> Difference:
    return read_record(folder / DIFFERENCE_FILE, Difference)
