"""The workload's own part of the configuration: data, what all variants share, variants. Each field says what it is."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from speedproof.api import (
    Completed,
    Config,
    Folder,
    Model,
    Name,
    Number,
    Positive,
    Seed,
    Variant,
    check_own_config,
    find_entry,
    load_files,
)
from speedproof_spleen.data import REGISTRY
from speedproof_spleen.data.sizes import estimate_bytes
from speedproof_spleen.extends import complete_variants
from speedproof_spleen.variant import TECHNIQUES, SpleenVariant

Spacing = Annotated[Number, Field(ge=0.05, le=100)]
Hounsfield = Annotated[Number, Field(ge=-1e6, le=1e6)]
Voxels = Annotated[Positive, Field(le=1024)]


class Phantom(Model):
    """Synthetic abdominal CTs in the Decathlon layout."""

    size: Literal["tiny", "small", "medium", "full"] = Field("full", description="`full` has the real set's 41 volumes")
    seed: Seed = Field(0, description="The same seed and size give the same bytes")


class Data(Model):
    """Where the labelled volumes come from."""

    source: Literal["msd", "local", "phantom"] = Field("msd", description="The registry's download, a folder, or synthetic")
    folder: Folder = Field("data", description="Where downloads and phantoms are kept, relative to the working folder")
    registry_entry: str = Field("Task09_Spleen", description="The registry's entry to download (`msd`)")
    local_folder: Folder | None = Field(None, description="A folder with imagesTr/ and labelsTr/ (`local`)")
    phantom: Phantom = Phantom()

    @model_validator(mode="after")
    def _local_needs_a_folder(self) -> "Data":
        if self.source == "local" and not self.local_folder:
            raise ValueError("source `local` needs `local_folder`, a folder with imagesTr/ and labelsTr/")
        return self


class Workload(Model):
    """What every variant of a case shares: the documented values are the defaults."""

    validation_cases: Positive = Field(9, le=100_000, description="The last cases by name validate, the others train")
    spacing_mm: tuple[Spacing, Spacing, Spacing] = Field((1.5, 1.5, 2.0), description="Voxel size after resampling")
    intensity_range: tuple[Hounsfield, Hounsfield] = Field(
        (-57.0, 164.0), description="Hounsfield units mapped to [0, 1], clipped"
    )
    patch_size: tuple[Voxels, Voxels, Voxels] = Field((96, 96, 96), description="Voxels of a training patch")
    patches_per_volume: Positive = Field(
        4, le=10_000, description="Random patches of a volume an epoch, foreground:background 1:1"
    )
    window_size: tuple[Voxels, Voxels, Voxels] = Field((160, 160, 160), description="Voxels of the sliding window")
    window_overlap: Number = Field(0.25, ge=0, lt=1, description="Share of a window that the next one covers again")
    window_batch: Positive = Field(4, le=10_000, description="Windows in one forward pass")

    @field_validator("intensity_range")
    @classmethod
    def _range_rises(cls, value: tuple[float, float]) -> tuple[float, float]:
        if value[0] >= value[1]:
            raise ValueError(f"must be [lower, upper], not [{value[0]:g}, {value[1]:g}]; the other way round?")
        return value


class SpleenConfig(Config):
    """The whole configuration, with this workload's parts typed."""

    data: Data = Data()  # type: ignore[assignment]
    workload: Workload = Workload()  # type: ignore[assignment]
    variants: dict[Name, SpleenVariant] = Field(description="Ways to train, by name")

    @model_validator(mode="before")
    @classmethod
    def _complete_variants(cls, values: Any) -> Any:
        if isinstance(values, dict) and isinstance(values.get("variants"), dict):
            return {**values, "variants": complete_variants(values["variants"])}
        return values

    @model_validator(mode="after")
    def _networks_halve_every_side(self) -> "SpleenConfig":
        for name in self.measurement.all_variants():
            halvings = len(self.variants[name].network.channels) - 1
            for key in ("patch_size", "window_size"):
                if any(side % 2**halvings for side in getattr(self.workload, key)):
                    raise ValueError(
                        f"workload.{key}: the network of `{name}` halves each size {halvings} times; "
                        f"set sizes that are multiples of {2**halvings}"
                    )
        return self

    @model_validator(mode="after")
    def _checkpoints_hold_all_that_decides(self) -> "SpleenConfig":
        smart = [name for name in self.measurement.all_variants() if self.variants[name].cache == "smart"]
        if self.measurement.checkpoint_every and smart:
            raise ValueError(
                f"measurement.checkpoint_every: `{smart[0]}` exchanges volumes of its cache every epoch, which no checkpoint "
                "holds; set it to null"
            )
        return self

    def complete(self) -> Completed:
        """Return each variant as a program, and what the data need."""
        return Completed(
            variants={name: _as_variant(variant) for name, variant in self.variants.items()},
            shared=self.workload.model_dump(mode="json"),
            techniques=TECHNIQUES,
            ranges=("epoch", "dataload", "forward", "backward", "update"),
            dataset=self.data.source,
            folders={
                "data.folder": self.data.folder,
                "data.local_folder": self.data.local_folder or "",
                **{f"variants.{name}.prepared_folder": str(folder) for name, folder in self._prepared_folders().items()},
            },
            download_mib=self._download_mib(),
            data_mib=self._data_mib(),
        )

    def _prepared_folders(self) -> dict[str, str]:
        folders = {
            name: self.variants[name].prepared_folder for name in self.measurement.all_variants() if name in self.variants
        }
        return {name: folder for name, folder in folders.items() if folder is not None}

    def _download_mib(self) -> float:
        return float(find_entry(REGISTRY, self.data.registry_entry).expected_mib) if self.data.source == "msd" else 0.0

    def _data_mib(self) -> float:
        """Return the room that the volumes need: an archive of compressed volumes unpacks to as much again."""
        if self.data.source == "phantom":
            return estimate_bytes(self.data.phantom.size) / 2**20
        return 2 * self._download_mib()


def check_config(values: Any, origin: str = "config") -> SpleenConfig:
    """Return the typed configuration, or raise a :class:`ConfigError` that names the key's path."""
    return check_own_config(SpleenConfig, Path(__file__).parents[1], values, origin)


def load_config(*paths: Path) -> SpleenConfig:
    """Read YAML (or JSON) files, each laid over the ones before it, and check the result."""
    return load_files(check_config, *paths)


def _as_variant(variant: SpleenVariant) -> Variant:
    return Variant(
        title=variant.title,
        gpus=variant.gpus,
        nodes=variant.nodes,
        epochs=variant.epochs,
        validate_every=variant.validate_every,
        prepared_folder=variant.prepared_folder,
        settings=variant.model_dump(mode="json"),
    )
