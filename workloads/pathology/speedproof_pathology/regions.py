"""Which regions of which slides train and validate: a CSV without a header, and the slides beside it.

training.csv, validation.csv    slide, x, y of a region's centre, nine labels: those of its 3×3 patches, column by column
training/images/<slide>.tif     of both files
"""

import csv
from pathlib import Path
from typing import TypedDict

FILES = {"train": "training.csv", "validate": "validation.csv"}
SLIDES = Path("training/images")
GRID = 3  # patches along each edge of a region
COLUMNS = 3 + GRID * GRID


class Region(TypedDict):
    """A region as MONAI's PatchWSIDataset takes it."""

    image: str  # the slide's path
    location: list[int]  # y, x of the centre
    label: list[int]  # row by row


class RegionsError(ValueError):
    """A folder without such files, or a line that is none of a region; its text is one line."""


def list_regions(folder: Path, part: str) -> list[Region]:
    """Return the regions of `train` or `validate` in the order of their file.

    Raises :class:`RegionsError`: the file is missing, has no line, or one that cannot be understood.
    """
    file = folder / FILES[part]
    try:
        with file.open(newline="", encoding="utf-8") as lines:
            regions = [_read(folder, file, number, words) for number, words in enumerate(csv.reader(lines), start=1)]
    except (OSError, UnicodeDecodeError, csv.Error):
        raise RegionsError(f"{file}: cannot be read; name a folder with {' and '.join(FILES.values())}") from None
    if not regions:
        raise RegionsError(f"{file}: has no line; each is a slide, x, y and {GRID * GRID} labels")
    return regions


def _read(folder: Path, file: Path, number: int, words: list[str]) -> Region:
    try:
        slide, (x, y), labels = words[0], (int(word) for word in words[1:3]), [int(word) for word in words[3:]]
    except (ValueError, IndexError):
        slide, x, y, labels = "", 0, 0, []
    if len(words) != COLUMNS or not slide or set(labels) - {0, 1}:
        raise RegionsError(f"{file}:{number}: is none of a slide, x, y and {GRID * GRID} labels of 0 or 1; correct it")
    by_row = [labels[column * GRID + row] for row in range(GRID) for column in range(GRID)]
    return {"image": str(folder / SLIDES / f"{slide}.tif"), "location": [y, x], "label": by_row}
