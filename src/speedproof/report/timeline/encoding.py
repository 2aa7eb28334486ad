"""A timeline as few bytes: columns of differences, compressed as every browser can unpack them.

The bytes, before gzip: the length of the header (4 bytes, little-endian), the header as JSON (UTF-8), then for each lane of
each row four columns, one after the other, each of as many numbers as the lane has events:

- the time from the end of the event before (of the first: from zero) to the start, in nanoseconds
- how long it lasts, in nanoseconds
- the number of its name
- the number of its note

A number is written in groups of seven bits, the lowest first; the highest bit of a byte says that another follows (LEB128).
Numbers of names count from the most frequent, so that most take one byte.
"""

import gzip
import json
import struct
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from speedproof.report.timeline.lanes import NAMELESS, Lane, Timeline
from speedproof.trace.intervals import Array

_BITS, _MORE = 7, 0x80
_LEVEL = 9


def encode_timeline(timeline: Timeline) -> bytes:
    """Return the timeline as bytes; the same one gives the same bytes."""
    order, number = _rank_names(timeline)
    header = {
        "title": timeline.title,
        "start": timeline.start_ns,
        "end": timeline.end_ns,
        "names": [timeline.names[name] for name in order],
        "groups": [timeline.groups[name] for name in order],
        "rows": [{"label": row.label, "kind": row.kind, "lanes": [len(lane) for lane in row.lanes]} for row in timeline.rows],
        "remarks": timeline.remarks,
    }
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    columns = (encode_numbers(column) for row in timeline.rows for lane in row.lanes for column in _columns_of(lane, number))
    return gzip.compress(b"".join([struct.pack("<I", len(text)), text, *columns]), _LEVEL, mtime=0)


def _columns_of(lane: Lane, number: Array) -> Iterable[Array]:
    waited = lane.start - np.append(0, lane.end[:-1])
    return waited, lane.end - lane.start, number[lane.name], number[lane.note]


def _rank_names(timeline: Timeline) -> tuple[Array, Array]:
    """Return the names' numbers, the most frequent first after the empty one, and each name's place among them."""
    used = np.zeros(len(timeline.names), np.int64)
    for row in timeline.rows:
        for lane in row.lanes:
            used += np.bincount(lane.name, minlength=len(used)) + np.bincount(lane.note, minlength=len(used))
    used[NAMELESS] = np.iinfo(np.int64).max
    order = np.argsort(-used, kind="stable")
    return order, np.argsort(order)


def encode_numbers(numbers: Array) -> bytes:
    """Return numbers that are not negative (n, int64) as LEB128."""
    numbers = np.asarray(numbers, np.int64)
    length = np.ones(len(numbers), np.int64)
    for bits in range(_BITS, 63, _BITS):
        length += numbers >> bits > 0
    first = np.cumsum(length) - length
    out: NDArray[np.uint8] = np.zeros(int(length.sum()), np.uint8)
    for place in range(int(length.max(initial=0))):
        these = length > place
        group = (numbers[these] >> (_BITS * place)) & (_MORE - 1)
        out[first[these] + place] = group | np.where(length[these] > place + 1, _MORE, 0)
    return out.tobytes()
