"""A trace: a profiled run's events as Parquet tables of one stable schema, whichever profiler recorded them.

A trace is a folder with `trace.json` (:class:`TraceInfo`) and one Parquet file for each table of :data:`TABLES`; a table
that the profiler did not record is there and empty. All times are integer nanoseconds on one clock whose zero is the
first event of the trace. `process` and `thread` are small numbers, in order of appearance, not the system's.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict

from speedproof.errors import RecordError
from speedproof.records.files import read_record, replacing, write_json

TRACE_FILE = "trace.json"

# Ranges of the framework's own, as `torch.autograd.profiler.emit_nvtx` names them.
_OPERATOR = r"^(aten|autograd|torch|prims|c10d?)::|, (seq|op_id|sizes) = |^\w+Backward\d*$|^detach_?$"

_TIMES = [("start_ns", pa.int64()), ("end_ns", pa.int64())]
_NAME = pa.dictionary(pa.int32(), pa.string())

TABLES: dict[str, pa.Schema] = {
    # NVTX ranges. `end_ns` is null for a range that never ended; `end_thread` differs from `thread` where a start/end
    # range was ended by another thread.
    "ranges": pa.schema(
        [
            *_TIMES,
            ("process", pa.int32()),
            ("thread", pa.int32()),
            ("end_thread", pa.int32()),
            ("domain", pa.int32()),
            ("kind", _NAME),  # push_pop or start_end
            ("name", _NAME),
        ]
    ),
    # Kernels on a GPU. `correlation` joins them, within a process, to the call of `api` that launched them; null where
    # there is none. `graph` is the executed CUDA graph's id where a graph launched it.
    "kernels": pa.schema(
        [
            *_TIMES,
            ("process", pa.int32()),
            ("device", pa.int32()),
            ("stream", pa.int32()),
            ("correlation", pa.int64()),
            ("graph", pa.int64()),
            ("name", _NAME),
        ]
    ),
    # Copies and fills of memory. `kind` is e.g. "HtoD", "DtoH", "DtoD", "memset"; the memory kinds are "pageable",
    # "pinned", "device", "managed" or "unknown".
    "copies": pa.schema(
        [
            *_TIMES,
            ("process", pa.int32()),
            ("device", pa.int32()),
            ("stream", pa.int32()),
            ("correlation", pa.int64()),
            ("graph", pa.int64()),
            ("bytes", pa.int64()),
            ("kind", _NAME),
            ("source_memory", _NAME),
            ("target_memory", _NAME),
        ]
    ),
    # Calls of the CUDA runtime and driver on the CPU.
    "api": pa.schema([*_TIMES, ("process", pa.int32()), ("thread", pa.int32()), ("correlation", pa.int64()), ("name", _NAME)]),
    # Calls of the operating system's runtime.
    "osrt": pa.schema([*_TIMES, ("process", pa.int32()), ("thread", pa.int32()), ("name", _NAME)]),
    # Operators of the framework on the CPU (kineto only).
    "operators": pa.schema([*_TIMES, ("process", pa.int32()), ("thread", pa.int32()), ("name", _NAME)]),
    # The profiler's own work on the CPU: it is not the program's.
    "overhead": pa.schema([*_TIMES, ("process", pa.int32()), ("thread", pa.int32()), ("name", _NAME)]),
    # Processes and threads: `main` marks a process' first thread.
    "threads": pa.schema([("process", pa.int32()), ("thread", pa.int32()), ("main", pa.bool_()), ("name", _NAME)]),
    # GPUs.
    "devices": pa.schema([("device", pa.int32()), ("name", pa.string())]),
}


class TraceInfo(BaseModel):
    """`trace.json`."""

    model_config = ConfigDict(extra="forbid")

    schema_version: Literal[1] = 1
    profiler: Literal["nsys", "kineto"]
    profiler_version: str
    source_schema: str  # of the profiler's export, e.g. "3.18.1"
    rows: dict[str, int]
    warnings: list[str]


def write_trace(folder: Path, tables: dict[str, pa.Table], info: TraceInfo) -> None:
    """Write a trace. `trace.json` comes last, so a folder without it is not a trace."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TRACE_FILE).unlink(missing_ok=True)
    for name, schema in TABLES.items():
        table = tables.get(name)
        table = schema.empty_table() if table is None else table.select(schema.names).cast(schema)
        write_table(folder / f"{name}.parquet", table)
    write_json(folder / TRACE_FILE, info)


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table as Parquet, small: numbers that count up are kept as differences, names once, then zstd."""
    numbers = [field.name for field in table.schema if pa.types.is_integer(field.type)]
    with replacing(path) as temporary:
        pq.write_table(
            table,
            temporary,
            compression="zstd",
            compression_level=12,
            use_dictionary=[field.name for field in table.schema if pa.types.is_dictionary(field.type)],
            column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
        )


def without_operators(ranges: pa.Table) -> pa.Table:
    """Return the table `ranges` without the framework's own ranges (`emit_nvtx`), hundreds of thousands in a long trace."""
    names = ranges["name"].unify_dictionaries()
    if not len(names):
        return ranges
    wanted = pc.invert(pc.match_substring_regex(names.chunk(0).dictionary, _OPERATOR))
    kept = ranges.filter(pa.chunked_array([pc.take(wanted, chunk.indices) for chunk in names.chunks]))
    return kept.set_column(kept.column_names.index("name"), "name", pc.cast(kept["name"], pa.string()).dictionary_encode())


def read_trace_info(folder: Path) -> TraceInfo:
    """Read a trace's `trace.json`."""
    return read_record(folder / TRACE_FILE, TraceInfo)


def read_table(folder: Path, name: str, columns: Iterable[str] | None = None) -> pa.Table:
    """Read one table of a trace, or only some of its columns."""
    path = folder / f"{name}.parquet"
    try:
        return pq.read_table(path, columns=None if columns is None else list(columns))
    except FileNotFoundError:
        raise RecordError(f"{path}: no such table; convert the trace again") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise RecordError(f"{path}: not a readable Parquet table ({error}); convert the trace again") from None
