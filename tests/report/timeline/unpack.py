"""What encoding.py writes, read back: plainly, a number after the other."""

import gzip
import json
import struct

import numpy as np

from speedproof.report.timeline.collect import Lane, LaneRow, Timeline


def decode_timeline(data):
    data = gzip.decompress(data)
    (length,) = struct.unpack("<I", data[:4])
    header, numbers = json.loads(data[4 : 4 + length]), read_numbers(data[4 + length :])
    rows = []
    for row in header["rows"]:
        lanes = []
        for count in row["lanes"]:
            waited, lasted, name, note = ([next(numbers) for _ in range(count)] for _ in range(4))
            start, end, now = [], [], 0
            for gap, length in zip(waited, lasted, strict=True):
                start.append(now + gap)
                now = now + gap + length
                end.append(now)
            lanes.append(Lane(*(np.array(column, np.int64) for column in (start, end, name, note))))
        rows.append(LaneRow(row["label"], row["kind"], lanes))
    assert next(numbers, None) is None
    return Timeline(header["title"], header["start"], header["end"], header["names"], header["groups"], rows, header["remarks"])


def read_numbers(data):
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield value
            value = shift = 0


def list_events(timeline):
    """Every event as `(row's label, lane, start, end, name, note)`."""
    return [
        (row.label, depth, start, end, (timeline.names[name], timeline.groups[name]), timeline.names[note])
        for row in timeline.rows
        for depth, lane in enumerate(row.lanes)
        for start, end, name, note in zip(
            *(getattr(lane, column).tolist() for column in ("start", "end", "name", "note")), strict=True
        )
    ]
