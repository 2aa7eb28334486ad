"""Train one of PyTorch's variants: `python -m speedproof_polyp.torch_train --variant torch_plain --data FOLDER`."""

import argparse
import os
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import nvtx
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from speedproof import marks
from speedproof_polyp.pairs import (
    BATCH_SIZE,
    EPOCHS,
    LEARNING_RATE,
    LEAST_RATE,
    PLATEAU_EPOCHS,
    PLATEAU_FACTOR,
    SMOOTH,
    SPLITS,
    STOP_EPOCHS,
    LayoutError,
    Pair,
    count_whole_batches,
    list_pairs,
    read_image,
    read_mask,
)
from speedproof_polyp.torch_network import ResUNetPlusPlus

VARIANTS = ("torch_plain", "torch_loader", "torch_fast")
WORKERS = 8


class Batches(Protocol):
    """What an epoch iterates over: N × 3 × H × W images and N × 1 × H × W masks at a time."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]: ...
    def __len__(self) -> int: ...


class Sequential:
    """Loading as in the plain program: one pair after another in the training process, blue before green before red.

    Batches are made in the files' order; for training, the order of batches is shuffled.
    """

    def __init__(self, pairs: Sequence[Pair], pixels: int, shuffled: bool) -> None:
        self.pairs, self.pixels, self.shuffled = pairs, pixels, shuffled

    def __len__(self) -> int:
        """Return the number of batches."""
        return count_whole_batches(len(self.pairs))

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield batches."""
        order = list(range(len(self)))
        if self.shuffled:
            random.shuffle(order)
        for index in order:
            chosen = self.pairs[index * BATCH_SIZE : (index + 1) * BATCH_SIZE]
            images = np.stack([read_image(pair.image, self.pixels)[..., ::-1] for pair in chosen])
            masks = np.stack([read_mask(pair.mask, self.pixels) for pair in chosen])
            yield torch.from_numpy(images).permute(0, 3, 1, 2), torch.from_numpy(masks).permute(0, 3, 1, 2)


class Files(Dataset[tuple[Tensor, Tensor]]):
    """Pairs for a loader's processes, red before green before blue."""

    def __init__(self, pairs: Sequence[Pair], pixels: int) -> None:
        self.pairs, self.pixels = pairs, pixels

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.pairs)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """Return image and mask."""
        image, mask = read_image(self.pairs[index].image, self.pixels), read_mask(self.pairs[index].mask, self.pixels)
        return torch.from_numpy(image).permute(2, 0, 1), torch.from_numpy(mask).permute(2, 0, 1)


class Resident:
    """All pairs in the device's memory, decoded once."""

    def __init__(self, loader: Batches, device: torch.device, shuffled: bool) -> None:
        batches = list(loader)
        self.images, self.masks = (torch.cat([batch[part] for batch in batches]).to(device) for part in range(2))
        self.images = self.images.contiguous(memory_format=torch.channels_last)
        self.shuffled = shuffled

    def __len__(self) -> int:
        """Return the number of batches."""
        return -(-len(self.images) // BATCH_SIZE)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield batches."""
        order = torch.randperm(len(self.images)) if self.shuffled else torch.arange(len(self.images))
        for chosen in order.to(self.images.device).split(BATCH_SIZE):
            yield self.images[chosen], self.masks[chosen]


def load(variant: str, folder: Path, pixels: int, device: torch.device, workers: int) -> dict[str, Batches]:
    """Return a variant's batches of `train` and `valid`; raise a :class:`LayoutError` if there are none."""
    pairs = {split: list_pairs(folder / split) for split in SPLITS[:2]}
    if variant == "torch_plain":
        return {split: Sequential(own, pixels, shuffled=split == "train") for split, own in pairs.items()}
    loaders = {
        split: DataLoader(
            Files(own, pixels),
            BATCH_SIZE,
            shuffle=split == "train" and variant == "torch_loader",
            num_workers=workers,
            pin_memory=device.type == "cuda",
            persistent_workers=workers > 0 and variant == "torch_loader",
        )
        for split, own in pairs.items()
    }
    if variant == "torch_loader":
        return dict(loaders)
    return {split: Resident(loader, device, shuffled=split == "train") for split, loader in loaders.items()}


def dice(probability: Tensor, mask: Tensor) -> Tensor:
    """Return the Dice coefficient of a whole batch: (2 Σ p·m + 1) / (Σ p + Σ m + 1)."""
    return (2 * (probability * mask).sum() + SMOOTH) / (probability.sum() + mask.sum() + SMOOTH)


class Patience:
    """Counts epochs without a lower loss; lowers the rate, and ends training, as Keras' callbacks do."""

    def __init__(self, optimizer: torch.optim.Optimizer, ends: bool) -> None:
        self.ends, self.stopped = ends, False
        self.best, self.waited = float("inf"), 0
        # torch lowers the rate after more bad epochs than its patience, Keras after as many.
        self.plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
            optimizer, factor=PLATEAU_FACTOR, patience=PLATEAU_EPOCHS - 1, threshold_mode="abs", min_lr=LEAST_RATE, eps=0
        )

    def epochs(self, most: int) -> Iterator[int]:
        """Yield epochs until training is to end."""
        for epoch in range(most):
            if self.stopped:
                return
            yield epoch

    def see(self, loss: float) -> None:
        """Take an epoch's validation loss."""
        self.plateau.step(loss)
        self.waited = 0 if loss < self.best else self.waited + 1
        self.best = min(self.best, loss)
        self.stopped = self.ends and self.waited >= STOP_EPOCHS


