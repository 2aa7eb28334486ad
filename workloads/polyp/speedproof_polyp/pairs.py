"""Kvasir-SEG's layout, and a pair of it as numbers. Of Python's standard library, NumPy and Pillow: each framework has these.

train/images/<name>.jpg  train/masks/<name>.jpg     valid/…     test/…
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

SPLITS = ("train", "valid", "test")
_OTHER_IMAGES = {".png", ".jpeg", ".bmp", ".tif", ".tiff"}
BATCH_SIZE, LEARNING_RATE, EPOCHS = 8, 1e-4, 100
# The rate falls to a tenth after so many epochs without a lower loss, not below the least; training ends after more of them.
PLATEAU_EPOCHS, PLATEAU_FACTOR, LEAST_RATE, STOP_EPOCHS = 5, 0.1, 1e-6, 10
SMOOTH = 1.0  # of the Dice coefficient


class LayoutError(Exception):
    """A folder that is not laid out as Kvasir-SEG is."""


class Pair(NamedTuple):
    """An image and its mask."""

    image: Path
    mask: Path


def list_pairs(folder: Path) -> list[Pair]:
    """Return a folder's pairs of `images/` and `masks/`, by name; raise a :class:`LayoutError` if one lacks the other."""
    images, masks = ({path.name: path for path in sorted((folder / part).glob("*.jpg"))} for part in ("images", "masks"))
    files = [path for part in ("images", "masks") for path in sorted((folder / part).glob("*"))]
    if other := next((path for path in files if path.suffix.lower() in _OTHER_IMAGES), None):
        raise LayoutError(f"{other}: images and masks are read from .jpg alone; convert it and its pair, or remove them")
    if not images:
        raise LayoutError(
            f"{folder}: no images/*.jpg; give a folder with train/, valid/ and test/, each with images/ and masks/"
        )
    if alone := sorted(images.keys() ^ masks.keys()):
        raise LayoutError(f"{folder}: {alone[0]} has no image or no mask of that name; complete or remove it")
    return [Pair(image, masks[name]) for name, image in images.items()]


def count_whole_batches(pairs: int) -> int:
    """Return how many batches the plain program makes: what fills none is left out, unless it is all that there is."""
    return max(1, pairs // BATCH_SIZE)


def read_image(path: Path, pixels: int) -> np.ndarray:
    """Return an image as pixels × pixels × 3 (red, green, blue) float32 in [0, 1]."""
    with Image.open(path) as image:
        return _sample(image.convert("RGB"), pixels)


def read_mask(path: Path, pixels: int) -> np.ndarray:
    """Return a mask as pixels × pixels × 1 float32 in [0, 1]; in between at its edges."""
    with Image.open(path) as mask:
        return _sample(mask.convert("L"), pixels)[..., None]


def _sample(image: Image.Image, pixels: int) -> np.ndarray:
    """Return the image at pixels × pixels points, bilinear between four neighbours, as OpenCV and TensorFlow resize."""
    size, box = (pixels, pixels), (0, 0, *image.size)
    sampled = image.transform(size, Image.Transform.EXTENT, box, Image.Resampling.BILINEAR)
    return np.asarray(sampled, dtype=np.float32) / 255
