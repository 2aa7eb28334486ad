"""From a variant and its files to what the loop iterates over. Caches are filled here."""

import logging
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import torch

from speedproof.cases import Case
from speedproof.config.variant import Variant
from speedproof.errors import TrainingError
from speedproof.records.dataset import Dataset
from speedproof.training.loop import Batches
from speedproof.training.preparation import Store, prepare_volumes
from speedproof.training.reading import Readings
from speedproof.training.resident import PatchLoader, ResidentVolumes, VolumeLoader
from speedproof.training.techniques import choose_crops, image_precision

Files = list[dict[str, str]]

log = logging.getLogger("speedproof")


@dataclass(frozen=True)
class Loaders:
    """What trains and what validates."""

    training: Batches
    validation: Batches
    patches_per_epoch: int
    warnings: tuple[str, ...] = ()  # what makes these other than the variant promises


def build_store(case: Case, variant: Variant, dataset: Dataset, files: Files, device: torch.device) -> Store | None:
    """Return where the variant keeps prepared volumes from run to run; None where it does not."""
    if variant.prepared_folder is None:
        return None
    packages = {"monai": version("monai"), "torch": torch.__version__, "device": device.type}
    return Store(Path(variant.prepared_folder), case.preparation_settings() | packages, dataset.checksums(files))


def build_loaders(
    case: Case,
    variant: Variant,
    training: Files,
    validation: Files,
    device: torch.device,
    store: Store | None = None,
    readings: Readings | None = None,
) -> Loaders:
    """Return the variant's loaders.

    Of resident volumes, `store` holds what earlier runs prepared, or what this one will, and `readings` what is being read.
    """
    if variant.cache == "resident":
        return _build_resident_loaders(case, variant, training, validation, device, store, readings)
    from speedproof.training.datasets import (
        build_training_dataset,
        build_training_loader,
        build_validation_dataset,
        build_validation_loader,
    )

    training_data = build_training_dataset(variant, training, case.training_transform())
    validation_data = build_validation_dataset(variant, validation, case.validation_transform())
    return Loaders(
        build_training_loader(variant, training_data),
        build_validation_loader(variant, validation_data),
        len(training_data) * case.patches_per_volume(),
    )


def _build_resident_loaders(
    case: Case,
    variant: Variant,
    training: Files,
    validation: Files,
    device: torch.device,
    store: Store | None,
    readings: Readings | None,
) -> Loaders:
    prepared = prepare_volumes([*training, *validation], case.preparation_transform, device, store, readings)
    found, warnings = f"{prepared.from_store} of {len(prepared.volumes)} prepared volumes", []
    if store:
        log.info("%s were kept in %s", found, store.folder)
        if prepared.from_store < len(prepared.volumes):
            warnings.append(f"only {found} were kept: this run prepared the others itself, so it did not start warm")
    try:
        volumes = ResidentVolumes(prepared.volumes[: len(training)], case.patch_size(), choose_crops(variant, device))
    except ValueError as error:
        raise TrainingError(f"cache: resident: {error}; lower workload.patch_size") from None
    precision = image_precision(variant)
    # On a processor autocast computes in bfloat16, and does not stack windows of another half precision.
    of_volumes = precision if device.type == "cuda" else torch.float32
    return Loaders(
        PatchLoader(volumes, variant.batch_size, case.patches_per_volume(), precision),
        VolumeLoader(prepared.volumes[len(training) :], of_volumes, together=variant.toolkit == "torch"),
        len(volumes) * case.patches_per_volume(),
        tuple(warnings),
    )