class Trainer:
    """One variant's network, data and optimizer."""

    def __init__(self, variant: str, batches: dict[str, Batches], device: torch.device, filters: int) -> None:
        self.batches, self.device, self.fast = batches, device, variant == "torch_fast"
        self.network = ResUNetPlusPlus(filters).to(device)
        if self.fast:
            self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            torch.backends.cudnn.benchmark = True
        self.optimizer = torch.optim.NAdam(self.network.parameters(), LEARNING_RATE, eps=1e-7)

    def train(self, epochs: int, ends: bool) -> None:
        """Train and mark so many epochs; `ends`: fewer, where the validation's loss falls no more."""
        patience = Patience(self.optimizer, ends)
        for epoch in marks.epochs(patience.epochs(epochs)):
            with nvtx.annotate("epoch", color="red"):
                loss, samples = self.train_epoch()
                marks.samples(samples)
                marks.validation()
                with nvtx.annotate("validation", color="yellow"):
                    validation = self.validate()
                marks.quality(1 - validation)
                patience.see(validation)
            print(f"epoch {epoch + 1}: loss {loss}, validation Dice {1 - validation:.4f}", flush=True)

    def train_epoch(self) -> tuple[float, int]:
        """Return an epoch's mean loss, and on how many pairs it trained."""
        self.network.train()
        total, samples = torch.zeros((), device=self.device), 0
        batches = iter(self.batches["train"])
        while True:
            with nvtx.annotate("load", color="red"):
                batch = next(batches, None)
                if batch is None:
                    return total.item() / len(self.batches["train"]), samples
                image, mask = self.move(batch)
            with nvtx.annotate("forward", color="green"):
                loss = self.loss(image, mask)
            with nvtx.annotate("backward", color="blue"):
                self.optimizer.zero_grad(set_to_none=True)
                loss.backward()
            with nvtx.annotate("update", color="yellow"):
                self.optimizer.step()
            total += loss.detach()
            samples += len(image)

    @torch.no_grad()
    def validate(self) -> float:
        """Return the mean loss of the validation's batches."""
        self.network.eval()
        losses = [self.loss(*self.move(batch)) for batch in self.batches["valid"]]
        return float(torch.stack(losses).mean())

    def loss(self, image: Tensor, mask: Tensor) -> Tensor:
        """Return 1 less the Dice coefficient."""
        half = self.fast and self.device.type == "cuda"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=half):
            probability = self.network(image)
        return 1 - dice(probability, mask)

    def move(self, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Return a batch on the device."""
        image, mask = (part.to(self.device, non_blocking=True) for part in batch)
        return (image.contiguous(memory_format=torch.channels_last) if self.fast else image), mask


def main(words: Sequence[str] | None = None) -> None:
    """Train as the command line says; end in one line where the folder is none of pairs."""
    parser = argparse.ArgumentParser(description="Train one of PyTorch's variants of the polyp workload.")
    parser.add_argument("--variant", choices=VARIANTS, required=True)
    parser.add_argument("--data", type=Path, required=True, help="a folder with train/ and valid/, each of images/ and masks/")
    parser.add_argument("--pixels", type=int, default=256, help="height and width that pairs are resized to; divisible by 8")
    parser.add_argument("--filters", type=int, default=16, help="of the first level")
    parser.add_argument("--workers", type=int, default=WORKERS, help="processes that load, where some do")
    asked = parser.parse_args(words)
    wanted = os.environ.get(marks.EPOCHS_VARIABLE)
    seed = int(os.environ.get(marks.SEED_VARIABLE) or 0)
    random.seed(seed)
    torch.manual_seed(seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        batches = load(asked.variant, asked.data, asked.pixels, device, asked.workers)
    except LayoutError as error:
        sys.exit(str(error))
    # Whoever measures says how many epochs there are: each run of a variant must have as many.
    Trainer(asked.variant, batches, device, asked.filters).train(int(wanted or EPOCHS), ends=not wanted)


if __name__ == "__main__":
    main()
