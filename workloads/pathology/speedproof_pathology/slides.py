"""What reads regions of whole slides: cuCIM or OpenSlide through MONAI, or tile by tile with nothing but Pillow."""

import io
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from monai.data.wsi_reader import BaseWSIReader, WSIReader
from numpy.typing import NDArray
from PIL import Image, TiffImagePlugin

READERS = {"cucim": "cucim", "openslide": "openslide", "tiles": "PIL"}  # and the package that each needs
PACKAGES = {"cucim": "cucim-cu12 or cucim-cu13", "openslide": "openslide-python and openslide-bin", "tiles": "pillow"}
_WIDTH, _HEIGHT, _COMPRESSION, _COLOURS, _TILE_WIDTH, _TILE_HEIGHT, _OFFSETS, _BYTES, _TABLES = (
    256, 257, 259, 262, 322, 323, 324, 325, 347,
)  # fmt: skip
_JPEG, _YCBCR = 7, 6


class SlideError(ValueError):
    """A slide that a reader cannot read; its text is one line."""


def make_reader(name: str) -> BaseWSIReader:
    """Return a reader of level 0; end the program, with one line, where its package is missing."""
    if find_spec(READERS[name]) is None:
        sys.exit(f"reader `{name}` needs {PACKAGES[name]}, which is not installed here; install it, or set data.reader: tiles")
    return TileReader(level=0) if name == "tiles" else WSIReader(backend=name, level=0)


@dataclass
class Slide:
    """An open TIFF of one level: where its tiles lie in the file."""

    path: str
    height: int
    width: int
    tile: tuple[int, int]  # height, width
    offsets: tuple[int, ...]
    lengths: tuple[int, ...]
    tables: bytes  # JPEG's, where tiles share them

    @classmethod
    def open(cls, path: str) -> "Slide":
        """Read where a slide's tiles lie. Raises :class:`SlideError`: it is no tiled TIFF of JPEGs, or cannot be read."""
        try:
            with Image.open(path) as image:
                tags = dict(image.tag_v2) if isinstance(image, TiffImagePlugin.TiffImageFile) else {}
        except (OSError, SyntaxError, ValueError):
            raise SlideError(f"{path}: cannot be read as a TIFF; get it again") from None
        if tags.get(_COMPRESSION) != _JPEG or tags.get(_COLOURS) != _YCBCR or _TILE_WIDTH not in tags:
            raise SlideError(f"{path}: is no TIFF of JPEG tiles in YCbCr; set data.reader to cucim or openslide")
        return cls(
            path, tags[_HEIGHT], tags[_WIDTH], (tags[_TILE_HEIGHT], tags[_TILE_WIDTH]),
            tuple(tags[_OFFSETS]), tuple(tags[_BYTES]), tags.get(_TABLES, b""),
        )  # fmt: skip

    def read(self, top: int, left: int, height: int, width: int) -> NDArray[np.uint8]:
        """Return a region as height × width × 3 bytes; what lies outside the slide is 0, as the others have it."""
        region = np.zeros((height, width, 3), np.uint8)
        tall, wide = self.tile
        across = -(-self.width // wide)
        for row in range(max(top, 0) // tall, -(-min(top + height, self.height) // tall)):
            for column in range(max(left, 0) // wide, -(-min(left + width, self.width) // wide)):
                tile = self._decode(row * across + column)[: self.height - row * tall, : self.width - column * wide]
                down, right = row * tall - top, column * wide - left  # where the tile begins in the region
                part = tile[max(-down, 0) : height - down, max(-right, 0) : width - right]
                region[max(down, 0) :, max(right, 0) :][: part.shape[0], : part.shape[1]] = part
        return region

    def _decode(self, number: int) -> NDArray[np.uint8]:
        with Path(self.path).open("rb") as file:
            file.seek(self.offsets[number])
            data = file.read(self.lengths[number])
        if self.tables:
            data = self.tables[:-2] + data[2:]  # less the end of the one and the start of the other
        try:
            with Image.open(io.BytesIO(data)) as image:
                return np.asarray(image.convert("RGB"))
        except (OSError, SyntaxError):
            raise SlideError(f"{self.path}: tile {number} cannot be decoded; get it again") from None


class TileReader(BaseWSIReader):
    """Reads regions of level 0 tile by tile: slower than the others, and at home wherever Pillow is."""

    supported_suffixes = ["tif", "tiff"]  # noqa: RUF012 - as MONAI's readers declare them
    backend = "tiles"

    def read(self, data: Any, **_: Any) -> Slide:
        """Return an open slide."""
        return Slide.open(str(data))

    def get_size(self, wsi: Slide, level: int) -> tuple[int, int]:
        """Return its height and width."""
        return wsi.height, wsi.width

    def get_level_count(self, wsi: Slide) -> int:
        """Return how many levels this reader knows: the largest."""
        return 1

    def get_downsample_ratio(self, wsi: Slide, level: int) -> float:
        """Return by how much a level is smaller than level 0."""
        return 1.0

    def get_file_path(self, wsi: Slide) -> str:
        """Return the file's absolute path."""
        return str(Path(wsi.path).absolute())

    def get_mpp(self, wsi: Slide, level: int) -> tuple[float, float]:
        """Regions are asked for by level, never by resolution."""
        raise NotImplementedError

    def get_power(self, wsi: Slide, level: int) -> float:
        """Regions are asked for by level, never by magnification."""
        raise NotImplementedError

    def _get_patch(
        self, wsi: Slide, location: tuple[int, int], size: tuple[int, int], level: int, dtype: Any, mode: str
    ) -> NDArray[Any]:
        return np.moveaxis(wsi.read(*location, *size), -1, self.channel_dim).astype(dtype, copy=False)
