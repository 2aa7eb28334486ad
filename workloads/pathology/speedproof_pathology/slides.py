"""What reads regions of whole slides: cuCIM or OpenSlide through MONAI, or tile by tile with nothing but Pillow."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from monai.data.wsi_reader import BaseWSIReader, WSIReader
from numpy.typing import NDArray

from speedproof_pathology.tiff import Slide

READERS = {"cucim": "cucim", "openslide": "openslide", "tiles": "PIL"}  # and the package that each needs
PACKAGES = {"cucim": "cucim-cu12 or cucim-cu13", "openslide": "openslide-python and openslide-bin", "tiles": "pillow"}


def make_reader(name: str) -> BaseWSIReader:
    """Return a reader of level 0; end the program, with one line, where its package is missing."""
    if find_spec(READERS[name]) is None:
        sys.exit(f"reader `{name}` needs {PACKAGES[name]}, which is not installed here; install it, or set data.reader: tiles")
    return TileReader(level=0) if name == "tiles" else WSIReader(backend=name, level=0)


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
