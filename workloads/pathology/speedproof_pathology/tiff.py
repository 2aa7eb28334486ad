"""Where the tiles of a TIFF lie, and their pixels, by nothing but Pillow: whole slides are too large to be decoded whole."""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, TiffImagePlugin

WIDTH, HEIGHT, _COMPRESSION, _COLOURS, _TILE_WIDTH, _TILE_HEIGHT, _OFFSETS, _BYTES, _TABLES = (
    256, 257, 259, 262, 322, 323, 324, 325, 347,
)  # fmt: skip
_JPEG, _YCBCR = 7, 6


class SlideError(ValueError):
    """A slide that a reader cannot read; its text is one line."""


def read_tags(path: str) -> dict[int, Any]:
    """Return a TIFF's tags, of its largest level; raise OSError, SyntaxError or ValueError of what is none.

    Of a slide of any size: `Image.open` refuses what would not fit into memory, though nothing is decoded here.
    """
    with TiffImagePlugin.TiffImageFile(path) as image:
        return dict(image.tag_v2)


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
        """Find a slide's tiles. Raises :class:`SlideError`: it is not a tiled TIFF of JPEGs, or cannot be read."""
        try:
            tags = read_tags(path)
        except (OSError, SyntaxError, ValueError):
            raise SlideError(f"{path}: cannot be read as a TIFF; get it again") from None
        if tags.get(_COMPRESSION) != _JPEG or tags.get(_COLOURS) != _YCBCR or _TILE_WIDTH not in tags:
            raise SlideError(f"{path}: is not a TIFF of JPEG tiles in YCbCr; set data.reader to cucim or openslide")
        try:
            slide = cls(
                path, tags[HEIGHT], tags[WIDTH], (tags[_TILE_HEIGHT], tags[_TILE_WIDTH]),
                tuple(tags[_OFFSETS]), tuple(tags[_BYTES]), bytes(tags.get(_TABLES, b"")),
            )  # fmt: skip
            damaged = not slide._is_whole()
        except (KeyError, TypeError, ValueError):
            damaged = True
        if damaged:
            raise SlideError(f"{path}: is damaged, its tiles cannot be found; get it again")
        return slide

    def _is_whole(self) -> bool:
        """Return whether its sizes are some, and each tile that it lists lies in the file."""
        if not all(isinstance(size, int) and size > 0 for size in (self.height, self.width, *self.tile)):
            return False
        end = Path(self.path).stat().st_size
        return all(0 <= offset <= offset + length <= end for offset, length in zip(self.offsets, self.lengths, strict=True))

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
        if number >= len(self.offsets):
            raise SlideError(f"{self.path}: has no tile {number}; get it again")
        with Path(self.path).open("rb") as file:
            file.seek(self.offsets[number])
            data = file.read(self.lengths[number])
        if self.tables:
            data = self.tables[:-2] + data[2:]  # less the end of the one and the start of the other
        try:
            with Image.open(io.BytesIO(data)) as image:
                if (image.height, image.width) == self.tile:
                    return np.asarray(image.convert("RGB"))
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
            pass
        raise SlideError(f"{self.path}: tile {number} cannot be decoded; get it again")
