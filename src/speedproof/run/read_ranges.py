"""From the NVTX ranges that our library took of a program to its epochs."""

import re
from collections.abc import Sequence

import numpy as np

from speedproof.config.reading import Reading
from speedproof.profilers.nvtx_library import MARK, ProcessRanges, decode_name
from speedproof.run.epoch_reports import EpochSource, MarkedEpoch, Marks, Reports
from speedproof.run.read_lines import add_qualities
from speedproof.util.errors import RecordError
from speedproof.util.numbers import format_count
from speedproof.util.units import NS_PER_S

_NUMBER = re.compile(r"\d+")


def read_epoch_ranges(processes: Sequence[ProcessRanges], name: str) -> Marks:
    """Return an epoch for each ended range called `name`; if several ranks have equally many, the first one's.

    Names that differ only in numbers (`Batch7`) are one.

    Raises:
        RecordError: NVTX loaded no library, no range has this name, ranges were dropped, or they overlap.
    """
    if not processes:
        raise RecordError(
            f"--epoch-range: NVTX did not load into the program: it makes no ranges (as with torch without CUDA) or uses NVTX "
            f"before version 3; read its epochs from marks, lines or a file instead of {name!r}"
        )
    if dropped := sum(one.dropped for one in processes):
        raise RecordError(
            f"--epoch-range: {format_count(dropped, 'range')} called {name!r} did not fit into the buffer; choose a rarer name"
        )
    found = [ranges for ranges in (_select_ended(one) for one in processes) if len(ranges)]
    if not found:
        others = sum(one.others for one in processes)
        raise RecordError(f"--epoch-range: no range that ended is called {name!r}, and {others:,} are not; correct the name")
    families = sorted({_NUMBER.sub("#", decode_name(each)) for ranges in found for each in np.unique(ranges["name"])})
    if len(families) > 1:
        raise RecordError(
            f"--epoch-range: {name!r} matches {len(families)} kinds of ranges ({', '.join(families)[:120]}); name one"
        )
    if len({len(ranges) for ranges in found}) > 1:
        counts = ", ".join(str(len(ranges)) for ranges in found)
        raise RecordError(
            f"--epoch-range: processes have different numbers of ranges called {name!r}: {counts}; name one that each rank has"
        )
    first = found[0]
    if (first["begin_ns"][1:] < first["end_ns"][:-1]).any():
        raise RecordError(f"--epoch-range: ranges called {name!r} overlap, so they cannot be epochs; name others")
    moments = [(int(one["begin_ns"]) / NS_PER_S, int(one["end_ns"]) / NS_PER_S) for one in first]
    # Our own library reads the clock: what is reported is what we saw.
    return Marks([MarkedEpoch(begin, None, end, begin_seen_s=begin, end_seen_s=end) for begin, end in moments])


def _read(reports: Reports, reading: Reading) -> Marks:
    return add_qualities(read_epoch_ranges(reports.ranges, reading.epoch_range or ""), reports.lines, reading.quality)


RANGES_SOURCE = EpochSource("ranges", "NVTX ranges", _read, seen="by the library that takes its ranges", takes_ranges=True)


def _select_ended(process: ProcessRanges) -> np.ndarray:
    records = process.records
    return records[(records["kind"] != MARK) & (records["end_ns"] > 0)]
