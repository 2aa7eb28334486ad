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
    """One reason why an epoch of `b` takes longer, or shorter, than one of `a`. Negative: `b` takes less."""

    kind: Literal["gpu", "idle", "cpu"] = Field(
        description="gpu: kernels that a phase caused; idle: no kernel ran, for a cause; cpu: a phase, where there is no GPU"
    )
    part: EpochPart = Field(description="Of the epochs")
    name: str = Field(description="The phase, or the cause")
    a_s: float = Field(description="Seconds an epoch in a")
    b_s: float = Field(description="Seconds an epoch in b")
    seconds_per_epoch: float = Field(description="b_s - a_s")
    seconds_per_sample: float | None = Field(description="The same per training sample; null where their number is unknown")


class KernelTerm(_Row):
    """A group of kernels in both traces: calls at the same time count each, so these do not add up to the difference."""

    group: str = Field(description="Readable, derived from the kernels' names")
    a_s: float = Field(description="Sum of its calls' durations in a, on all GPUs, seconds an epoch")
    b_s: float = Field(description="The same in b")
    seconds_per_epoch: float = Field(description="b_s - a_s")


class Difference(_Row):
    """`difference.json`: total_s = sum of the terms' seconds_per_epoch + residual_s.

    Each variant is an epoch with validation at its share: the mean training part of its epochs without a first one that warms
    up (:attr:`speedproof.results.summary.Summary.steady_epochs`), and the mean validation part of those of them that
    validate, times the share of epochs that do.
    """

    schema_version: Literal[1] = Field(1, description="Of this file's form")
    unit: IterationUnit = Field("epoch", description="The word for what is compared, which the rest calls an epoch")
    notes: list[str] = Field([], description="What a reader must know before trusting the numbers")
    a: str = Field(description="The one trace")
    b: str = Field(description="The other, which is compared with it")
    epochs_a: int = Field(description="How many epochs of a count")
    epochs_b: int = Field(description="How many epochs of b count")
    samples_a: float | None = Field(description="Training samples in an epoch of a; null where unknown")
    samples_b: float | None = Field(description="Training samples in an epoch of b; null where unknown")
    epoch_a_s: float = Field(description="Length of an epoch of a, validation at its share")
    epoch_b_s: float = Field(description="Length of an epoch of b, validation at its share")
    terms: list[Term] = Field(description="The largest first, by size and not by sign")
    kernels: list[KernelTerm] = Field([], description="Kernels by group, the largest change first")
    residual_s: float = Field(description="The part of the difference that no rule explains, seconds an epoch")
    total_s: float = Field(description="epoch_b_s - epoch_a_s")
    residual_per_sample_s: float | None = Field(description="The same per training sample; null where unknown")
    total_per_sample_s: float | None = Field(description="The whole difference per training sample; null where unknown")
    seal: str | None = Field(None, description="Digest of all other fields; versions before have none")


def read_difference(folder: Path) -> Difference:
    """Read the `difference.json` of a pair of traces."""
    return read_record(folder / DIFFERENCE_FILE, Difference)
