"""What a program reports of its epochs, and what is to be known of each source of such reports."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from speedproof.config.reading import Reading, ReadingSource
from speedproof.profilers.nvtx_library import ProcessRanges
from speedproof.results.observations import Arrivals
from speedproof.results.summary import WARM_UP_NEEDS_EPOCHS
from speedproof.run.marks_pipe import MarkArrivals
from speedproof.run.printed_output import Line
from speedproof.run.printed_times import PrintedTime
from speedproof.run.watched_file import FileWatch
from speedproof.util.errors import RecordError


@dataclass
class Reports:
    """What a program reported while it ran, and when each report reached us."""

    folder: Path  # of its marks
    place: Path  # of the files that it writes
    lines: Sequence[Line] = ()
    ranges: Sequence[ProcessRanges] = ()
    marks: MarkArrivals = field(default_factory=MarkArrivals)
    file: FileWatch | None = None  # if it is what is read


@dataclass
class MarkedEpoch:
    """One epoch. Moments are seconds of the machine's monotonic clock."""

    begins_s: float
    validates_s: float | None = None
    ends_s: float | None = None
    samples: int | None = None
    quality: float | None = None
    reported_s: float | None = None  # how long it took, if the program reports that itself: moments have fewer digits
    begin_seen_s: float | None = None  # when the reports of its begin and end reached us; None: not known
    end_seen_s: float | None = None

    @property
    def train_s(self) -> float:
        """Return how long it trained: until validation, or its end."""
        return self.reported_s if self.reported_s is not None else (self.validates_s or self.ends_s or math.nan) - self.begins_s

    @property
    def validation_s(self) -> float | None:
        return None if self.validates_s is None or self.ends_s is None else self.ends_s - self.validates_s

    @property
    def total_s(self) -> float:
        return self.train_s + (self.validation_s or 0.0)


@dataclass
class Marks:
    """What a program left: its whole epochs, and when the last quality came that is the best."""

    epochs: list[MarkedEpoch] = field(default_factory=list)
    qualities: list[tuple[int, float, float]] = field(default_factory=list)  # epoch, from 1; value; moment
    flop: float | None = None  # of an epoch's training
    parameters: int | None = None
    times: list[PrintedTime] = field(default_factory=list)  # of the epochs, if the program printed them
    rates: bool = False  # whether these are one over printed rates
    began_at_zero: bool = False  # whether the first printed time was 0, and is left out
    unseen: Arrivals = "together"  # why our own clock does not see the epochs end, if it does not

    @property
    def last_quality(self) -> float | None:
        """Return the last quality that is a number, as a rule of the whole training; None if there is none."""
        finite = [value for _, value, _ in self.qualities if math.isfinite(value)]
        return finite[-1] if finite else None

    @property
    def steady_s(self) -> list[float]:
        """Return what epochs took, without the first, which warms up, if there are enough others."""
        epochs_s = [epoch.train_s for epoch in self.epochs]
        return epochs_s[1:] if len(epochs_s) >= WARM_UP_NEEDS_EPOCHS else epochs_s


def cut_epochs(marks: Marks, most: int | None = None, until_s: float | None = None) -> Marks:
    """Return at most the first so many epochs of those that were seen to end until a moment, with their qualities."""
    ended = [until_s is None or epoch.end_seen_s is None or epoch.end_seen_s <= until_s for epoch in marks.epochs]
    count = min(sum(ended), len(ended) if most is None else most)
    if count == len(ended):
        return marks
    qualities = [one for one in marks.qualities if one[0] <= count]
    return replace(marks, epochs=marks.epochs[:count], times=marks.times[:count], qualities=qualities)


@dataclass(frozen=True)
class EpochSource:
    """Where epochs are read from."""

    name: ReadingSource
    title: str  # in the plan and in messages
    read: Callable[[Reports, Reading], Marks]  # raises RecordError if there is nothing, or what cannot be
    seen: str = ""  # how our own clock sees an epoch end
    arrives: bool = False  # whether the report of each epoch's end reaches us as it is made
    takes_ranges: bool = False  # whether our library takes NVTX ranges, which is left to the profiler in profiled runs


@dataclass(frozen=True)
class ReportedValue:
    """A number that a program reported: where in the order of its reports, and when."""

    order: int
    value: float
    at_s: float


def place_values(
    epochs: list[tuple[int, MarkedEpoch]],
    qualities: Sequence[ReportedValue],
    samples: Sequence[ReportedValue],
    times: Sequence[PrintedTime] = (),
) -> Marks:
    """Put qualities and samples to the epochs that they are of, by the order in which all came.

    `times` are those of the epochs, if the program printed them.
    """
    marks = Marks([epoch for _, epoch in epochs], times=list(times))
    ends = [order for order, _ in epochs]
    for values, name in ((qualities, "quality"), (samples, "samples")):
        early = bool(values and ends and values[0].order <= ends[0])
        for one in values:
            passed = sum(end < one.order for end in ends) if early else max(1, sum(end <= one.order for end in ends))
            number = min(passed + 1 if early else passed, len(ends))
            if ends:
                setattr(marks.epochs[number - 1], name, one.value if name == "quality" else parse_samples(one.value, name))
            if name == "quality":
                marks.qualities.append((number, one.value, one.at_s))
    return marks


def parse_samples(value: float, place: str) -> int:
    """Return a number of samples; raise :class:`RecordError`, naming its `place`, if it is not a count."""
    return count_whole(value, place, "number of samples; have the program report how many samples an epoch trained on")


def count_whole(value: float, place: str, what: str) -> int:
    """Return a number as a count; raise :class:`RecordError`, with its `place` and `what` it should be, if it is not one."""
    if value < 0 or value != int(value):
        raise RecordError(f"{place}: {value:g} is not a {what}")
    return int(value)
