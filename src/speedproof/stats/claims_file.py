"""Documented numbers as data: `claims.yaml` of a workload, with its sources and the variants as they were documented."""

import math
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator, model_validator

from speedproof.results import older_versions as older
from speedproof.stats.metrics import METRICS
from speedproof.util.errors import ConfigError
from speedproof.util.numbers import Unit, format_documented, format_documented_range
from speedproof.util.yaml_input import read_yaml


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Source(_Model):
    """A document, and how its numbers were taken."""

    title: str
    url: str
    hardware: str
    gpu: str = Field(description="A word of the GPU's name as NVML gives it, e.g. `V100`")
    gpus: int = Field(1, gt=0, description="On how many of them a variant trained")
    profiled: bool = Field(description="Whether the numbers were taken under Nsight Systems with autograd's NVTX ranges")
    epochs: int = Field(gt=0)
    software: str | None = Field(None, description="Versions, where the document names them")
    workload: dict[str, Any] = Field(default={}, description="What its variants shared, laid over the file's `workload`")

    def is_of(self, gpu: str) -> bool:
        """Return whether a GPU of that name is the documented one: an RTX A1000 is no A100."""
        return re.search(rf"(?<![A-Za-z0-9]){re.escape(self.gpu)}(?![A-Za-z0-9])", gpu) is not None


class _Quantity(_Model):
    metric: str
    target: float | None = Field(None, description="Quality to reach; of the metrics that need one, and of no other")

    @model_validator(mode="before")
    @classmethod
    def _no_key_of_an_earlier_version(cls, values: Any) -> Any:
        older.refuse_renamed_keys(values, older.CLAIM_KEYS)
        return values

    @field_validator("metric")
    @classmethod
    def _metric_is_known(cls, name: str) -> str:
        if name not in METRICS:
            raise ValueError(f"unknown metric `{name}`; known are {', '.join(METRICS)}")
        return name

    @model_validator(mode="after")
    def _target_goes_with_its_metrics(self) -> "_Quantity":
        if METRICS[self.metric].needs_target != (self.target is not None):
            raise ValueError(f"{self.metric} {'needs a' if self.target is None else 'has no'} `target` to reach")
        return self


class Level(_Quantity):
    """A metric of one variant."""

    variant: str


class Speedup(_Quantity):
    """The ratio reference / candidate of a metric of two variants."""

    reference: str
    candidate: str


class Unmeasurable(_Model):
    """Something that no run of this workflow measures, and what it would take."""

    missing: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Expected(_Model):
    """What a document says: a value with a tolerance, or a range that may be open at one end."""

    value: float | None = None
    tolerance: float | None = Field(None, gt=0, lt=1, description="Of the value, to either side")
    why: str | None = Field(None, description="Why the tolerance is what it is")
    low: float | None = None
    high: float | None = None

    @model_validator(mode="after")
    def _value_or_range(self) -> "Expected":
        of_value = [self.value is not None, self.tolerance is not None, self.why is not None]
        of_range = [self.low is not None, self.high is not None]
        if not ((all(of_value) and not any(of_range)) or (any(of_range) and not any(of_value))):
            raise ValueError("give `value`, `tolerance` and `why`, or a range of `low`, `high` or both")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"`low` {self.low:g} is above `high` {self.high:g}; the other way round?")
        return self

    def bounds(self) -> tuple[float, float]:
        """Return the smallest and the largest value that reproduce the number."""
        if self.value is not None and self.tolerance is not None:
            return self.value * (1 - self.tolerance), self.value * (1 + self.tolerance)
        return (-math.inf if self.low is None else self.low, math.inf if self.high is None else self.high)

    def describe(self, unit: Unit) -> str:
        """Return the number as a table shows it."""
        if self.value is not None and self.tolerance is not None:
            return f"{format_documented(self.value, unit)} ± {format_documented(self.tolerance, '%')}"
        if self.low is None:
            return f"less than {format_documented(self.bounds()[1], unit)}"
        if self.high is None:
            return f"more than {format_documented(self.low, unit)}"
        return format_documented_range(self.low, self.high, unit)


class DocumentedClaim(_Model):
    """One documented number."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9_]+$")]
    text: str
    source: str = Field(description="Key of `sources`")
    place: str = Field(description="Where in the source")
    unit: Unit
    quantity: Level | Speedup | Unmeasurable
    expected: Expected

    @model_validator(mode="after")
    def _unit_fits_quantity(self) -> "DocumentedClaim":
        match self.quantity:
            case Level(metric=metric):
                unit: Unit = METRICS[metric].unit
            case Speedup():
                unit = "×"
            case _:
                return self
        if self.unit != unit:
            raise ValueError(f"claim `{self.id}`: its unit is `{unit}`, not `{self.unit}`")
        return self


class ClaimsFile(_Model):
    """`workloads/<name>/claims.yaml`: the sources, the variants as they were documented, and every number."""

    dataset: str = Field("", description="The documented dataset's name")
    workload: dict[str, Any] = Field({}, description="Documented values of the configuration's `workload`")
    variants: dict[str, dict[str, Any]] = Field({}, description="Documented techniques of each variant that a claim is about")
    gpu_settings: list[str] = Field(
        ["gpus", "nodes"], description="Settings that say on how many GPUs a variant trains, and how"
    )
    packages: list[str] = Field([], description="Packages whose versions are compared with the source's. Default: all recorded")
    sources: dict[str, Source] = {}
    claims: list[DocumentedClaim]

    @model_validator(mode="after")
    def _references_hold(self) -> "ClaimsFile":
        ids = [claim.id for claim in self.claims]
        for claim in self.claims:
            if claim.source not in self.sources:
                raise ValueError(f"claim `{claim.id}`: unknown source `{claim.source}`")
            if ids.count(claim.id) > 1:
                raise ValueError(f"claim `{claim.id}` stands twice")
        return self


def load_claims(path: Path) -> ClaimsFile:
    """Read a file of claims; raise :class:`ConfigError` that names file and key."""
    values = read_yaml(path)
    try:
        return ClaimsFile.model_validate(values)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise ConfigError(f"{path}: {where}: {problem['msg']}; correct the claim") from None
