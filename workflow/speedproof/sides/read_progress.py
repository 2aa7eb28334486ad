"""What a program left of its progress, by the source that its side names."""

from collections.abc import Sequence
from pathlib import Path

from speedproof.config.reading import Reading
from speedproof.marks import MARKS_FILE
from speedproof.sides.read_files import read_file
from speedproof.sides.read_lines import Line, find_values, place_values, read_lines
from speedproof.sides.read_marks import Marks, read_marks


def read_progress(run: Path, place: Path, lines: Sequence[Line], reading: Reading) -> Marks:
    """Return a program's epochs and qualities: of its marks in the folder `run`, its printed lines, or a file in `place`.

    Raises:
        RecordError: the source that the side names gave nothing, or what cannot be.
    """
    match reading.source:
        case "marks":
            marks = read_marks(run / MARKS_FILE)
            if reading.quality:
                return _add_qualities(marks, lines, reading.quality)
            return marks
        case "lines":
            return read_lines(lines, reading)
        case "file":
            return read_file(place, reading)
        case "process":
            return place_values([], find_values(lines, reading.quality, "quality") if reading.quality else [], [])


def _add_qualities(marks: Marks, lines: Sequence[Line], pattern: str) -> Marks:
    """Put printed qualities to marked epochs, each to the epoch in which it came, or the last one before it."""
    for one in find_values(lines, pattern, "quality"):
        number = max(1, sum(epoch.begins_s <= one.at_s for epoch in marks.epochs))
        if marks.epochs:
            marks.epochs[number - 1].quality = one.value
        marks.qualities.append((min(number, len(marks.epochs)), one.value, one.at_s))
    return marks
