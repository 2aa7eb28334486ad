"""Images for training: from their files by worker processes, as documented, or decoded once and kept on the GPU."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, SequentialSampler

from speedproof_classifier.folder import Images, list_images

BATCH_SIZE, WORKERS = 64, 4
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's red, green and blue, in [0, 1]


class Batches(Protocol):
    """What an epoch iterates over: N × 3 × H × W and N labels at a time."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]: ...
    def __len__(self) -> int: ...


class Files(Dataset[tuple[Tensor, int]]):
    """Image files, each decoded when it is asked for: 3 × H × W as bytes, or normalised, and its label."""

    def __init__(self, images: Images, normalised: bool = True) -> None:
        self.images, self.normalised = images, normalised

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.images.paths)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """Return image and label."""
        with Image.open(self.images.paths[index]) as file:
            pixels = np.array(file.convert("RGB"))
        image = torch.from_numpy(pixels).permute(2, 0, 1).contiguous()
        return normalise(image) if self.normalised else image, self.images.labels[index]


class Resident:
    """Decoded images on the GPU, normalised there a batch at a time; in the order that a loader of the same seed has."""

    def __init__(self, images: Tensor, labels: Tensor, shuffled: bool) -> None:
        self.images, self.labels = images, labels
        sampler = RandomSampler(labels) if shuffled else SequentialSampler(labels)
        self.batches = BatchSampler(sampler, BATCH_SIZE, drop_last=False)

    def __len__(self) -> int:
        """Return the number of batches."""
        return len(self.batches)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield batches."""
        torch.empty((), dtype=torch.int64).random_()  # a loader draws a number for its workers before its order
        order = torch.tensor([index for batch in self.batches for index in batch]).to(self.labels.device)
        for indices in order.split(BATCH_SIZE):
            yield normalise(self.images[indices]), self.labels[indices]


def normalise(image: Tensor) -> Tensor:
    """Return bytes, … × 3 × H × W, as documented: divided by 255, less the mean, divided by the deviation, of each colour."""
    mean, deviation = (torch.tensor(values, device=image.device)[:, None, None] for values in (MEAN, DEVIATION))
    return image.to(torch.float32).div_(255).sub_(mean).div_(deviation)


def list_splits(data: Path) -> dict[str, Images]:
    """Return the images of train, val and, if it exists, test; val uses the class numbers of train."""
    train = list_images(data / "train")
    splits = {"train": train, "val": list_images(data / "val", train.classes)}
    return splits | ({"test": list_images(data / "test")} if (data / "test").is_dir() else {})


def load_files(splits: dict[str, Images]) -> dict[str, Batches]:
    """Return the documented loaders: batches of 64 by 4 worker processes, those that train in a new order each epoch."""
    return {
        name: DataLoader(Files(images), BATCH_SIZE, shuffle=name == "train", num_workers=WORKERS)
        for name, images in splits.items()
    }


def keep_resident(splits: dict[str, Images], device: torch.device) -> dict[str, Batches]:
    """Decode all images once, on every core, and return them from the device's memory."""
    return {name: Resident(*decode(images, device), shuffled=name == "train") for name, images in splits.items()}


def decode(images: Images, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return all images as N × 3 × H × W bytes, and their labels."""
    own = torch.Generator()  # so that training's random numbers are those that it has without this
    batches = DataLoader(Files(images, normalised=False), batch_size=500, num_workers=count_cores(), generator=own)
    return torch.cat([batch.to(device) for batch, _ in batches]), torch.tensor(images.labels, device=device)


def count_cores() -> int:
    """Return how many processes decode side by side: one a core that this one may use."""
    return len(os.sched_getaffinity(0))
