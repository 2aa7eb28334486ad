"""A trace: a profiled run's events as Parquet tables of one stable schema, whichever profiler recorded them.

A trace is a folder with `trace.json` (:class:`TraceInfo`) and one Parquet file for each table of :data:`TABLES`; a table
that the profiler did not record is there and empty. All times are integer nanoseconds on one clock whose zero is the
first event of the trace. `process` and `thread` are small numbers, in order of appearance, not the system's.
"""

import stat
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict

from speedproof.results.evidence_archive import read_packed
from speedproof.results.files import read_record, replacing, write_json
from speedproof.results.names import ProfilerName
from speedproof.util.errors import RecordError

TRACE_FILE = "trace.json"

_YEAR_NS = 365 * 24 * 3600 * 10**9
_LONGEST_NS = _YEAR_NS  # of a whole trace
_LONGEST_SUM_NS = 100 * _YEAR_NS  # of all events of a table; sums are of 64 bits, which hold 292 years

# What a file of so many bytes may say that it holds: a few bytes may unpack to terabytes. Real traces have half a row, and
# unpack to three bytes, for each byte.
_ROWS_PER_BYTE, _SPARE_ROWS = 4, 1_000_000
_BYTES_PER_BYTE, _SPARE_BYTES = 50, 64 << 20

# Arrow's own pool keeps what was freed, hundreds of megabytes of a large trace; the system's gives it back.
pa.set_memory_pool(pa.system_memory_pool())

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
    # Calls of cuDNN and cuBLAS on the CPU.
    "library": pa.schema([*_TIMES, ("process", pa.int32()), ("thread", pa.int32()), ("name", _NAME)]),
    # Operators of the framework on the CPU that no other one called (kineto only).
    "operators": pa.schema([*_TIMES, ("process", pa.int32()), ("thread", pa.int32()), ("name", _NAME)]),
    # Operators whose FLOP follow from their shapes, the outermost of such (kineto only): `bytes` is what they read and write at
    # least, `type` that of their numbers, e.g. "bfloat16". If an operator's shapes do not show its FLOP, these are null.
    "flop": pa.schema(
        [
            *_TIMES,
            ("process", pa.int32()),
            ("thread", pa.int32()),
            ("flop", pa.int64()),
            ("bytes", pa.int64()),
            ("type", _NAME),
            ("name", _NAME),
        ]
    ),
    # Operators and functions of Python (`kind`: operator or function) with all that they call in turn (kineto only); a function
    # is named by its file and first line: "train.py(12): step".
    "host_calls": pa.schema([*_TIMES, ("process", pa.int32()), ("thread", pa.int32()), ("kind", _NAME), ("name", _NAME)]),
    # Communication kernels of which the profiler shows the collective (kineto only): `name` is e.g. "allreduce", `group` the
    # process group's name on this rank, `members` the group's ranks with blanks between, empty if they are unknown. The time,
    # device and stream are the kernel's.
    "collectives": pa.schema(
        [
            ("start_ns", pa.int64()),
            ("device", pa.int32()),
            ("stream", pa.int32()),
            ("name", _NAME),
            ("group", _NAME),
            ("members", _NAME),
        ]
    ),
    # Samples of a GPU's counters; the name ends in the unit, as the profiler gives it: "SM Active [Throughput %]".
    "metrics": pa.schema([("start_ns", pa.int64()), ("device", pa.int32()), ("name", _NAME), ("value", pa.int64())]),
    # Allocations and frees of memory by the program, as CUDA does them. `address` joins the two of one piece; `kind` is of the
    # memory: "device", "managed", "pinned", "pageable" or "unknown"; `operation` is "allocation" or "deallocation".
    "memory": pa.schema(
        [
            ("start_ns", pa.int64()),
            ("process", pa.int32()),
            ("device", pa.int32()),
            ("address", pa.int64()),
            ("bytes", pa.int64()),
            ("kind", _NAME),
            ("operation", _NAME),
        ]
    ),
    # Samples of threads that ran on a processor: the innermost function of a name, else the library in which it was.
    "cpu_samples": pa.schema([("start_ns", pa.int64()), ("process", pa.int32()), ("thread", pa.int32()), ("name", _NAME)]),
    # Samples of processes' main threads that ran Python: the innermost function and its file's name, "collate (loader.py)".
    "python_samples": pa.schema([("start_ns", pa.int64()), ("process", pa.int32()), ("thread", pa.int32()), ("name", _NAME)]),
    # The profiler's own work on the CPU: it is not the program's.
    "overhead": pa.schema([*_TIMES, ("process", pa.int32()), ("thread", pa.int32()), ("name", _NAME)]),
    # Processes and threads: `main` marks a process' first thread.
    "threads": pa.schema([("process", pa.int32()), ("thread", pa.int32()), ("main", pa.bool_()), ("name", _NAME)]),
    # GPUs.
    "devices": pa.schema([("device", pa.int32()), ("name", pa.string())]),
}

