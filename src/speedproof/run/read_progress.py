"""What a program left of its progress, by the source that its variant names."""

from speedproof.config.reading import Reading, ReadingSource
from speedproof.run.epoch_reports import EpochSource, Marks, Reports, place_values
from speedproof.run.printed_output import limiting_search
from speedproof.run.read_files import FILE_SOURCE
from speedproof.run.read_lines import LINES_SOURCE, find_values
from speedproof.run.read_marks import MARKS_SOURCE
from speedproof.run.read_ranges import RANGES_SOURCE


def _read_process(reports: Reports, reading: Reading) -> Marks:
    return place_values([], find_values(reports.lines, reading.quality, "--quality") if reading.quality else [], [])


PROCESS_SOURCE = EpochSource("process", "process", _read_process)
SOURCES: dict[ReadingSource, EpochSource] = {
    one.name: one for one in (MARKS_SOURCE, RANGES_SOURCE, LINES_SOURCE, FILE_SOURCE, PROCESS_SOURCE)
}


def read_progress(reports: Reports, reading: Reading) -> Marks:
    """Return a program's epochs and qualities, read from the source that `reading` names.

    Raises:
        RecordError: that source gave nothing, or what cannot be.
    """
    with limiting_search():
        return SOURCES[reading.source].read(reports, reading)
