"""Rows of a comparison: the fields that they share, documented numbers with their outcomes, objections to a ratio."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from speedproof.results.run_record import Mode
from speedproof.util.numbers import Unit

# Of two variants: the candidate's outcome for a time, the reference's for a rate.
Outcome = Literal["faster", "slower", "equivalent", "inconclusive", "no verdict"]
# here: one experiment on one machine; model: three or more machines with one model of GPU.
Scope = Literal["here", "model"]


class StrictRow(BaseModel):
    """A part of a comparison that rejects unknown fields."""

    model_config = ConfigDict(extra="forbid")


class SparseRow(StrictRow):
    """One that leaves out fields without a value, as comparisons did that were written before there were these fields."""

    _UNSAID: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _serialize(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        plain: dict[str, Any] = serialize(self)
        for name in self._UNSAID:
            if getattr(self, name) == type(self).model_fields[name].default:
                plain.pop(name, None)
        return plain


class Origin(StrictRow):
    """Where a number comes from: the files, relative to the results folder, and what was computed of them."""

    files: list[str]
    expression: str


class SampledRow(SparseRow):
    """A number, and of how many machines it is."""

    _UNSAID: ClassVar[tuple[str, ...]] = ("runs_beside",)

    scope: Scope = Field(description="here: holds on the experiment's own machine; model: for this model of GPU")
    experiment: str | None = Field(description="The experiment that it is of; null of several")
    hosts: int = Field(ge=1, description="Machines, distinguished by their GPUs and, if runs name them, by digests of hosts")
    runs_beside: int = Field(
        0, ge=0, description="Of its runs, those beside which another experiment measured on the machine; not there if none"
    )


class EstimateRow(SampledRow):
    """A ratio with its interval."""

    centre: float = Field(description="The exponential of the mean log ratio: of an experiment's pairs, or of the hosts' means")
    low: float | None = Field(description="95 % interval; null of a single value")
    high: float | None
    pairs: int


class Needed(StrictRow):
    """What would decide, if what comes is as what was measured."""

    pairs: int = Field(description="In all, with those that were measured; of a model of GPU, hosts")
    minutes: float = Field(description="What those that are missing would take, by the runs' own times")


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


ObjectionKind = Literal[
    "left processes",
    "clocks", "unsupported", "outside", "unobserved", "direction", "claimed ratio",
    "warm-up differs", "watched run differs", "watched run", "slowed", "may be slowed", "spoilt", "helped",
    "carried over", "warm caches", "changed packages", "changed links", "changed test data", "works when judged",
    "cores", "bytes read", "gpus", "qualities", "flop", "beyond hardware", "ended early",
    "order", "trend",
    "noise", "busy machine", "shared gpu", "stolen time", "cpu quota", "heat", "gpu clocks", "gpu still busy",
]  # fmt: skip
# What a user's own reason to trust reported times turns into conditions.
OF_REPORTED_TIMES: tuple[ObjectionKind, ...] = (
    "clocks", "unsupported", "outside", "unobserved", "direction", "claimed ratio",
)  # fmt: skip
MACHINE_KINDS: frozenset[ObjectionKind] = frozenset({"noise", "busy machine", "shared gpu", "stolen time", "cpu quota", "heat"})


class Objection(BaseModel):
    """One reason to doubt a ratio."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: ObjectionKind
    variant: str | None = Field(None, description="Whose runs it is about; null: both")
    blocks: bool = Field(description="Whether the outcome is inconclusive for it; else it is a condition")
    values: dict[str, float] = Field({}, description="The numbers that it rests on, by name")
    names: list[str] = Field([], description="The files, variables, processes or causes that it is about")


def list_leading(objections: Sequence[Objection], is_open: bool) -> list[Objection]:
    """Return the objections that a sentence begins with: those that block and, if its outcome `is_open`, why noise hides it."""
    noisy = is_open and any(one.kind == "noise" for one in objections)
    return [one for one in objections if one.blocks or (noisy and one.kind in MACHINE_KINDS)]
