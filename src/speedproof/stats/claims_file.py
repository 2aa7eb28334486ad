"""Documented numbers as data: `claims.yaml` of a workload, with its sources and the variants as they were documented."""

import datetime
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from speedproof.results import older_versions as older
from speedproof.results.run_record import Conditions
from speedproof.stats.metrics import METRICS
from speedproof.stats.stated_number import StatedNumber, Tolerance, describe_stated, list_bounds_of
from speedproof.util.errors import ConfigError
from speedproof.util.numbers import Unit
from speedproof.util.yaml_input import read_yaml


def _check_date(text: str) -> str:
    datetime.date.fromisoformat(text)
    return text


Date = Annotated[str, StringConstraints(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"), AfterValidator(_check_date)]


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
    variants: dict[str, dict[str, Any]] = Field(
        default={}, description="Techniques of its own versions of variants, laid over the file's `variants`"
    )

    def is_of(self, gpu: str) -> bool:
        """Return whether a GPU of that name is the documented one."""
        return names_device(self.gpu, gpu)


def names_device(word: str, device: str) -> bool:
    """Return whether a device's name contains a word: an RTX A1000 is not an A100."""
    return re.search(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])", device) is not None


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


class StatedPlace(_Model):
    """Where a number is stated."""

    source: str = Field(description="Key of `sources`")
    place: str = Field(description="Where in the source")


class DocumentedClaim(StatedPlace):
    """One documented number: what a source states of a measurement, in its own digits."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9_]+$")]
    text: str = Field(description="Paraphrase of the statement")
    date: Date | None = Field(None, description="On which the source first stated it; null if that is not known")
    also: list[StatedPlace] = Field([], description="Where else the same number is stated")
    unit: Unit
    quantity: Level | Speedup | Unmeasurable
    stated: StatedNumber

    @model_validator(mode="before")
    @classmethod
    def _no_key_of_before(cls, values: Any) -> Any:
        older.refuse_renamed_keys(values, older.STATED_KEYS)
        return values

    @property
    def places(self) -> list[StatedPlace]:
        """Return all places in which it is stated, the one that is judged first."""
        return [self, *self.also]

    @model_validator(mode="after")
    def _unit_fits_quantity(self) -> "DocumentedClaim":
        match self.quantity:
            case Level(metric=metric):
                unit: Unit = METRICS[metric].unit
            case Speedup(reference=reference, candidate=candidate):
                unit = "×"
                if reference == candidate:
                    raise ValueError(f"claim `{self.id}`: reference and candidate are both `{reference}`")
                if self.stated.printed_in is not None:
                    raise ValueError(f"claim `{self.id}`: `printed_in` is the unit of a time, and a ratio has none")
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
    programs: dict[str, str] = Field({}, description="Which program of the sources each documented variant is")
    sources: dict[str, Source] = {}
    tolerances: dict[str, Tolerance] = Field({}, description="Of numbers whose printed digits do not say how exact they are")
    claims: list[DocumentedClaim]

    @model_validator(mode="after")
    def _references_hold(self) -> "ClaimsFile":
        ids = [claim.id for claim in self.claims]
        for claim in self.claims:
            for place in claim.places:
                if place.source not in self.sources:
                    raise ValueError(f"claim `{claim.id}`: unknown source `{place.source}`")
            if claim.stated.tolerance not in (None, *self.tolerances):
                raise ValueError(f"claim `{claim.id}`: unknown tolerance `{claim.stated.tolerance}`")
            if ids.count(claim.id) > 1:
                raise ValueError(f"claim `{claim.id}`: duplicate id")
        for name, source in self.sources.items():
            if unknown := source.variants.keys() - self.variants.keys():
                raise ValueError(f"source `{name}`: unknown variant `{min(unknown)}`")
        return self

    def is_of_other_data(self, conditions: Conditions) -> bool:
        """Return whether a run's data are not the documented ones."""
        return conditions.synthetic_data or conditions.dataset_name != self.dataset

    def list_bounds(self, claim: DocumentedClaim) -> tuple[float, float]:
        """Return the smallest and the largest value that reproduce a claim of this file."""
        return list_bounds_of(claim.stated, claim.unit, self._tolerance_of(claim))

    def describe(self, claim: DocumentedClaim) -> str:
        """Return what a claim of this file states, as a table shows it."""
        return describe_stated(claim.stated, claim.unit, self._tolerance_of(claim))

    def describe_source(self, claim: DocumentedClaim) -> str:
        """Return where a claim of this file is stated."""
        return "; ".join(f"{self.sources[place.source].title}, {place.place}" for place in claim.places)

    def describe_subject(self, claim: DocumentedClaim) -> str:
        """Return of which programs a claim of this file speaks; nothing if the file does not say."""
        return " / ".join(self.programs[name] for name in list_claimed_variants(claim.quantity) if name in self.programs)

    def _tolerance_of(self, claim: DocumentedClaim) -> Tolerance | None:
        return self.tolerances[claim.stated.tolerance] if claim.stated.tolerance else None


def list_claimed_variants(quantity: Level | Speedup | Unmeasurable) -> list[str]:
    """Return the variants that a quantity is of, the reference first."""
    match quantity:
        case Level():
            return [quantity.variant]
        case Speedup():
            return [quantity.reference, quantity.candidate]
        case Unmeasurable():
            return []


def load_claims(path: Path) -> ClaimsFile:
    """Read a file of claims; raise :class:`ConfigError` that names file and key."""
    values = read_yaml(path)
    try:
        return ClaimsFile.model_validate(values)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise ConfigError(f"{path}: {where}: {problem['msg']}; correct the claim") from None
