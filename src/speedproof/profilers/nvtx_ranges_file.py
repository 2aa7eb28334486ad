"""What the library leaves of a process: a file of records, whose layout `nvtx_injection.c` says too."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from speedproof.util.errors import RecordError

SUFFIX = ".ranges"
MARK, PUSHED, STARTED, _DOMAIN_NAME = 1, 2, 3, 4
NAME_BYTES = 80

_HEADER = np.dtype(
    [
        ("magic", "S8"), ("version", "<u4"), ("record_bytes", "<u4"), ("header_bytes", "<u4"), ("process", "<u4"),
        ("opened_ns", "<u8"), ("most", "<u8"), ("records", "<u8"), ("dropped", "<u8"), ("others", "<u8"),
        ("unmatched", "<u8"), ("modules", "<u8"),
    ]
)  # fmt: skip
RECORD = np.dtype(
    [
        ("begin_ns", "<u8"), ("end_ns", "<u8"), ("id", "<u8"), ("thread", "<u4"), ("end_thread", "<u4"), ("domain", "<u4"),
        ("level", "<u2"), ("cut", "<u2"), ("kind", "<u4"), ("reserved", "<u4"), ("name", f"S{NAME_BYTES}"),
    ]
)  # fmt: skip


@dataclass(frozen=True)
class ProcessRanges:
    """What a process left. Moments are nanoseconds of the machine's monotonic clock.

    `records` are of :data:`RECORD`, in the order in which they began: marks, pushed and started ranges; one that never ended
    has an `end_ns` of 0. `domains` are names by number, 0 that of no domain.
    """

    process: int
    opened_ns: int
    records: np.ndarray
    domains: dict[int, str]
    dropped: int  # wanted, but not kept: there were too many, or no room on the disk
    others: int  # of names that were not wanted
    unmatched: int  # ends of what never began
    unfinished: int  # records that the process' end cut off
    modules: int  # how many modules of the program have an NVTX of their own


def read_ranges(folder: Path) -> list[ProcessRanges]:
    """Read what all processes left in a folder, in the order in which they began it.

    Raises:
        RecordError: a file cannot be what the library writes.
    """
    return sorted((_read_file(path) for path in folder.glob(f"*{SUFFIX}")), key=lambda one: (one.opened_ns, one.process))


def decode_name(name: bytes) -> str:
    """Return a record's name; of a longer one its begin, without a character that was cut."""
    return name.decode("utf-8", "ignore" if len(name) >= NAME_BYTES - 4 else "replace")


def _read_file(path: Path) -> ProcessRanges:
    data = path.read_bytes()
    if len(data) < _HEADER.itemsize:
        raise RecordError(f"{path}: {len(data)} bytes are no file of ranges; run it again")
    header = np.frombuffer(data, _HEADER, 1)[0]
    if header["magic"] != b"SPRANGES" or header["version"] != 1 or header["record_bytes"] != RECORD.itemsize:
        raise RecordError(f"{path}: no file of ranges of this version; run it again")
    begin, promised = int(header["header_bytes"]), min(int(header["records"]), int(header["most"]))
    there = max(0, len(data) - begin) // RECORD.itemsize
    records = np.frombuffer(data, RECORD, min(promised, there), begin) if promised and there else np.empty(0, RECORD)
    whole = records[records["kind"] > 0]
    names = whole[whole["kind"] == _DOMAIN_NAME]
    events = whole[whole["kind"] != _DOMAIN_NAME]
    # A record that found no room was counted as dropped, and left a gap or nothing.
    lost = int(header["dropped"]) - max(0, int(header["records"]) - int(header["most"]))
    return ProcessRanges(
        process=int(header["process"]),
        opened_ns=int(header["opened_ns"]),
        records=events[np.argsort(events["begin_ns"], kind="stable")],
        domains={0: "", **{int(one["domain"]): decode_name(one["name"]) for one in names}},
        dropped=int(header["dropped"]),
        others=int(header["others"]),
        unmatched=int(header["unmatched"]),
        unfinished=max(0, promised - len(whole) - max(0, lost)),
        modules=int(header["modules"]),
    )
