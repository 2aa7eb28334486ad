"""Quality: a number for how good a training's result is, and the rule by which one is no worse than another."""

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from speedproof.results import older_versions as older
from speedproof.results.names import FileName
from speedproof.util.numbers import format_decimals, format_value

Better = Literal["higher", "lower"]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class TunedOn(BaseModel):
    """The data and seeds that a variant's settings were tuned on; others should judge it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seeds: list[int] = Field([], max_length=1000, description="Seeds of the tuning runs")
    data: list[Annotated[str, Field(min_length=1, max_length=200)]] = Field(
        [], max_length=100, description="Their data, as reports name them"
    )


class Quality(BaseModel):
    """The name of the quality, its direction, and its margin; fixed before the first run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: FileName = "quality"
    title: Annotated[str, Field(min_length=1, max_length=60)] = Field("quality", description="Name in tables and sentences")
    unit: Annotated[str, Field(max_length=20)] = Field("", description="Unit after its numbers")
    better: Better = "higher"
    margin: Finite | None = Field(
        None,
        ge=0,
        description="Non-inferiority margin: a speedup counts only if its quality is worse by at most this; null: no test",
    )
    targets: list[Finite] = Field(
        [], max_length=100, description="Qualities to which the time is measured; sorted from the easiest to the hardest"
    )
    judged_above: Finite | None = Field(
        None,
        description="Compare quality only if the slower variant's is better than this: before, training is too short; null: "
        "always",
    )
    within: tuple[Finite, Finite] | None = Field(None, description="[lowest, highest] possible value; others are rejected")
    tuned_on: dict[FileName, TunedOn] = Field({}, description="What the variants' settings were tuned on, as far as known")

    @model_validator(mode="before")
    @classmethod
    def _no_key_of_an_earlier_version(cls, values: Any) -> Any:
        older.refuse_renamed_keys(values, older.QUALITY_KEYS)
        return values

    @field_validator("within")
    @classmethod
    def _bounds_rise(cls, value: tuple[float, float] | None) -> tuple[float, float] | None:
        if value is not None and value[0] >= value[1]:
            raise ValueError(f"must be [lowest, highest], not [{value[0]:g}, {value[1]:g}]; the other way round?")
        return value

    @model_validator(mode="after")
    def _targets_come_from_the_easiest_to_the_hardest(self) -> "Quality":
        for target in self.targets:
            if not self.allows(target):
                raise ValueError(f"`targets`: {target:g} cannot be reached: the quality lies within {list(self.within or ())}")
        object.__setattr__(self, "targets", sorted(set(self.targets), reverse=self.better == "lower"))
        return self

    @property
    def rule(self) -> "Quality":
        """Return the part that decides: all but how variants were tuned."""
        return self.model_copy(update={"tuned_on": {}})

    def allows(self, value: float) -> bool:
        """Return whether a quality can have this value."""
        return math.isfinite(value) and (self.within is None or self.within[0] <= value <= self.within[1])

    def reaches(self, value: float, target: float) -> bool:
        """Return whether a value is as good as a target, or better."""
        return self.shortfall(value, target) <= 0

    def shortfall(self, value: float, other: float) -> float:
        """Return by how much a value is worse than another one; negative if it is better."""
        return other - value if self.better == "higher" else value - other

    def is_worse(self, value: float, other: float) -> bool:
        """Return whether a value is worse than another one by more than the margin; False without a margin."""
        if self.margin is None:
            return False
        return value < other - self.margin if self.better == "higher" else value > other + self.margin

    def format(self, value: float | None) -> str:
        """Write a value with one digit more than the margin has, so that what the margin decides can be seen."""
        if value is None or not self.margin:
            return format_value(value, self.unit)
        return format_decimals(value, max(0, 1 - math.floor(math.log10(self.margin))), self.unit)
