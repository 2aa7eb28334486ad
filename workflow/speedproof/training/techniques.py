"""From a variant's switches to the objects they stand for: datasets, loaders, optimizer, precision."""

import atexit
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
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
    set_track_meta,
)
from monai.optimizers import Novograd
from monai.transforms import Compose
from monai.utils import set_determinism
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from speedproof.config import model as config
from speedproof.errors import TrainingError

Files = list[dict[str, str]]


def build_training_dataset(variant: config.Variant, files: Files, transform: Compose) -> Dataset:
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


def build_validation_dataset(variant: config.Variant, files: Files, transform: Compose) -> Dataset:
    """Return the dataset that validates, cached as the one that trains; always whole and in order."""
    return _build_dataset(variant, files, transform, variant.validation_cache_workers)


def _build_dataset(variant: config.Variant, files: Files, transform: Compose, workers: int) -> Dataset:
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


class ReplacingLoader(DataLoader):
    """Begins each pass with a share of the cached volumes exchanged for others, which were loaded during the last pass."""

    dataset: SmartCacheDataset

    def __iter__(self) -> Any:
        if self.dataset.is_started():
            self.dataset.update_cache()
        else:
            self.dataset.start()
        return super().__iter__()


def build_training_loader(variant: config.Variant, dataset: Dataset) -> DataLoader:
    """Return the loader of shuffled batches of volumes, each with its patches."""
    if variant.cache == "smart":
        loader: type[DataLoader] = ReplacingLoader
    else:
        loader = ThreadDataLoader if variant.loader == "thread" else DataLoader
    return loader(dataset, num_workers=variant.workers, batch_size=variant.batch_size, shuffle=True)


def build_validation_loader(variant: config.Variant, dataset: Dataset) -> DataLoader:
    """Return the loader of single volumes, in order."""
    loader = ThreadDataLoader if variant.loader == "thread" else DataLoader
    return loader(dataset, num_workers=variant.validation_workers, batch_size=1)


def build_optimizer(variant: config.Variant, network: nn.Module) -> Optimizer:
    """Return the optimizer of the network's parameters."""
    optimizer = variant.optimizer
    if isinstance(optimizer, config.AdamW):
        return AdamW(
            network.parameters(),
            optimizer.learning_rate,
            optimizer.betas,
            weight_decay=optimizer.weight_decay,
            fused=optimizer.fused,
        )
    if isinstance(optimizer, config.Adam):
        return Adam(network.parameters(), optimizer.learning_rate, optimizer.betas, fused=optimizer.fused)
    if isinstance(optimizer, config.Novograd):
        return Novograd(network.parameters(), optimizer.learning_rate)
    return SGD(
        network.parameters(),
        lr=optimizer.learning_rate,
        momentum=optimizer.momentum,
        weight_decay=optimizer.weight_decay,
        nesterov=optimizer.nesterov,
    )


def apply_meta_tracking(variant: config.Variant) -> None:
    """Switch MONAI's metadata on or off for all that follows; call it once the caches are filled."""
    set_track_meta(variant.track_meta)


@dataclass(frozen=True)
class Precision:
    """The precision of a training step: plain fp32, or half-precision autocast, with a gradient scaler where it needs one.

    On a CPU, autocast computes in bfloat16, the half precision that CPUs have; there, too, the scaler leaves out the steps
    whose gradients are not finite, as some processors' bfloat16 convolutions make them now and then.
    """

    device: torch.device
    half: torch.dtype | None  # None: fp32
    scaler: torch.amp.GradScaler | None

    def autocast(self) -> torch.autocast:
        """Return the context in which network and loss are computed."""
        return torch.autocast(self.device.type, dtype=self.half, enabled=self.half is not None)

    def backward(self, loss: Tensor) -> None:
        """Compute the gradients, scaled where the precision scales."""
        (self.scaler.scale(loss) if self.scaler else loss).backward()

    def update(self, optimizer: Optimizer) -> None:
        """Take the optimizer's step, skipped by the scaler where a gradient overflowed."""
        if self.scaler:
            self.scaler.step(optimizer)
            self.scaler.update()
        else:
            optimizer.step()


def build_precision(variant: config.Variant, device: torch.device) -> Precision:
    """Return the variant's precision on a device."""
    if variant.precision == "fp32":
        return Precision(device, None, None)
    if device.type == "cpu":
        return Precision(device, torch.bfloat16, torch.amp.GradScaler(device.type))
    if variant.precision == "bf16":
        return Precision(device, torch.bfloat16, None)
    return Precision(device, torch.float16, torch.amp.GradScaler(device.type))


def fix_randomness(variant: config.Variant, seed: int) -> None:
    """Seed all generators, and let cuDNN try its kernels where the variant wants the fastest."""
    set_determinism(seed)
    if variant.cudnn == "autotune":
        torch.backends.cudnn.deterministic = False
        torch.backends.cudnn.benchmark = True


def apply_memory_format(variant: config.Variant, network: nn.Module) -> nn.Module:
    """Return the network with its weights in the variant's memory format; activations follow the weights."""
    if variant.memory_format == "channels_last":
        network.to(memory_format=torch.channels_last_3d)  # type: ignore[call-overload]  # torch's annotations lack it
    return network


def build_objective(variant: config.Variant, network: nn.Module, loss: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the function of (images, labels) whose value training lowers, compiled where the variant says so.

    Compiled for the shapes it meets: the batches of an epoch, of which the last may be smaller.
    """

    def objective(images: Tensor, labels: Tensor) -> Tensor:
        return loss(network(images), labels)

    if variant.compile == "none":
        return objective
    return torch.compile(objective, mode="reduce-overhead" if variant.compile == "cuda_graphs" else "default", dynamic=False)