# Tables that traces of earlier versions lack: `trace.json` does not name them then, and they are empty.
ADDED = frozenset({"flop", "library", "metrics", "memory", "cpu_samples", "host_calls", "python_samples", "collectives"})

# What may be unknown of an event. The end of a range may be, too.
_NULLABLE = frozenset({"process", "thread", "end_thread", "device", "stream", "correlation", "graph", "bytes", "flop"})


# Whether the trace would show a GPU's work if there had been any: it was traced; it was not; tracing it may have failed; the
# profiler saw no GPU that it can trace; it is of an accelerator whose events are not read; the profiler's file does not tell.
GpuTracing = Literal["on", "off", "failed", "unseen", "unread", "unknown"]


class TraceInfo(BaseModel):
    """`trace.json`."""

    model_config = ConfigDict(extra="forbid")

    schema_version: Literal[1] = 1
    profiler: ProfilerName
    profiler_version: str
    source_schema: str  # of the profiler's export, e.g. "3.18.1"
    rows: dict[str, int]
    warnings: list[str]
    zero_ns: int | None = None  # the trace's zero, on the clock that the profiler's own window shows; None: that is unknown
    gpu_tracing: GpuTracing | None = None  # None: an earlier version, which did not ask, wrote the trace
    unix_zero_ns: int | None = None  # the same on the system's clock, in nanoseconds since 1970; None: that is unknown
    rank: int | None = None  # which rank of the run recorded it, if the profiler's file tells
    ranks: int | None = None  # and of how many
    left_out: int = 0  # iterations before the first event, which a record does not keep


