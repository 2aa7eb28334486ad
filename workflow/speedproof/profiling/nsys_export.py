"""The SQLite file that `nsys export` writes, of schema 3.0 to 3.25, into a trace.

Tables and columns come and go between versions, and a table that recorded nothing may be absent: all are looked up by name,
and absent means empty. What the columns mean is said in the Nsight Systems User Guide, "SQLite Schema Reference".
"""

import re
import sqlite3
import warnings
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from speedproof.errors import ProfilingError, RecordError
from speedproof.profiling.events import Integers, encode_names, repeat_name, write_events
from speedproof.records.trace import TraceInfo, read_table

NEWEST_SCHEMA = (3, 25)
ROWS_AT_ONCE = 1 << 18  # read in one go: about 50 MB of text
MISSING = np.iinfo(np.int64).min  # stands for SQL's NULL

# NVTX_EVENTS.eventType, as the export's own table ENUM_NSYS_EVENT_TYPE names them. The second pair is of ranges read from
# a text file of NVTX events. Marks (34), categories (33) and domains (75, 76) are no ranges.
RANGE_KINDS = {59: "push_pop", 60: "start_end", 70: "push_pop", 71: "start_end"}

# OSRT_API.eventClass, as ENUM_NSYS_EVENT_CLASS names them: OSRT start and finish.
TRACING_MARKERS = [31, 32]

# ENUM_CUDA_MEM_KIND and ENUM_CUDA_MEMCPY_OPER as every export so far holds them, for trimmed files that lack the tables.
MEMORY_KINDS = ["PAGEABLE", "PINNED", "DEVICE", "ARRAY", "MANAGED", "DEVICE_STATIC", "MANAGED_STATIC", "UNKNOWN"]
COPY_KINDS = ["UNKNOWN", "HTOD", "DTOH", "HTOA", "ATOH", "ATOA", "ATOD", "DTOA", "DTOD", "HTOH", "PTOP"]

_LONGEST_REASON = 160  # characters
# With what follows these, `torch.autograd.profiler.emit_nvtx` makes every range's name a different one.
_AUTOGRAD_NUMBERS = [", seq = ", ", op_id = "]
# The API version behind the name of a CUDA call: cudaLaunchKernel_v7000.
_API_VERSION = r"_v\d{4,}$"

# A global identifier packs hardware (8 bits), virtual machine (8), process (24) and thread (24 bits); in a process' own
# identifier the thread is zero. (User Guide, "Common SQLite Examples": GlobalId.)
_THREAD_BITS = 24
_PROCESS_MASK = (1 << 24) - 1


def convert_export(sqlite: Path, folder: Path) -> TraceInfo:
    """Convert an export to a trace in `folder`, and return its `trace.json`.

    Raises :class:`RecordError` where the file is no export, is damaged, or has a newer schema than is known.
    """
    _check_header(sqlite)
    try:
        return _Export(sqlite).convert(folder)
    except (sqlite3.Error, ValueError, OverflowError, pa.ArrowException) as error:
        reason = " ".join(str(error).split())  # SQLite may repeat a whole table's definition
        raise RecordError(f"{sqlite}: damaged ({reason[:_LONGEST_REASON]}); run `nsys export` again") from None


def require_ranges(folder: Path, names: Iterable[str]) -> None:
    """Raise a :class:`ProfilingError` unless the trace in `folder` holds a range of each name."""
    found = set(pc.unique(read_table(folder, "ranges", ["name"])["name"]).to_pylist())
    missing = [name for name in names if name not in found]
    if not found:
        raise ProfilingError(
            f"{folder}: the trace holds no ranges; nsys up to 2024.2 drops those of nvtx 0.2.12 and newer: install nvtx==0.2.11"
        )
    if missing:
        raise ProfilingError(f"{folder}: the trace holds no range `{missing[0]}`; was the run cut short? profile it again")


