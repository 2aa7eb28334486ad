"""A stand-in for CAMELYON16: whole slides of JPEG tiles, in each a round tumour, and regions with the labels of their patches.

The same recipe gives the same bytes with the same versions of NumPy and Pillow. Tumour is darker and more violet than tissue.
"""

import csv
import io
import struct
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import Field

from speedproof.api import Positive, Seed
from speedproof_common import data as common
from speedproof_common.pool import do_each
from speedproof_pathology.regions import FILES, GRID, SLIDES

TILE = 256
_QUALITY = 80
_BYTES_OF_A_TILE = 16_000
_TISSUE, _TUMOUR = (225, 165, 205), (165, 95, 175)
_NOISE = 12.0
_CELLS = 32  # of the pattern, along a tile's edge
_DRAWN_TILES, _DRAWN_TUMOUR, _DRAWN_REGIONS = range(3)


class StandIn(common.StandIn):
    """How many synthetic slides and regions there are."""

    training_slides: Positive = Field(6, le=10_000, description="Slides of the regions that train")
    validation_slides: Positive = Field(2, le=10_000, description="Slides of those that validate")
    slide_pixels: Positive = Field(8192, ge=512, le=200_000, description="Width and height of a slide; real ones: 100,000")
    training_regions: Positive = Field(1280, le=10_000_000, description="Lines of training.csv; the real one has 400,000")
    validation_regions: Positive = Field(128, le=10_000_000, description="Lines of validation.csv")
    seed: Seed = Field(0, description="Another seed gives other slides")

    @property
    def slides(self) -> int:
        """Return how many slides there are in all."""
        return self.training_slides + self.validation_slides

    def estimate_bytes(self) -> int:
        """Return about how much room the slides take."""
        return self.slides * (-(-self.slide_pixels // TILE)) ** 2 * _BYTES_OF_A_TILE


def make_stand_in(folder: Path, stand_in: StandIn, region: int, workers: int | None = None) -> None:
    """Write slides and lists into the empty `folder`; `region`: width of a region in pixels, within the slide.

    `workers` processes share the slides. Default: one per core; 1: this process alone.
    """
    (folder / SLIDES).mkdir(parents=True)
    places = {"train": range(stand_in.training_slides), "validate": range(stand_in.training_slides, stand_in.slides)}
    counts = {"train": stand_in.training_regions, "validate": stand_in.validation_regions}
    for part, file in FILES.items():
        with (folder / file).open("w", newline="", encoding="ascii") as lines:
            csv.writer(lines, lineterminator="\n").writerows(draw_regions(stand_in, places[part], counts[part], region))
    write = partial(_write_slide, folder / SLIDES, stand_in)
    do_each(write, range(stand_in.slides), workers)


def _name(slide: int) -> str:
    return f"tumor_{slide + 1:03d}"


def _find_tumour(stand_in: StandIn, slide: int) -> tuple[float, float, float]:
    """Return x, y and radius of a slide's tumour, in pixels; it covers about a third of the slide."""
    random = np.random.default_rng([stand_in.seed, _DRAWN_TUMOUR, slide])
    x, y, radius = random.uniform((0.35, 0.35, 0.28), (0.65, 0.65, 0.36)) * stand_in.slide_pixels
    return float(x), float(y), float(radius)


def draw_regions(stand_in: StandIn, slides: range, count: int, region: int) -> Iterator[list[int | str]]:
    """Yield lines of a list: regions that lie in their slide; a patch is tumour where its centre is."""
    random = np.random.default_rng([stand_in.seed, _DRAWN_REGIONS, slides.start])
    half = region // 2
    offsets = (np.arange(GRID) - (GRID - 1) / 2) * region / GRID
    for number in range(count):
        slide = slides[number % len(slides)]
        x, y = (int(one) for one in random.integers(half, stand_in.slide_pixels - half + 1, 2))
        across, down, radius = _find_tumour(stand_in, slide)
        inside = np.hypot(x + offsets[:, None] - across, y + offsets[None, :] - down) < radius  # column by column
        yield [_name(slide), x, y, *inside.astype(int).ravel().tolist()]


def _write_slide(folder: Path, stand_in: StandIn, slide: int) -> None:
    across = -(-stand_in.slide_pixels // TILE)
    tiles = (_encode(draw_tile(stand_in, slide, row, column)) for row in range(across) for column in range(across))
    write_tiff(folder / f"{_name(slide)}.tif", stand_in.slide_pixels, stand_in.slide_pixels, tiles)


def draw_tile(stand_in: StandIn, slide: int, row: int, column: int) -> NDArray[np.uint8]:
    """Return a tile of a slide as TILE × TILE × 3 bytes: a coarse pattern of cells, fine noise, two colours."""
    random = np.random.default_rng([stand_in.seed, _DRAWN_TILES, slide, row, column])
    cells = Image.fromarray(random.integers(0, 60, (_CELLS, _CELLS), np.uint8)).resize((TILE, TILE), Image.Resampling.BILINEAR)
    x, y, radius = _find_tumour(stand_in, slide)
    place = np.arange(TILE)
    tumour = np.hypot(column * TILE + place[None, :] - x, row * TILE + place[:, None] - y) < radius
    colour = np.where(tumour[..., None], np.array(_TUMOUR, np.float32), np.array(_TISSUE, np.float32))
    noise = random.standard_normal((TILE, TILE), np.float32) * _NOISE
    return np.clip(colour + (noise - np.asarray(cells, np.float32))[..., None], 0, 255).astype(np.uint8)


def _encode(tile: NDArray[np.uint8]) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(tile).save(stream, "JPEG", quality=_QUALITY, subsampling="4:2:0")
    return stream.getvalue()


def write_tiff(path: Path, width: int, height: int, tiles: Iterator[bytes]) -> None:
    """Write a TIFF of one level from its JPEG tiles, row by row: TIFF 6.0, section 15, and Adobe's technical note 2.

    Pillow writes no tiles. Offsets have 32 bits, so that a slide ends before 4 GiB.
    """
    short, long = 3, 4
    with path.open("wb") as file:
        file.write(b"II*\0" + bytes(4))  # where the tags lie is filled in at the end
        offsets, lengths = [], []
        for tile in tiles:
            offsets.append(file.tell())
            lengths.append(len(tile))
            file.write(tile + bytes(len(tile) % 2))
        tags = [  # number, type, values
            (256, long, [width]),
            (257, long, [height]),
            (258, short, [8, 8, 8]),  # bits of each sample
            (259, short, [7]),  # compression: JPEG
            (262, short, [6]),  # colours: YCbCr
            (277, short, [3]),  # samples of a pixel
            (284, short, [1]),  # which lie together
            (322, long, [TILE]),
            (323, long, [TILE]),
            (324, long, offsets),
            (325, long, lengths),
            (530, short, [2, 2]),  # chroma has half the width and height
        ]
        entries = []
        for number, kind, values in tags:
            packed = struct.pack(f"<{len(values)}{'H' if kind == short else 'I'}", *values)
            if len(packed) > 4:
                where = file.tell()
                file.write(packed + bytes(len(packed) % 2))
                packed = struct.pack("<I", where)
            entries.append(struct.pack("<HHI", number, kind, len(values)) + packed.ljust(4, b"\0"))
        start = file.tell()
        file.write(struct.pack("<H", len(entries)) + b"".join(entries) + bytes(4))
        file.seek(4)
        file.write(struct.pack("<I", start))
