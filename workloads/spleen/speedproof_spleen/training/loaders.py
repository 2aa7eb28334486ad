"""From a variant and its files to what the loop iterates over. Caches are filled here."""

import logging
import os
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from math import prod
from pathlib import Path

import torch

from speedproof.api import Dataset, TrainingError
from speedproof_accelerate.resident import PatchLoader, ResidentVolumes, VolumeLoader
from speedproof_spleen.data.nifti import MOST_VOXELS
from speedproof_spleen.segmentation import Case
from speedproof_spleen.training.loop import Batches
from speedproof_spleen.training.preparation import Store, prepare_volumes
from speedproof_spleen.training.reading import Readings
from speedproof_spleen.training.techniques import choose_crops, image_precision
from speedproof_spleen.variant import SpleenVariant

Files = list[dict[str, str]]

log = logging.getLogger("speedproof")

# Workers hand tensors over by sockets below TMPDIR. Linux takes paths of 107 bytes (unix(7)); torch hangs if one is longer.
_LONGEST_TMPDIR = 107 - len("/pymp-00000000/listener-00000000")


@dataclass(frozen=True)
class Loaders:
    """What trains and what validates."""

    training: Batches
    validation: Batches
    patches_per_epoch: int
    warnings: tuple[str, ...] = ()  # what makes these other than the variant promises
    cache_bytes: int | None = None  # what caches in memory hold of both; None: there are none


def build_store(case: Case, variant: SpleenVariant, dataset: Dataset, files: Files, device: torch.device) -> Store | None:
    """Return where the variant keeps prepared volumes from run to run; None where it does not."""
    if variant.prepared_folder is None:
        return None
    packages = {"monai": version("monai"), "torch": torch.__version__, "device": device.type}
    return Store(Path(variant.prepared_folder), case.preparation_settings() | packages, dataset.checksums(files))


def build_loaders(
    case: Case,
    variant: SpleenVariant,
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
    if variant.workers or variant.validation_workers:
        _check_sockets(tempfile.gettempdir())
    for file in [*training, *validation]:
        _check_room(file["image"], case.plan_shape(file["image"]), case.patch_size() if file in training else None)
    from speedproof_spleen.training.datasets import (
        build_training_dataset,
        build_training_loader,
        build_validation_dataset,
        build_validation_loader,
        count_cached_bytes,
    )

    training_data = build_training_dataset(variant, training, case.training_transform())
    validation_data = build_validation_dataset(variant, validation, case.validation_transform())
    return Loaders(
        build_training_loader(variant, training_data),
        build_validation_loader(variant, validation_data),
        len(training_data) * case.patches_per_volume(),
        cache_bytes=count_cached_bytes(training_data, validation_data),
    )


def _check_sockets(folder: str) -> None:
    """Check that sockets can lie in the folder for temporary files.

    Raises:
        TrainingError: they cannot.
    """
    if (length := len(os.fsencode(folder))) > _LONGEST_TMPDIR:
        raise TrainingError(
            f"TMPDIR: {folder}: {length} bytes long, loaders' workers need one of at most {_LONGEST_TMPDIR}; "
            "name a shorter folder"
        )


def _check_room(name: str, shape: tuple[int, ...], patch: tuple[int, ...] | None) -> None:
    """Check that a volume has something in it, no more than can be counted, and, where it trains, room for a patch.

    Raises:
        TrainingError: it has not.
    """
    found = "×".join(map(str, shape))
    if not min(shape):
        raise TrainingError(f"{name}: nothing of it is above workload.intensity_range; correct that, or leave the case out")
    if prod(shape) > MOST_VOXELS:
        raise TrainingError(
            f"{name}: {found} voxels after resampling, too many; raise workload.spacing_mm, or leave the case out"
        )
    if patch and any(length < side for length, side in zip(shape, patch, strict=True)):
        sides = "×".join(map(str, patch))
        raise TrainingError(
            f"{name}: {found} voxels after resampling, smaller than a patch of {sides}; lower workload.patch_size or "
            "workload.spacing_mm, or leave the case out"
        )


def _build_resident_loaders(
    case: Case,
    variant: SpleenVariant,
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
    for number, (file, volume) in enumerate(zip([*training, *validation], prepared.volumes, strict=True)):
        _check_room(file["image"], tuple(volume.image.shape), case.patch_size() if number < len(training) else None)
        if volume.label.shape != volume.image.shape:
            raise TrainingError(
                f"{file['label']}: another shape than its image's after resampling; align the two, or leave it out"
            )
    volumes = ResidentVolumes(prepared.volumes[: len(training)], case.patch_size(), choose_crops(variant, device))
    precision = image_precision(variant, device)
    return Loaders(
        PatchLoader(volumes, variant.batch_size, case.patches_per_volume(), precision),
        VolumeLoader(prepared.volumes[len(training) :], precision, together=variant.toolkit == "torch"),
        len(volumes) * case.patches_per_volume(),
        tuple(warnings),
        sum(volume.image.nbytes + volume.label.nbytes for volume in prepared.volumes),
    )
