"""MONAI's datasets and loaders, those of every cache but the resident one. To import it is to import MONAI."""

import atexit
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from monai.data import (
    CacheDataset,
    DataLoader,
    Dataset,
    LMDBDataset,
    PersistentDataset,
    SmartCacheDataset,
    ThreadDataLoader,
)
from monai.transforms import Compose

from speedproof.api import TrainingError
from speedproof_spleen import variant as config

Files = list[dict[str, str]]


def build_training_dataset(variant: config.SpleenVariant, files: Files, transform: Compose) -> Dataset:
    """Return the dataset that trains; a cache is filled here, but for a persistent one, which the first epoch fills."""
    if variant.cache == "smart":
        return SmartCacheDataset(
            data=files,
            transform=transform,
            cache_rate=variant.cache_rate,
            replace_rate=variant.replace_rate,
            num_init_workers=variant.cache_workers,
            num_replace_workers=variant.cache_workers,
            copy_cache=variant.copy_cache,
            progress=False,
        )
    return _build_dataset(variant, files, transform, variant.cache_workers)


def build_validation_dataset(variant: config.SpleenVariant, files: Files, transform: Compose) -> Dataset:
    """Return the dataset that validates, cached as the one that trains; always whole and in order."""
    return _build_dataset(variant, files, transform, variant.validation_cache_workers)


def _build_dataset(variant: config.SpleenVariant, files: Files, transform: Compose, workers: int) -> Dataset:
    match variant.cache:
        case "none":
            return Dataset(data=files, transform=transform)
        case "persistent":
            return PersistentDataset(data=files, transform=transform, cache_dir=_make_cache_folder())
        case "lmdb":
            return _build_lmdb_dataset(files, transform)
        case _:
            return CacheDataset(
                data=files,
                transform=transform,
                cache_rate=1.0,
                num_workers=workers,
                copy_cache=variant.copy_cache,
                progress=False,
            )


def _build_lmdb_dataset(files: Files, transform: Compose) -> Dataset:
    if find_spec("lmdb") is None:
        raise TrainingError("cache: lmdb needs the package `lmdb`, which is not installed; install it, or use `persistent`")
    return LMDBDataset(data=files, transform=transform, cache_dir=_make_cache_folder(), progress=False)


def _make_cache_folder() -> Path:
    """Return a new folder for a cache on disk, empty, so that every run fills its own; it goes when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="speedproof-cache-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def count_cached_bytes(*datasets: Dataset) -> int | None:
    """Return the bytes of filled caches in memory, on the device or not; None if there is no such cache."""
    caches = [dataset._cache for dataset in datasets if isinstance(dataset, CacheDataset)]
    values = (value for cache in caches for item in cache for value in item.values())
    return sum(getattr(value, "nbytes", 0) for value in values) if caches else None


class ReplacingLoader(DataLoader):
    """Begins each pass with a share of the cached volumes exchanged for others, which were loaded during the last pass."""

    dataset: SmartCacheDataset

    def __iter__(self) -> Any:
        if self.dataset.is_started():
            self.dataset.update_cache()
        else:
            self.dataset.start()
        return super().__iter__()


def build_training_loader(variant: config.SpleenVariant, dataset: Dataset) -> DataLoader:
    """Return the loader of shuffled batches of volumes, each with its patches."""
    if variant.cache == "smart":
        loader: type[DataLoader] = ReplacingLoader
    else:
        loader = ThreadDataLoader if variant.loader == "thread" else DataLoader
    options = _choose_options(variant, variant.workers)
    return loader(dataset, num_workers=variant.workers, batch_size=variant.batch_size, shuffle=True, **options)


def build_validation_loader(variant: config.SpleenVariant, dataset: Dataset) -> DataLoader:
    """Return the loader of single volumes, in order."""
    loader = ThreadDataLoader if variant.loader == "thread" else DataLoader
    return loader(
        dataset, num_workers=variant.validation_workers, batch_size=1, **_choose_options(variant, variant.validation_workers)
    )


def _choose_options(variant: config.SpleenVariant, workers: int) -> dict[str, Any]:
    """Return a loader's options for so many worker processes, and for the memory of its batches."""
    options: dict[str, Any] = {"pin_memory": variant.pin_memory and variant.copies_batches and torch.cuda.is_available()}
    if workers:
        options |= {"persistent_workers": variant.persistent_workers, "prefetch_factor": variant.prefetch_factor}
    return options
