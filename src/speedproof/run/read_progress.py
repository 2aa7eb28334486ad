"""What a program left of its progress, by the source that its variant names."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from speedproof.config.reading import Reading
from speedproof.marks import MARKS_FILE
from speedproof.profilers.nvtx_ranges_file import MARK, ProcessRanges, decode_name
from speedproof.run.marks_pipe import MarkArrivals
from speedproof.run.printed_output import limiting_search
from speedproof.run.read_files import read_file
from speedproof.run.read_lines import Line, find_values, place_values, read_lines
from speedproof.run.read_marks import MarkedEpoch, Marks, read_marks
from speedproof.run.watched_file import FileWatch
from speedproof.util.errors import RecordError
from speedproof.util.numbers import format_count
from speedproof.util.units import NS_PER_S


@dataclass
class Reports:
    """What a program reported while it ran, and when each report reached us."""

    lines: Sequence[Line] = ()
    ranges: Sequence[ProcessRanges] = ()
    marks: MarkArrivals = field(default_factory=MarkArrivals)
    file: FileWatch | None = None  # if it is what is read


def read_progress(run: Path, place: Path, reports: Reports, reading: Reading) -> Marks:
    """Return a program's epochs and qualities: of its marks in the folder `run`, its NVTX ranges, its printed lines, or a file
    in `place`.

    Raises:
        RecordError: the source that the variant names gave nothing, or what cannot be.
    """
    with limiting_search():
        return _read_source(run, place, reports, reading)


def _read_source(run: Path, place: Path, reports: Reports, reading: Reading) -> Marks:
    match reading.source:
        case "marks":
            return _add_qualities(read_marks(run / MARKS_FILE, reports.marks.moments_s), reports.lines, reading.quality)
        case "ranges":
            return _add_qualities(read_epoch_ranges(reports.ranges, reading.epoch_range or ""), reports.lines, reading.quality)
        case "lines":
            return read_lines(reports.lines, reading)
        case "file":
            return read_file(place, reading, reports.file)
        case "process":
            return place_values([], find_values(reports.lines, reading.quality, "quality") if reading.quality else [], [])


def _add_qualities(marks: Marks, lines: Sequence[Line], pattern: str | None) -> Marks:
    """Put printed qualities to epochs: as many as these in their order, others to that in which they came, or the last before.

    What is printed as an epoch ends comes here a moment later, when the next one has begun.
    """
    values = find_values(lines, pattern, "quality") if pattern else []
    for order, one in enumerate(values, start=1):
        begun = max(1, sum(epoch.begins_s <= one.at_s for epoch in marks.epochs))
        number = order if len(values) == len(marks.epochs) else begun
        if marks.epochs:
            marks.epochs[number - 1].quality = one.value
        marks.qualities.append((min(number, len(marks.epochs)), one.value, one.at_s))
    return marks


_NUMBER = re.compile(r"\d+")


def read_epoch_ranges(processes: Sequence[ProcessRanges], name: str) -> Marks:
    """Return an epoch for each ended range that was taken for `name`; where several ranks have as many, the first one's.

    Names that differ in numbers alone (`Batch7`) are one.

    Raises:
        RecordError: NVTX loaded no library, no range is called so, ranges were dropped, or are not one epoch after the other.
    """
    if not processes:
        raise RecordError(
            f"epoch_range: NVTX loaded no library into the program, so it makes no ranges, as a torch without CUDA, or "
            f"makes them with an NVTX before version 3; read its epochs of marks, lines or a file, and not of {name!r}"
        )
    if dropped := sum(one.dropped for one in processes):
        raise RecordError(f"epoch_range: {format_count(dropped, 'range')} called {name!r} found no room; choose a rarer one")
    found = [ranges for ranges in (_select_ended(one) for one in processes) if len(ranges)]
    if not found:
        others = sum(one.others for one in processes)
        raise RecordError(f"epoch_range: no range that ended is called {name!r}, and {others:,} are not; correct the name")
    families = sorted({_NUMBER.sub("#", decode_name(each)) for ranges in found for each in np.unique(ranges["name"])})
    if len(families) > 1:
        raise RecordError(f"epoch_range: {name!r} is {len(families)} kinds of ranges ({', '.join(families)[:120]}); name one")
    if len({len(ranges) for ranges in found}) > 1:
        counts = ", ".join(str(len(ranges)) for ranges in found)
        raise RecordError(f"epoch_range: several processes have ranges called {name!r}, {counts}; name one that each rank has")
    first = found[0]
    if (first["begin_ns"][1:] < first["end_ns"][:-1]).any():
        raise RecordError(f"epoch_range: ranges called {name!r} overlap each other, so they are no epochs; name others")
    moments = [(int(one["begin_ns"]) / NS_PER_S, int(one["end_ns"]) / NS_PER_S) for one in first]
    # Our own library reads the clock: what is reported is what we saw.
    return Marks([MarkedEpoch(begin, None, end, begin_seen_s=begin, end_seen_s=end) for begin, end in moments])


def _select_ended(process: ProcessRanges) -> np.ndarray:
    records = process.records
    return records[(records["kind"] != MARK) & (records["end_ns"] > 0)]
