"""A trace's tables and its trace.json: read as `analyze` reads them, and of one in sixty all of `analyze`."""

import io
import json
import math
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq

from speedproof.trace.events import read_events
from tests.fuzz.calling import Outcome, attempt, speedproof
from tests.fuzz.driver import read_files, write_files
from tests.fuzz.mutation import HOSTILE, Files, mutate_bytes, mutate_tree, write_tree
from tests.trace.handmade import two_epochs

HOW = "how.txt"  # beside the trace: whether bytes were spoilt, which checksums must find
ANALYSED = 60  # one in so many
TEXTS = [text.encode("utf-8", "ignore").decode() for text in HOSTILE]
TYPES = [pa.string(), pa.float64(), pa.int8(), pa.uint64(), pa.timestamp("ns"), pa.bool_(), pa.binary(), pa.decimal128(38, 2)]


def seeds() -> list[Files]:
    with tempfile.TemporaryDirectory() as folder:
        return [read_files(two_epochs().write(Path(folder)))]


def mutate(random: Random, files: Files) -> Files:
    name = random.choice(
        [name for name in files for _ in range(3 if name.split(".")[0] in ("ranges", "kernels", "api") else 1)]
    )
    if name.endswith(".json") and random.random() < 0.7:
        return {**files, name: write_tree(mutate_tree(random, json.loads(files[name]), random.choice([1, 1, 3])))}
    if random.random() < 0.05:
        return {other: content for other, content in files.items() if other != name}
    if random.random() < 0.3 or name.endswith(".json"):
        return {**files, name: mutate_bytes(random, files[name], random.choice([1, 1, 4, 20])), HOW: b"bytes"}
    table = pq.read_table(io.BytesIO(files[name]))
    for _ in range(random.choice([1, 1, 2, 4])):
        table = _spoil(random, table)
    kept = io.BytesIO()
    pq.write_table(table, kept, compression=random.choice(["zstd", "snappy", "none"]))
    return {**files, name: kept.getvalue()}


def _spoil(random: Random, table: pa.Table) -> pa.Table:
    """Change a table's values, type, order or columns."""
    if not table.num_columns:
        return table
    at = random.randrange(table.num_columns)
    name, values = table.column_names[at], table.column(at).to_pylist()
    match random.randrange(8):
        case 0:
            return table.remove_column(at)
        case 1:
            other = random.choice(TEXTS)[:50]
            return table.rename_columns([other if column == name else column for column in table.column_names])
        case 2:
            return table.append_column(name, table.column(at))
        case 3:
            rows = [random.randrange(len(values)) for _ in range(random.choice([0, 1, 5, 40]))] if values else []
            return table.take(pa.array(rows, pa.int64()))
        case 4:
            try:
                return table.set_column(at, name, table.column(at).cast(random.choice(TYPES), safe=False))
            except pa.ArrowException:
                return table
    if not values:
        return table
    rows = [random.randrange(len(values))] if random.random() < 0.7 else range(len(values))
    hostile: list[Any] = TEXTS if isinstance(values[0], str) else [-1, 0, 1, 2**31 - 1, -(2**31), 2**62, -(2**63), 2**63 - 1]
    value = random.choice([None, *hostile])
    for row in rows:
        values[row] = value
    try:
        return table.set_column(at, name, pa.array(values, table.schema.field(at).type))
    except (pa.ArrowException, OverflowError):
        return table


def run(files: Files, folder: Path, sound: Files) -> Outcome:
    tables = {name: content for name, content in files.items() if name != HOW}
    trace = write_files(folder / "trace", tables)
    events = attempt(lambda: read_events(trace), "trace")
    if isinstance(events, Outcome):
        return events
    stated = {name: _lengths(trace / f"{name}.parquet") for name in ("kernels", "copies", "api", "ranges")}
    read = {
        "kernels": events.activity[events.activity["kernel"]],
        "copies": events.activity[~events.activity["kernel"]],
        "api": events.api,
        "ranges": events.ranges,
    }
    for name, frame in read.items():
        lengths = sorted((frame["end_ns"] - frame["start_ns"]).tolist())
        if lengths != sorted(stated[name]) or any(not isinstance(length, int) or length < 0 for length in lengths):
            return Outcome("silent", f"{name}: read {lengths[:5]}, there are {sorted(stated[name])[:5]}")
    if HOW in files and stated != _sound_lengths():
        return Outcome("silent", "bytes were changed, and other numbers read")
    if crc32(b"".join(files.values())) % ANALYSED == 0:
        return _analyse(folder, sum(stated["kernels"])) or Outcome("right")
    return Outcome("same" if files == sound else "right")


@cache
def _sound_lengths() -> dict[str, list[int]]:
    with tempfile.TemporaryDirectory() as folder:
        trace = write_files(Path(folder), seeds()[0])
        return {name: _lengths(trace / f"{name}.parquet") for name in ("kernels", "copies", "api", "ranges")}


def _lengths(path: Path) -> list[int]:
    """Return how long each event took that ended, by pyarrow alone."""
    rows = pq.ParquetFile(path).read(["start_ns", "end_ns"]).to_pylist()
    return [row["end_ns"] - row["start_ns"] for row in rows if row["end_ns"] is not None]


def _analyse(folder: Path, kernels_ns: int) -> Outcome | None:
    if refused := speedproof("trace", "analyze", "trace", "--out", "out").refusal("trace"):
        return refused
    summary = json.loads((folder / "out/summary.json").read_text(encoding="utf-8"))
    epochs_ns = sum(epoch["end_ns"] - epoch["start_ns"] for epoch in summary["epochs"])
    found_ns = 1e9 * sum(kernel["total_s"] for kernel in summary["kernels"])
    if sum(share["total_ns"] for share in summary["account"]) != epochs_ns:
        return Outcome("silent", "the account does not add up to the epochs")
    if not math.isclose(found_ns, kernels_ns, rel_tol=1e-9, abs_tol=0.5):
        return Outcome("silent", f"kernels of {found_ns} ns, not {kernels_ns}")
    return None
