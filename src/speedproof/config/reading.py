"""How the epochs, quality and samples of a program without marks are read."""

import os
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from speedproof.config.base import Model
from speedproof.config.validation_errors import key_names

ReadingSource = Literal["marks", "ranges", "lines", "file", "process"]
# By which keys a source is asked for, in the order in which they decide; a warm-up finds the others.
ASKED_BY: dict[ReadingSource, tuple[str, ...]] = {
    "ranges": ("epoch_range",),
    "file": ("file",),
    "lines": ("epoch", "epoch_s", "rate"),
}
TimeUnit = Literal["ns", "us", "ms", "s", "min", "h"]


def _check_pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is not a valid regular expression: {error}") from None
    return text


Pattern = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_check_pattern)]


def _check_file(text: str) -> str:
    name = text.removeprefix("{run}/")
    try:
        next(iter(Path(os.devnull).glob(name)), None)
    except (ValueError, NotImplementedError, IndexError):
        raise ValueError(f"{text!r:.60}: write a name or pattern relative to where the program works") from None
    return text


FilePattern = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_check_file)]

RangeName = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\n]*$")]


class Reading(Model):
    """Where a variant's epochs, quality and samples are read from."""

    source: ReadingSource = Field(
        "marks",
        description="The program's marks, NVTX ranges, printed lines, a file that it writes, or only the time of its process",
    )
    epoch: Pattern | None = Field(None, description="lines: pattern of one printed line per epoch, whose arrival is timed")
    epoch_range: RangeName | None = Field(
        None, description="ranges: name of the program's NVTX range around an epoch; `*` matches anything"
    )
    epoch_s: Pattern | None = Field(
        None, description="Pattern whose group is an epoch's seconds, in a printed line; file: name of a column or key"
    )
    rate: Pattern | None = Field(
        None, description="Pattern whose group is a rate, such as samples/s, in a printed line; file: name of a column or key"
    )
    unit: TimeUnit | None = Field(None, description="Unit of epoch_s. Default: the one that follows each number, else seconds")
    cumulative: bool = Field(False, description="Whether epoch_s is the time since the start; epochs are its differences")
    quality: Pattern | None = Field(None, description="The same for the quality")
    samples: Pattern | None = Field(None, description="The same for the number of samples per epoch")
    file: FilePattern | None = Field(None, description="file: path that the program writes, relative to where it works")

    @model_validator(mode="after")
    def _says_what_its_source_needs(self, info: ValidationInfo) -> "Reading":
        name = key_names(info)
        if sum(map(bool, (self.epoch, self.epoch_s, self.rate))) > 1:
            raise ValueError(f"{name('epoch')}, {name('epoch_s')} and {name('rate')}: give one of them")
        for key in ("unit", "cumulative"):
            if getattr(self, key) and not self.epoch_s:
                raise ValueError(f"{name(key)}: is about {name('epoch_s')}; add {name('epoch_s')}, or leave it out")
        if self.source == "lines" and not (self.epoch or self.epoch_s or self.rate):
            raise ValueError("source `lines` needs `epoch`, `epoch_s` or `rate`")
        if (self.source == "ranges") != (self.epoch_range is not None):
            raise ValueError("`epoch_range` belongs to source `ranges`, which requires it")
        if self.source == "ranges" and (self.epoch or self.epoch_s or self.rate or self.samples):
            raise ValueError(
                "source `ranges`: epochs are read from `epoch_range`, and samples are not supported; leave the others out"
            )
        if (self.source == "file") != (self.file is not None):
            raise ValueError("`file` belongs to source `file`, which requires it")
        for key in ("epoch_s", "rate", "quality", "samples") if self.source != "file" else ():
            pattern = getattr(self, key)
            if pattern is not None and re.compile(pattern).groups != 1:
                raise ValueError(f"{name(key)}: must have one (group) around the number, as in `val_acc: (\\S+)`")
        return self

    @property
    def patterns(self) -> list[str]:
        """Return the patterns to search for in the lines that the program prints."""
        named = [self.epoch, self.epoch_s, self.rate, self.quality, self.samples] if self.source != "file" else []
        return [pattern for pattern in named if pattern]
