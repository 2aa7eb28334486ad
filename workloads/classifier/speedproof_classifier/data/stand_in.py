"""A stand-in for Tiny ImageNet: JPEGs of its sizes in its layout, with classes that can be distinguished.

    train/<class>/images/<class>_<k>.JPEG     val/images/val_<k>.JPEG, val/val_annotations.txt     test/images/test_<k>.JPEG

A picture is a grating in its class' direction, width and colour, at a place and of a strength of its own, in noise. The same
recipe gives the same bytes with the same versions of NumPy and Pillow.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image
from pydantic import Field

from speedproof.api import Natural, Positive, Seed
from speedproof_classifier.folder import ANNOTATIONS_FILE
from speedproof_common import data as common
from speedproof_common.pool import do_each

CLASSES_FILE = "wnids.txt"
_JPEG_QUALITY = 75
_MEAN_JPEG_BYTES = 2300  # of 64×64 pixels, with these strengths; the real ones have about 2,000
_TRAINING, _VALIDATION, _TEST = range(3)


class StandIn(common.StandIn):
    """How many synthetic images there are, and how large; the defaults are the real set's numbers."""

    classes: Positive = Field(200, ge=2, le=1000, description="Folders of `train`")
    images_per_class: Positive = Field(500, le=100_000, description="Training images of a class")
    validation_images: Positive = Field(10_000, le=10_000_000, description="Of all classes in turn")
    test_images: Natural = Field(10_000, le=10_000_000, description="Without classes")
    pixels: Positive = Field(64, ge=8, le=4096, description="Width and height of each image")
    seed: Seed = Field(0, description="Another seed gives other images")

    @property
    def images(self) -> int:
        """Return how many images there are in all."""
        return self.classes * self.images_per_class + self.validation_images + self.test_images

    def estimate_bytes(self) -> int:
        """Return about how much room the images take, each at least a block of the file system."""
        return self.images * max(4096, _MEAN_JPEG_BYTES * self.pixels**2 // 64**2)


def make_stand_in(folder: Path, stand_in: StandIn, workers: int | None = None) -> None:
    """Write the images into the empty `folder`; `workers` processes share them, None: one a core, 1: this process alone."""
    names = [f"n{number:08d}" for number in range(stand_in.classes)]
    (folder / CLASSES_FILE).write_text("".join(f"{name}\n" for name in names), encoding="ascii")
    labels = [number % stand_in.classes for number in range(stand_in.validation_images)]
    files = [f"val_{number}.JPEG" for number in range(stand_in.validation_images)]
    for part in ("val", "test")[: 1 + bool(stand_in.test_images)]:
        (folder / part / "images").mkdir(parents=True)
    box = f"0\t0\t{stand_in.pixels - 1}\t{stand_in.pixels - 1}"
    lines = (f"{file}\t{names[label]}\t{box}\n" for file, label in zip(files, labels, strict=True))
    (folder / "val" / ANNOTATIONS_FILE).write_text("".join(lines), encoding="ascii")
    write = partial(_write_class, folder, stand_in, labels, names)
    do_each(write, range(stand_in.classes), workers)


def _write_class(folder: Path, stand_in: StandIn, labels: Sequence[int], names: Sequence[str], number: int) -> None:
    """Write the images of class `number`: those that train, validate and test."""
    name, images = names[number], folder / "train" / names[number] / "images"
    images.mkdir(parents=True)
    draw = partial(_draw, stand_in, number)
    for index, image in enumerate(draw(_TRAINING, stand_in.images_per_class)):
        _write(image, images / f"{name}_{index}.JPEG")
    own = [index for index, label in enumerate(labels) if label == number]
    for index, image in zip(own, draw(_VALIDATION, len(own)), strict=True):
        _write(image, folder / "val" / "images" / f"val_{index}.JPEG")
    unlabelled = range(number, stand_in.test_images, stand_in.classes)
    for index, image in zip(unlabelled, draw(_TEST, len(unlabelled)), strict=True):
        _write(image, folder / "test" / "images" / f"test_{index}.JPEG")


def _write(image: np.ndarray, path: Path) -> None:
    Image.fromarray(image).save(path, format="JPEG", quality=_JPEG_QUALITY)


def _draw(stand_in: StandIn, number: int, part: int, count: int) -> np.ndarray:
    """Return `count` images of class `number` as count × height × width × 3 bytes."""
    own = np.random.default_rng([stand_in.seed, number])
    angle, waves = own.uniform(0, np.pi), own.uniform(1.5, 6)
    bright, dark = own.uniform(90, 230, 3), own.uniform(20, 160, 3)
    random = np.random.default_rng([stand_in.seed, number, part])
    place = np.arange(stand_in.pixels) / stand_in.pixels
    along = np.cos(angle) * place[None, :] + np.sin(angle) * place[:, None]
    phase, strength = random.uniform(0, 2 * np.pi, (count, 1, 1)), random.uniform(0.5, 1, (count, 1, 1))
    wave = (1 + strength * np.cos(2 * np.pi * waves * along + phase)) / 2
    image = dark + wave[..., None] * (bright - dark) + random.normal(0, 14, (*wave.shape, 1))
    return np.clip(image, 0, 255).astype(np.uint8)
