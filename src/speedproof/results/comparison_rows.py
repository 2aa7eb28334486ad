"""Fields that rows of a comparison share: origin, number of machines, interval."""

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

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