def write_trace(folder: Path, tables: dict[str, pa.Table], info: TraceInfo) -> None:
    """Write a trace. `trace.json` comes last, so a folder without it is not a trace.

    Raises:
        ValueError: an event that cannot be; nothing is written then

    """
    whole = {name: tables[name].select(schema.names).cast(schema) for name, schema in TABLES.items() if name in tables}
    for name, table in whole.items():
        if fault := _find_fault(name, table):
            raise ValueError(f"{name}: {fault}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TRACE_FILE).unlink(missing_ok=True)
    for name, schema in TABLES.items():
        write_table(folder / f"{name}.parquet", whole.get(name, schema.empty_table()))
    write_json(folder / TRACE_FILE, info)


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table as Parquet, small: numbers that count up are kept as differences, names once, then zstd."""
    with replacing(path) as temporary:
        if len(table):
            _pack(table, temporary)
        else:
            temporary.write_bytes(_pack_empty(table.schema))


def _pack(table: pa.Table, target: Path | pa.BufferOutputStream) -> None:
    numbers = [field.name for field in table.schema if pa.types.is_integer(field.type)]
    pq.write_table(
        table,
        target,
        compression="zstd",
        compression_level=12,
        use_dictionary=[field.name for field in table.schema if pa.types.is_dictionary(field.type)],
        column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
        write_page_checksum=True,
    )


@cache
def _pack_empty(schema: pa.Schema) -> bytes:
    """Return what a table without rows is on disk; most tables of a small trace are."""
    target = pa.BufferOutputStream()
    _pack(schema.empty_table(), target)
    return bytes(target.getvalue().to_pybytes())


def without_operators(ranges: pa.Table) -> pa.Table:
    """Return the table `ranges` without the framework's own ranges (`emit_nvtx`), hundreds of thousands in a long trace."""
    return _filter_operators(ranges, wanted=False)


def only_operators(ranges: pa.Table) -> pa.Table:
    """Return what :func:`without_operators` leaves out."""
    return _filter_operators(ranges, wanted=True)


def _filter_operators(ranges: pa.Table, wanted: bool) -> pa.Table:
    names = ranges["name"].unify_dictionaries()
    if not len(names):
        return ranges
    operators = pc.match_substring_regex(names.chunk(0).dictionary, _OPERATOR)
    chosen = operators if wanted else pc.invert(operators)
    kept = ranges.filter(pa.chunked_array([pc.take(chosen, chunk.indices) for chunk in names.chunks]))
    return kept.set_column(kept.column_names.index("name"), "name", pc.cast(kept["name"], pa.string()).dictionary_encode())


def read_trace_info(folder: Path) -> TraceInfo:
    path = folder / TRACE_FILE
    if path.exists() and not path.is_file():
        raise RecordError(path, ": no regular file; convert the trace again")
    return read_record(path, TraceInfo)


def read_table(folder: Path, name: str, columns: Iterable[str] | None = None) -> pa.Table:
    """Read one table of a trace, or only some of its columns; whatever is not as :data:`TABLES` says is a RecordError."""
    path = folder / f"{name}.parquet"
    schema = TABLES[name] if columns is None else pa.schema([TABLES[name].field(column) for column in columns])
    try:
        source, size = _find_table(path)
        with pq.ParquetFile(source, page_checksum_verification=True) as file:
            if fault := _find_misfit(file, schema, size):
                raise RecordError(path, f": {fault}; convert the trace again")
            if not file.metadata.num_rows:
                return schema.empty_table()
            table = file.read(schema.names).select(schema.names)
        for column in table.columns:
            if pa.types.is_dictionary(column.type):
                column.validate(full=True)  # an index beyond the names would be found by whoever looks one up
        table = _unify_names(table).cast(schema)
    except FileNotFoundError:
        raise RecordError(path, ": no such table; convert the trace again") from None
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        reason = " ".join(str(error).split())
        raise RecordError(path, f": not a readable Parquet table ({reason[:160]}); convert the trace again") from None
    if fault := _find_fault(name, table):
        raise RecordError(path, f": {fault}; convert the trace again")
    return table


def _find_table(path: Path) -> tuple[Path | pa.BufferReader, int]:
    """Return what a table is read from, on disk or in its record's archive, and how many bytes it has."""
    try:
        about = path.stat()
    except FileNotFoundError:
        content = read_packed(path)
        if content is None:
            raise
        return pa.BufferReader(content), len(content)
    if not stat.S_ISREG(about.st_mode):  # reading a pipe would wait for ever
        raise RecordError(path, ": no regular file; convert the trace again")
    return path, about.st_size


def _find_misfit(file: pq.ParquetFile, schema: pa.Schema, size: int) -> str | None:
    """Return what is wrong with a Parquet file's own description, before anything is unpacked."""
    if excess := describe_excess(file.metadata, size):
        return excess
    found = file.schema_arrow
    for field in schema:
        if found.names.count(field.name) != 1:
            return f"no column {field.name}" if field.name not in found.names else f"two columns {field.name}"
        kind = found.field(field.name).type
        if not kind.equals(field.type) and not (field.type.equals(_NAME) and pa.types.is_string(kind)):
            return f"column {field.name} is of type {kind}, not {field.type}"
    return None


def describe_excess(about: pq.FileMetaData, size: int) -> str | None:
    """Return by what a Parquet file of so many bytes would take far more memory than that; None if it would not."""
    unpacked = sum(about.row_group(number).total_byte_size for number in range(about.num_row_groups))
    if about.num_rows > _SPARE_ROWS + _ROWS_PER_BYTE * size or unpacked > _SPARE_BYTES + _BYTES_PER_BYTE * size:
        return f"says that its {size} bytes hold {about.num_rows} rows of {unpacked} bytes, which no trace does"
    return None


def _unify_names(table: pa.Table) -> pa.Table:
    """Encode the names again where a name stands twice in a list of them, or an empty one stands in it."""
    for index, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            lists = [chunk.dictionary for chunk in table.column(index).chunks]
            if any(names.null_count or len(names.unique()) < len(names) for names in lists):
                table = table.set_column(index, field.name, table.column(index).cast(pa.string()).dictionary_encode())
    return table


def _find_fault(name: str, table: pa.Table) -> str | None:
    """Return what makes a table (or some of its columns) invalid in any trace; None if it is valid."""
    for field in table.schema:
        column = table[field.name]
        nullable = field.name in _NULLABLE or (name, field.name) in (("ranges", "end_ns"), ("devices", "name"))
        if column.null_count and not nullable:
            return f"{column.null_count} rows have no {field.name}"
        if pa.types.is_integer(field.type) and field.name != "graph" and (pc.min(column).as_py() or 0) < 0:
            return f"{field.name} is negative"
    if not {"start_ns", "end_ns"} <= set(table.column_names):
        return None
    lengths = pc.subtract(table["end_ns"], table["start_ns"])
    if (pc.min(lengths).as_py() or 0) < 0:
        return "an event ends before it starts"
    if max(pc.max(table[column]).as_py() or 0 for column in ("start_ns", "end_ns")) > _LONGEST_NS:
        return "an event lies more than a year after the first one of the trace"
    if (pc.sum(pc.cast(lengths, pa.float64(), safe=False)).as_py() or 0) > _LONGEST_SUM_NS:
        return "events last longer than a century together"
    return None
