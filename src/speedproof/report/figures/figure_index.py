"""`figures.json`: which figures were drawn, and why the others were not."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from speedproof.results.files import read_record
from speedproof.results.names import FileName, ProfilerName

FIGURES_FILE = "figures.json"


class FigureEntry(BaseModel):
    """One figure: its files are `<name>.svg` and `<name>.png` beside the index, unless `missing` says why there are none."""

    model_config = ConfigDict(extra="forbid")

    name: FileName
    title: str
    missing: str | None
    profilers: list[ProfilerName]  # what recorded the traces that it shows; empty: it shows none


class FigureIndex(BaseModel):
    """`figures.json`."""

    model_config = ConfigDict(extra="forbid")

    schema_version: Literal[1] = 1
    figures: list[FigureEntry]


def read_figure_index(folder: Path) -> FigureIndex:
    """Read the index of a folder of figures."""
    return read_record(folder / FIGURES_FILE, FigureIndex)
