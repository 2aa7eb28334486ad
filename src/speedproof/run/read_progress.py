"""What a program left of its progress, by the source that its side names."""

from collections.abc import Sequence
from pathlib import Path

from speedproof.config.reading import Reading
from speedproof.marks import MARKS_FILE
from speedproof.profilers.nvtx_ranges_file import ProcessRanges
from speedproof.run.read_epoch_ranges import read_epoch_ranges
from speedproof.run.read_files import read_file
from speedproof.run.read_lines import Line, find_values, place_values, read_lines
from speedproof.run.read_marks import Marks, read_marks


def read_progress(
    run: Path, place: Path, lines: Sequence[Line], reading: Reading, ranges: Sequence[ProcessRanges] = ()
) -> Marks:
    """Return a program's epochs and qualities: of its marks in the folder `run`, its NVTX ranges, its printed lines, or a file
    in `place`.

    Raises:
        RecordError: the source that the side names gave nothing, or what cannot be.
    """
    match reading.source:
        case "marks":
            return _add_qualities(read_marks(run / MARKS_FILE), lines, reading.quality)
        case "ranges":
            return _add_qualities(read_epoch_ranges(ranges, reading.epoch_range or ""), lines, reading.quality)
        case "lines":
            return read_lines(lines, reading)
        case "file":
            return read_file(place, reading)
        case "process":
            return place_values([], find_values(lines, reading.quality, "quality") if reading.quality else [], [])


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
