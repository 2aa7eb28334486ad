"""Python's call stacks, which nsys samples as NVTX marks of a domain of its own; a mark's payload is the stack.

Nsight Systems 2023.4, whose reports taught the layout, leaves payloads out of its SQLite and writes them as JSON. Newer ones
have a column for them, `binaryData`; from the JSON the same column is made.
"""

import base64
import binascii
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from struct import Struct

from speedproof.profilers.nsys_sqlite import ExportFile

MARK_EVENT, DOMAIN_KIND = 34, 75  # NVTX_EVENTS.eventType of a mark, and of what names a domain
DOMAIN = "Python Backtrace"
# A thread of nsys takes all samples of a process: which Python thread one is of stands in its category, a number by age.
MAIN_THREAD = 1
# What is known of it: the number of frames, the innermost first; of each the numbers of its function's and its file's name.
# Lines are followed by four bytes that mean nothing, as the number of frames is.
_HEAD, _FRAME = Struct("<8xI4x"), Struct("<QQI4x")


def lacks_stacks(export: ExportFile) -> bool:
    """Tell whether Python was sampled and the export has no payloads."""
    if not export.has("NVTX_EVENTS", "text") or export.has("NVTX_EVENTS", "binaryData"):
        return False
    return export.holds_rows("NVTX_EVENTS", f"eventType = {DOMAIN_KIND} AND text = '{DOMAIN}'")


def add_stacks(sqlite: Path, exported_json: Path) -> None:
    """Give an export's marks the payloads that the same report's JSON has."""
    with closing(sqlite3.connect(sqlite)) as connection, connection:
        connection.execute("CREATE TEMP TABLE stack (start, thread, payload, PRIMARY KEY (start, thread))")
        connection.executemany("INSERT OR REPLACE INTO stack VALUES (?, ?, ?)", _read_payloads(exported_json))
        connection.execute("ALTER TABLE NVTX_EVENTS ADD COLUMN binaryData")
        connection.execute(
            "UPDATE NVTX_EVENTS SET binaryData = "
            "(SELECT payload FROM stack WHERE stack.start = NVTX_EVENTS.start AND stack.thread = NVTX_EVENTS.globalTid) "
            f"WHERE eventType = {MARK_EVENT}"
        )


def _read_payloads(exported_json: Path) -> Iterator[tuple[int, int, bytes]]:
    """Yield the start, thread and payload of each mark; a line is an event, and most are other ones."""
    with exported_json.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if '"BinaryData"' not in line:
                continue
            event = json.loads(line)["NvtxEvent"]
            for payload in event["Payload"]["BinaryData"]:
                yield int(event["Timestamp"]), int(event["GlobalTid"]), base64.b64decode(payload["Data"])


def read_innermost(payload: bytes | str) -> tuple[int, int] | None:
    """Return the numbers of the innermost function's and its file's name; None if the payload is not a known stack."""
    try:
        stack = base64.b64decode(payload, validate=True) if isinstance(payload, str) else payload
    except (binascii.Error, ValueError):
        return None
    if len(stack) < _HEAD.size + _FRAME.size or len(stack) != _HEAD.size + _HEAD.unpack_from(stack)[0] * _FRAME.size:
        return None
    function, file, _line = _FRAME.unpack_from(stack, _HEAD.size)
    return function, file