class _Export:
    """An export: reads its tables as raw events."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._open() as connection:
            names = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')").fetchall()
            self.tables: dict[str, list[str]] = {
                name: [row[1] for row in connection.execute(f'PRAGMA table_info("{name}")')] for (name,) in names
            }
        self.warnings: list[str] = []

    def convert(self, folder: Path) -> TraceInfo:
        version, schema = self._read_versions()
        self.strings = dict(self._select("StringIds", "id", "value"))
        raw = self._read_events()
        raw |= self._number_devices(raw)
        info = TraceInfo(profiler="nsys", profiler_version=version, source_schema=schema, rows={}, warnings=self.warnings)
        return write_events(folder, raw, self._main_threads(raw), self._thread_names(), info)

    def _read_events(self) -> dict[str, pa.Table]:
        """Read all tables of events, two at a time: the time goes into SQLite, which lets another thread work meanwhile."""
        with ThreadPoolExecutor(max_workers=2) as pool:
            names = pool.submit(self._read_written_names)
            parts = {
                "ranges": pool.submit(self._read_ranges, names),
                "api": pool.submit(self._read_calls, "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER", shorten=True),
                "kernels": pool.submit(self._read_kernels),
                "copies": pool.submit(self._read_copies),
                "osrt": pool.submit(self._read_calls, "OSRT_API", where=self._without_markers("OSRT_API")),
                "overhead": pool.submit(self._read_calls, "PROFILER_OVERHEAD"),
            }
            return {name: part.result() for name, part in parts.items()}

    def _read_versions(self) -> tuple[str, str]:
        """Return the version of nsys and of the export's schema."""
        if "META_DATA_EXPORT" not in self.tables and "StringIds" not in self.tables:
            raise RecordError(f"{self.path}: not an export of Nsight Systems; make one with `nsys export --type=sqlite`")
        about = dict(self._select("META_DATA_EXPORT", "name", "value"))
        schema = about.get("EXPORT_SCHEMA_VERSION", "unknown")
        major, minor = NEWEST_SCHEMA
        number = re.match(r"(\d+)\.?(\d*)", schema)
        if number and int(number[1]) > major:
            raise RecordError(
                f"{self.path}: schema {schema} is newer than this speedproof reads ({major}.x); "
                "export it with an older nsys, or use a newer speedproof"
            )
        if number and (int(number[1]), int(number[2] or 0)) > NEWEST_SCHEMA:
            self.warnings.append(f"schema {schema} is newer than {major}.{minor}: what it adds is not read")
        return about.get("EXPORT_PRODUCT_VERSION", "unknown"), schema

    def _read_ranges(self, written_names: Future[pa.DictionaryArray]) -> pa.Table:
        """Read the ranges; the names that are written in the events are read meanwhile."""
        columns = ("start", "end", "eventType", "globalTid", "endGlobalTid", "textId", "domainId")
        raw = self._read_integers("NVTX_EVENTS", columns, _RANGES)
        is_start_end = np.isin(raw["eventType"], [kind for kind, name in RANGE_KINDS.items() if name == "start_end"])
        unended = self._find_unended(raw["end"])
        if unended.any():
            self.warnings.append(f"{int(unended.sum())} ranges never ended")
        end_thread = np.where(is_start_end & (raw["endGlobalTid"] != MISSING), raw["endGlobalTid"], raw["globalTid"])
        return pa.table(
            {
                "start_ns": raw["start"],
                "end_ns": _nullable(np.where(unended, MISSING, raw["end"])),
                "process": raw["globalTid"] >> _THREAD_BITS,
                "thread": raw["globalTid"],
                "end_thread": _nullable(np.where(unended, MISSING, end_thread)),
                "domain": np.where(raw["domainId"] == MISSING, 0, raw["domainId"]),
                "kind": encode_names(is_start_end.astype(np.int64), ["push_pop", "start_end"]),
                "name": _join_names(self._look_up(raw["textId"]), written_names.result()),
            }
        )

    def _read_written_names(self) -> pa.DictionaryArray:
        """Return the names that ranges have in the events themselves, null where there is none; without autograd's numbers."""
        chunks = [
            _without_numbers(chunk).dictionary_encode() for chunk in self._read_texts("NVTX_EVENTS", "text", _RANGES)
        ]  # chunk by chunk: millions of names with a number each would take gigabytes
        return pa.chunked_array(chunks, pa.dictionary(pa.int32(), pa.string())).unify_dictionaries().combine_chunks()

    def _find_unended(self, end_ns: Integers) -> np.ndarray:
        """Tell which ranges never ended: nsys leaves their end empty, or lets them end with the recording itself."""
        duration_ns = next((row[0] for row in self._select("ANALYSIS_DETAILS", "duration")), None)
        unended = end_ns == MISSING
        return unended if duration_ns is None else unended | (end_ns >= duration_ns)

    def _read_kernels(self) -> pa.Table:
        name = self._first_column("CUPTI_ACTIVITY_KIND_KERNEL", "demangledName", "shortName", "mangledName")
        raw = self._read_integers("CUPTI_ACTIVITY_KIND_KERNEL", (*_GPU_COLUMNS, name))
        kernels = pa.table({**self._gpu_columns(raw), "name": self._look_up(raw[name]).fill_null("unknown")})
        whole = self._read_integers("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", _GPU_COLUMNS)
        graphs = pa.table({**self._gpu_columns(whole), "name": repeat_name("CUDA graph", len(whole["start"]))})
        return _stack(kernels, graphs)

    def _read_copies(self) -> pa.Table:
        raw = self._read_integers("CUPTI_ACTIVITY_KIND_MEMCPY", (*_GPU_COLUMNS, "bytes", "copyKind", "srcKind", "dstKind"))
        kinds = self._read_enum("ENUM_CUDA_MEMCPY_OPER", "CUDA_MEMCPY_KIND_", COPY_KINDS)
        memory = self._read_enum("ENUM_CUDA_MEM_KIND", "CUDA_MEMOPR_MEMORY_KIND_", MEMORY_KINDS)
        copies = pa.table(
            {
                **self._gpu_columns(raw),
                "bytes": _nullable(raw["bytes"]),
                "kind": _translate(raw["copyKind"], {key: _copy_kind(name) for key, name in kinds.items()}),
                "source_memory": _translate(raw["srcKind"], {key: _memory_kind(name) for key, name in memory.items()}),
                "target_memory": _translate(raw["dstKind"], {key: _memory_kind(name) for key, name in memory.items()}),
            }
        )
        raw = self._read_integers("CUPTI_ACTIVITY_KIND_MEMSET", (*_GPU_COLUMNS, "bytes", "memKind"))
        rows = len(raw["start"])
        fills = pa.table(
            {
                **self._gpu_columns(raw),
                "bytes": _nullable(raw["bytes"]),
                "kind": repeat_name("memset", rows),
                "source_memory": repeat_name("unknown", rows),
                "target_memory": _translate(raw["memKind"], {key: _memory_kind(name) for key, name in memory.items()}),
            }
        )
        return _stack(copies, fills)

    def _read_calls(self, *tables: str, shorten: bool = False, where: str = "TRUE") -> pa.Table:
        """Read calls on the CPU: of the CUDA API (whose names end in a version), of the system, of the profiler."""
        parts = []
        for table in tables:
            raw = self._read_integers(table, ("start", "end", "globalTid", "correlationId", "nameId"), where)
            names = self._look_up(raw["nameId"])
            if shorten:
                plain = pc.replace_substring_regex(names.dictionary, _API_VERSION, "")
                names = encode_names(names.indices.fill_null(-1).to_numpy().astype(np.int64), plain.to_pylist())
            thread = raw["globalTid"]
            parts.append(
                pa.table(
                    {
                        "start_ns": raw["start"],
                        "end_ns": raw["end"],
                        "process": _nullable(np.where(thread == MISSING, MISSING, thread >> _THREAD_BITS)),
                        "thread": _nullable(thread),
                        "correlation": _nullable(raw["correlationId"]),
                        "name": names.fill_null("unknown"),
                    }
                )
            )
        return _stack(*parts)

    def _gpu_columns(self, raw: Mapping[str, Integers]) -> dict[str, pa.Array | Integers]:
        # The id of an executed graph has had three names; a node's own id tells at least that a graph launched it.
        graph = raw["graphExecId"]
        for name in ("graphId", "graphNodeId"):
            graph = np.where((graph == MISSING) | (graph == 0), raw[name], graph)
        process = raw["globalPid"]
        return {
            "start_ns": raw["start"],
            "end_ns": raw["end"],
            "process": _nullable(np.where(process == MISSING, MISSING, process >> _THREAD_BITS)),
            "device": _nullable(raw["deviceId"]),
            "stream": _nullable(raw["streamId"]),
            "correlation": _nullable(np.where(raw["correlationId"] == 0, MISSING, raw["correlationId"])),
            "graph": _nullable(np.where(graph == 0, MISSING, graph)),
        }

    def _number_devices(self, raw: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """Give each GPU one number in all processes: a process counts only the GPUs that it sees."""
        gpus = {(pid, cuda): gpu for pid, cuda, gpu in self._select("TARGET_INFO_CUDA_DEVICE", "pid", "cudaId", "gpuId")}
        numbered = {name: _replace_devices(raw[name], gpus) for name in ("kernels", "copies")}
        names = dict(self._select("TARGET_INFO_GPU", "id", "name"))
        seen = {device for table in numbered.values() for device in pc.unique(table["device"]).drop_null().to_pylist()}
        devices = sorted(seen | set(names))
        columns = [pa.array(devices, pa.int32()), pa.array([names.get(device) for device in devices], pa.string())]
        return {**numbered, "devices": pa.table(columns, ["device", "name"])}

    def _main_threads(self, raw: Mapping[str, pa.Table]) -> dict[int, int]:
        """Return each process' first thread: the one that has the process' own number."""
        processes = {number for name in ("ranges", "api", "osrt") for number in pc.unique(raw[name]["process"]).to_pylist()}
        return {number: number << _THREAD_BITS | number & _PROCESS_MASK for number in processes if number is not None}

    def _thread_names(self) -> dict[int, str]:
        return {thread: self.strings.get(name, "") for thread, name in self._select("ThreadNames", "globalTid", "nameId")}

    def _read_enum(self, table: str, prefix: str, default: list[str]) -> dict[int, str]:
        """Return an enumeration's names without their common prefix, by number."""
        names = {number: name.removeprefix(prefix) for number, name in self._select(table, "id", "name")}
        return names or dict(enumerate(default))

    def _look_up(self, ids: Integers) -> pa.DictionaryArray:
        """Return the strings with these ids; null where there is none."""
        distinct, positions = _find_distinct(ids)
        texts = [self.strings.get(number) for number in distinct]
        known = np.array([text is not None for text in texts], dtype=bool)
        return encode_names(np.where(known[positions], positions, -1), [text or "" for text in texts])

    def _without_markers(self, table: str) -> str:
        """Return the condition that leaves out the events in which nsys notes the start and end of its own tracing."""
        markers = ", ".join(str(event_class) for event_class in TRACING_MARKERS)
        return f"eventClass NOT IN ({markers})" if "eventClass" in self.tables.get(table, []) else "TRUE"

    def _first_column(self, table: str, *names: str) -> str:
        return next((name for name in names if name in self.tables.get(table, [])), names[0])

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection of this thread's own."""
        with closing(sqlite3.connect(f"{self.path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
            connection.text_factory = _decode
            yield connection

    def _select(self, table: str, *columns: str) -> list[tuple]:
        """Read a small table; no rows where it or a column is absent."""
        if not set(columns) <= set(self.tables.get(table, [])):
            return []
        with self._open() as connection:
            return connection.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall()

    def _read_integers(self, table: str, columns: Iterable[str], where: str = "TRUE") -> dict[str, Integers]:
        """Read integer columns of a table, row by row in the table's order; :data:`MISSING` where there is no value.

        SQLite joins each column's numbers to one text and NumPy reads that: three times as fast as fetching rows.
        """
        present = [column for column in columns if column in self.tables.get(table, [])]
        joined = [f"group_concat(ifnull({column}, {MISSING}))" for column in present]
        parts: dict[str, list[Integers]] = {column: [] for column in columns}
        for texts in self._read_chunks(table, present, joined, where) if present else []:
            for column, text in zip(present, texts, strict=True):
                parts[column].append(_parse_integers(text))
        rows = {sum(map(len, parts[column])) for column in present} or {0}
        if len(rows) > 1:
            raise ValueError(f"columns of {table} differ in length")
        (length,) = rows
        # Each column's parts are let go of as it is joined: all of them together are gigabytes of a large trace.
        return {column: np.concatenate(parts.pop(column)) if length else np.empty(0, np.int64) for column in present} | {
            column: np.full(length, MISSING, np.int64) for column in columns if column not in present
        }

    def _read_chunks(self, table: str, columns: list[str], joined: list[str], where: str) -> Iterable[tuple[bytes, ...]]:
        """Read a table's joined columns, :data:`ROWS_AT_ONCE` rows at a time, as SQLite holds them."""
        query = f"""
            SELECT max(row), {", ".join(joined)}
            FROM (SELECT rowid AS row, {", ".join(columns)} FROM {table}
                  WHERE rowid > ? AND {where} ORDER BY rowid LIMIT {ROWS_AT_ONCE})
        """
        last = -1
        with self._open() as connection:
            connection.text_factory = bytes
            while True:
                row, *texts = connection.execute(query, (last,)).fetchone()
                if row is None:
                    return
                yield tuple(texts)
                last = row

    def _read_texts(self, table: str, column: str, where: str) -> Iterator[pa.StringArray]:
        """Read a text column, row by row in the table's order; null where there is no value.

        SQLite joins the texts, and their lengths, to one each: Arrow keeps texts in the same way, and so no row is touched.
        """
        if column in self.tables.get(table, []):
            joined = [f"group_concat(ifnull(length(CAST({column} AS BLOB)), -1))", f"group_concat({column}, '')"]
            for lengths, text in self._read_chunks(table, [column], joined, where):
                yield _cut_texts(text or b"", _parse_integers(lengths))


_GPU_COLUMNS = (
    "start", "end", "globalPid", "deviceId", "streamId", "correlationId", "graphExecId", "graphId", "graphNodeId",
)  # fmt: skip


_RANGES = f"eventType IN ({', '.join(map(str, RANGE_KINDS))})"


def _check_header(sqlite: Path) -> None:
    """Raise a :class:`RecordError` unless this is an SQLite file, and a whole one."""
    try:
        with sqlite.open("rb") as file:
            header = file.read(100)
        found = sqlite.stat().st_size
    except OSError as error:
        raise RecordError(f"{sqlite}: not readable ({error.strerror}); run `nsys export` again") from None
    if not header.startswith(b"SQLite format 3\0"):
        raise RecordError(f"{sqlite}: not an SQLite file; make one from the report with `nsys export --type=sqlite`")
    expected = _size_by_header(header)
    if found < expected:
        raise RecordError(f"{sqlite}: truncated ({found} of {expected} bytes); copy it, or run `nsys export`, again")


def _size_by_header(header: bytes) -> int:
    """Return how many bytes a database has by its header; 0 where that does not tell.

    SQLite's "Database File Format", 1.3: page size at offset 16 (1 means 65536), number of pages at 28, which holds if the
    change counters at 24 and 92 agree.
    """
    if len(header) < 100 or header[24:28] != header[92:96]:
        return 0
    page_size, pages = int.from_bytes(header[16:18]), int.from_bytes(header[28:32])
    return (65536 if page_size == 1 else page_size) * pages


def _decode(text: bytes) -> str:
    """Return a text; a program may have written what is no UTF-8."""
    return text.decode(errors="replace")


def _parse_integers(text: bytes) -> Integers:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # how NumPy reports what is no integer
        try:
            return np.fromstring(text, dtype=np.int64, sep=",")
        except DeprecationWarning:
            raise ValueError("a number was expected, not text") from None


def _cut_texts(joined: bytes, length: Integers) -> pa.StringArray:
    """Cut a text into those of these lengths (bytes of UTF-8); negative: null."""
    ends = np.cumsum(np.maximum(length, 0), dtype=np.int32)
    if len(joined) != ends[-1]:
        raise ValueError("texts differ from their lengths")
    offsets, valid = np.append(np.int32(0), ends), pa.array(length >= 0).buffers()[1]
    texts = pa.BinaryArray.from_buffers(pa.binary(), len(length), [valid, pa.py_buffer(offsets), pa.py_buffer(joined)])
    try:
        return texts.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if text is None else _decode(text) for text in texts.to_pylist()], pa.string())


def _join_names(listed: pa.DictionaryArray, written: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return the ranges' names: from the table of strings, or written in the event itself (if any are)."""
    codes, names = listed.indices.fill_null(-1).to_numpy(), _without_numbers(listed.dictionary)
    if len(written):
        own = written.indices.fill_null(-1).to_numpy()
        codes = np.where(own < 0, codes, own + len(names))
        names = pa.concat_arrays([names, written.dictionary])
    return encode_names(codes, names.to_pylist()).fill_null("")


def _without_numbers(names: pa.StringArray) -> pa.StringArray:
    """Cut names off where autograd's numbers begin: millions of names become few."""
    for number in _AUTOGRAD_NUMBERS:
        names = pc.list_element(pc.split_pattern(names, number, max_splits=1), 0)
    return names


def _nullable(values: Integers) -> pa.Array:
    return pa.array(values, pa.int64(), mask=values == MISSING)


def _translate(numbers: Integers, names: Mapping[int, str]) -> pa.DictionaryArray:
    """Return the names of an enumeration's numbers, "unknown" where there is none."""
    distinct, positions = _find_distinct(numbers)
    return encode_names(positions, [names.get(number, "unknown") for number in distinct])


def _find_distinct(numbers: Integers) -> tuple[list[int], Integers]:
    """Return the distinct numbers, and for each number its position among them; by hashing, which beats sorting millions."""
    encoded = pa.array(numbers).dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)


def _copy_kind(name: str) -> str:
    """Return e.g. "HtoD" for HTOD, "UVM HtoD" for UVM_HTOD, "unknown" for UNKNOWN."""
    unified, _, direction = name.rpartition("_")
    if not re.fullmatch("[HDAP]TO[HDAP]", direction):
        return "unknown"
    return f"{unified} {direction[0]}to{direction[3]}".lstrip()


def _memory_kind(name: str) -> str:
    kind = name.removesuffix("_STATIC").lower().replace("array", "device")
    return kind if kind in ("pageable", "pinned", "device", "managed") else "unknown"


def _stack(*tables: pa.Table) -> pa.Table:
    """Put tables of equal columns below each other."""
    filled = [table for table in tables if len(table)] or [tables[0]]
    return pa.concat_tables(filled).unify_dictionaries().combine_chunks()


def _replace_devices(table: pa.Table, gpus: Mapping[tuple[int, int], int]) -> pa.Table:
    """Replace a process' number of a GPU by the machine's."""
    device = table["device"].to_numpy()
    process = table["process"].to_numpy()
    if not gpus or table["device"].null_count or table["process"].null_count:
        return table
    renumbered = device.copy()
    for (pid, cuda), gpu in gpus.items():
        renumbered[((process & _PROCESS_MASK) == pid) & (device == cuda)] = gpu
    return table.set_column(table.column_names.index("device"), "device", pa.array(renumbered))
