"""A stand-in for Kvasir-SEG: pairs of JPEGs of its sizes in the split layout, a smooth blob on a textured ground.

The same recipe gives the same bytes with the same versions of NumPy and Pillow.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image
from pydantic import Field, model_validator

from speedproof.config.base import EdgeLength, Natural, Positive, Seed
from speedproof_common import data as common
from speedproof_common.pool import do_each
from speedproof_polyp.pairs import SPLITS

_JPEG_QUALITY = 85
_BYTES_PER_PIXEL = 0.15  # of an image and its mask, of this texture and quality
_CROWDED = 4  # the larger, the more of the sizes are near the smallest one
_MEAN_SHARE = 1 / (_CROWDED + 1)

Size = tuple[int, int]


class StandIn(common.StandIn):
    """How many synthetic pairs there are, and how large; the defaults are the real set's numbers."""

    train: Positive = Field(800, le=1_000_000, description="Pairs that train")
    valid: Positive = Field(100, le=1_000_000, description="Pairs that validate")
    test: Natural = Field(100, le=1_000_000, description="Pairs that nothing looks at while training")
    smallest: tuple[EdgeLength, EdgeLength] = Field((332, 487), description="Width and height of the first pair, in pixels")
    largest: tuple[Positive, Positive] = Field((1920, 1072), description="Width and height of the second pair, in pixels")
    seed: Seed = Field(0, description="Another one gives other pairs")

    @model_validator(mode="after")
    def _sizes_are_in_order(self) -> "StandIn":
        if min(self.smallest) < 16 or max(self.largest) > 8192:
            raise ValueError("`smallest` and `largest` must lie between 16 and 8192 pixels")
        if any(low > high for low, high in zip(self.smallest, self.largest, strict=True)):
            raise ValueError("`smallest` is larger than `largest`; the other way round?")
        return self

    @property
    def pairs(self) -> int:
        """Return how many pairs there are in all."""
        return self.train + self.valid + self.test

    def estimate_bytes(self) -> int:
        """Return about how much room the pairs take."""
        width, height = (low + (high - low) * _MEAN_SHARE for low, high in zip(self.smallest, self.largest, strict=True))
        return int(self.pairs * max(8192, _BYTES_PER_PIXEL * width * height))


def make_stand_in(folder: Path, stand_in: StandIn, workers: int | None = None) -> None:
    """Write the pairs into the empty `folder`; `workers` processes share them, None: one a core, 1: this process alone."""
    for split in SPLITS:
        for part in ("images", "masks"):
            (folder / split / part).mkdir(parents=True)
    write = partial(_write_pair, folder, stand_in)
    do_each(write, list(_list_jobs(stand_in)), workers, chunk=16)


def _list_jobs(stand_in: StandIn) -> Iterator[tuple[int, str]]:
    """Yield each pair's number and split."""
    splits = [split for split in SPLITS for _ in range(getattr(stand_in, split))]
    yield from enumerate(splits)


def _write_pair(folder: Path, stand_in: StandIn, job: tuple[int, str]) -> None:
    number, split = job
    random = np.random.default_rng([stand_in.seed, number])
    image, mask = _draw(_choose_size(stand_in, number, random), random)
    for part, pixels in (("images", image), ("masks", mask)):
        path = folder / split / part / f"polyp_{number:05d}.jpg"
        Image.fromarray(pixels).save(path, format="JPEG", quality=_JPEG_QUALITY)


def _choose_size(stand_in: StandIn, number: int, random: np.random.Generator) -> Size:
    """Return width and height: of the first pair the smallest, of the second the largest, of most others rather small."""
    share = float(number) if number < 2 else float(random.uniform() ** _CROWDED)
    width, height = (round(low + (high - low) * share) for low, high in zip(stand_in.smallest, stand_in.largest, strict=True))
    return width, height


def _draw(size: Size, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return an image, height × width × 3 bytes, and its mask, height × width bytes of 0 and 255."""
    width, height = size
    rows, columns = np.ogrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
    across, down = columns - random.uniform(-0.4, 0.4), rows - random.uniform(-0.4, 0.4)
    angle, distance = np.arctan2(down, across), np.hypot(down, across)
    edge = random.uniform(0.25, 0.5) * np.ones_like(angle)
    for waves in (2, 3, 4):  # a smooth outline: three harmonics around a circle
        edge += 0.06 / (waves - 1) * np.cos(waves * angle + random.uniform(0, 2 * np.pi))
    inside = distance < edge
    coarse = random.uniform(-1, 1, (max(2, height // 24), max(2, width // 24))).astype(np.float32)
    texture = np.asarray(Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC))
    texture = 22 * texture + random.integers(-6, 7, (height, width), dtype=np.int8)
    raised = np.clip((edge - distance) * 6, 0, 1)  # the blob is lighter, and rises from its edge
    ground, blob = np.array([150, 78, 60]), np.array([205, 128, 104])
    image = ground + raised[..., None] * (blob - ground) + texture[..., None]
    return np.clip(image, 0, 255).astype(np.uint8), np.where(inside, 255, 0).astype(np.uint8)
