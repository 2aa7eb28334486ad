"""What `nsys export` writes (an SQLite file, a folder of Parquet or Arrow files), of schema 3.0 to 3.25, into a trace.

Tables and columns come and go between versions, and a table that recorded nothing may be absent: all are looked up by name,
and absent means empty. What the columns mean is said in the Nsight Systems User Guide, "SQLite Schema Reference".
"""

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from speedproof.profilers.event_tables import Integers, RawClock, encode_names, repeat_name, write_events
from speedproof.profilers.nsys_columns import (
    COPY_KINDS,
    MEMORY_KINDS,
    MEMORY_OPERATIONS,
    THREAD_BITS,
    copy_kind,
    find_distinct,
    find_repeated,
    main_thread,
    memory_kind,
    name_ranges,
    replace_devices,
    stack_tables,
    to_nullable,
    translate_numbers,
    without_autograd_numbers,
)
from speedproof.profilers.nsys_diagnostics import explain_other, find_gpu_tracing, read_diagnostics
from speedproof.profilers.nsys_folder import ExportFolder
from speedproof.profilers.nsys_formats import is_json_lines
from speedproof.profilers.nsys_graphs import find_graph_launches, to_nodes
from speedproof.profilers.nsys_lines import ExportLines
from speedproof.profilers.nsys_samples import SampleReader
from speedproof.profilers.nsys_sqlite import MISSING, ExportFile
from speedproof.results.trace_tables import TraceInfo
from speedproof.util.errors import RecordError
from speedproof.util.memory import return_freed_memory
from speedproof.util.progress_bar import SOON_S, report_progress

NEWEST_SCHEMA = (3, 25)
# NVTX_EVENTS.eventType, as the export's own table ENUM_NSYS_EVENT_TYPE names them. The second pair is of ranges read from
# a text file of NVTX events. Marks (34), categories (33) and domains (75, 76) are not ranges.
RANGE_KINDS = {59: "push_pop", 60: "start_end", 70: "push_pop", 71: "start_end"}

_EVENTS = [
    "NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER", "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET", "OSRT_API",
    "CUDNN_EVENTS", "CUBLAS_EVENTS", "PROFILER_OVERHEAD", "GPU_METRICS", "CUDA_GPU_MEMORY_USAGE_EVENTS", "COMPOSITE_EVENTS",
    "SAMPLING_CALLCHAINS",
]  # fmt: skip

# eventClass, as ENUM_NSYS_EVENT_CLASS names them: OSRT start and finish, then those of cuDNN and of cuBLAS.
TRACING_MARKERS = [31, 32, 33, 34, 35, 36]

# Columns without which rows of a table say nothing: every export has them, and (but for the end of a range) filled in. Of the
# others, one that is absent or empty is unknown.
_REQUIRED = ["start", "end", "eventType", "deviceId", "streamId"]
_SMALL = 1 << 31  # numbers of GPUs, streams and domains are less
# The API version behind the name of a CUDA call: cudaLaunchKernel_v7000.
_API_VERSION = r"_v\d{4,}$"

_GPU_MASK = 0xFF  # of GPU_METRICS.typeId: which GPU (nsys' own recipe `gpu_metric_util_map`)


def convert_export(sqlite: Path, folder: Path) -> TraceInfo:
    """Convert an export to a trace in `folder`, and return its `trace.json`.

    Raises :class:`RecordError` if the file is not an export, is damaged, or has a newer schema than is known.
    """
    return_freed_memory()
    export = (ExportFolder if sqlite.is_dir() else ExportLines if is_json_lines(sqlite) else ExportFile)(sqlite)
    try:
        return _Conversion(export).convert(folder)
    except (ValueError, OverflowError, pa.ArrowException) as error:
        raise export.damaged(" ".join(str(error).split())) from None


class _Conversion:
    def __init__(self, export: ExportFile) -> None:
        self.export = export
        self.path = export.path

    def convert(self, folder: Path) -> TraceInfo:
        version, schema = self._read_versions()
        self.strings: dict[int, str] = self.export.select_map("StringIds", "id", "value", str | None)
        # The names in ranges are read apart.
        rows = sum(map(self.export.count_rows, [*_EVENTS, "NVTX_EVENTS"]))
        with report_progress(f"{self.path}: reading", rows, "rows", after_s=SOON_S) as self.export.advance:
            raw = self._read_events()
        raw |= self._launch_graphs(raw)
        raw |= self._number_devices(raw)
        for note in read_diagnostics(self.export, pc.unique(raw["api"]["process"]).to_pylist()):
            self.export.warn(note)
        thread_names = self._thread_names()
        # On one machine a range's end and the system's clock, read right after it, were 36 µs apart.
        unix_ns = next((row[0] for row in self.export.select("TARGET_INFO_SESSION_START_TIME", utcEpochNs=int | None)), None)
        self.export.check_unchanged()
        warnings = sorted(self.export.warnings)  # tables are read in any order
        info = TraceInfo(
            profiler="nsys",
            profiler_version=version,
            source_schema=schema,
            rows={},
            warnings=warnings,
            gpu_tracing=find_gpu_tracing(self.export),
        )
        return write_events(folder, raw, self._main_threads(raw), thread_names, info, RawClock(0, unix_ns))

    def _read_events(self) -> dict[str, pa.Table]:
        """Read all tables of events, two at a time: the time goes into SQLite, which lets another thread work meanwhile."""
        samples = SampleReader(self.export, self.strings)
        with ThreadPoolExecutor(max_workers=2) as pool:
            names = pool.submit(self._read_written_names)
            parts = {
                "ranges": pool.submit(self._read_ranges, names),
                "api": pool.submit(self._read_calls, "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER", shorten=True),
                "kernels": pool.submit(self._read_kernels),
                "copies": pool.submit(self._read_copies),
                "osrt": pool.submit(self._read_calls, "OSRT_API"),
                "library": pool.submit(self._read_calls, "CUDNN_EVENTS", "CUBLAS_EVENTS"),
                "overhead": pool.submit(self._read_calls, "PROFILER_OVERHEAD"),
                "metrics": pool.submit(self._read_metrics),
                "memory": pool.submit(self._read_memory),
                "cpu_samples": pool.submit(samples.read_cpu),
                "python_samples": pool.submit(samples.read_python, names),
            }
            return {name: part.result() for name, part in parts.items()}

    def _read_versions(self) -> tuple[str, str]:
        if not self.export.has("META_DATA_EXPORT") and not self.export.has("StringIds"):
            raise explain_other(self.export)
        about = dict(self.export.select("META_DATA_EXPORT", name=str, value=str | None))
        schema = about.get("EXPORT_SCHEMA_VERSION") or "unknown"
        major, minor = NEWEST_SCHEMA
        number = re.match(r"(\d+)\.?(\d*)", schema)
        if number and int(number[1]) > major:
            raise RecordError(
                self.path,
                f": schema {schema} is newer than this speedproof reads ({major}.x); "
                "export it with an older nsys, or use a newer speedproof",
            )
        if number and (int(number[1]), int(number[2] or 0)) > NEWEST_SCHEMA:
            self.export.warn(f"schema {schema} is newer than {major}.{minor}: what it adds is not read")
        return about.get("EXPORT_PRODUCT_VERSION") or "unknown", schema

    def _read_ranges(self, written_names: Future[pa.DictionaryArray]) -> pa.Table:
        """Read the ranges; the names that are written in the events are read meanwhile."""
        columns = ("start", "end", "eventType", "globalTid", "endGlobalTid", "textId", "domainId")
        raw = self._read_rows("NVTX_EVENTS", columns, _is_range)
        self._refuse("NVTX_EVENTS", raw, raw["globalTid"] == MISSING, "has no globalTid")
        is_start_end = np.isin(raw["eventType"], [kind for kind, name in RANGE_KINDS.items() if name == "start_end"])
        unended = self._find_unended(raw)
        self.export.warn_of(unended, "ranges never ended")
        end_thread = np.where(is_start_end & (raw["endGlobalTid"] != MISSING), raw["endGlobalTid"], raw["globalTid"])
        return pa.table(
            {
                "start_ns": raw["start"],
                "end_ns": to_nullable(np.where(unended, MISSING, raw["end"])),
                "process": raw["globalTid"] >> THREAD_BITS,
                "thread": raw["globalTid"],
                "end_thread": to_nullable(np.where(unended, MISSING, end_thread)),
                "domain": np.where(raw["domainId"] == MISSING, 0, raw["domainId"]),
                "kind": encode_names(is_start_end.astype(np.int64), ["push_pop", "start_end"]),
                "name": name_ranges(self._look_up(raw["textId"], "ranges"), written_names.result(), raw["row"]),
            }
        )

    def _read_written_names(self) -> pa.DictionaryArray:
        """Return the names that events have in their own rows, null if absent; without autograd's numbers."""
        chunks = [
            without_autograd_numbers(chunk).dictionary_encode() for chunk in self.export.read_texts("NVTX_EVENTS", "text")
        ]  # chunk by chunk: millions of names with a number each would take gigabytes
        return pa.chunked_array(chunks, pa.dictionary(pa.int32(), pa.string())).unify_dictionaries().combine_chunks()

    def _find_unended(self, ranges: Mapping[str, Integers]) -> np.ndarray:
        """Tell which ranges never ended: nsys leaves their end empty, or lets them end with the recording itself."""
        unended = ranges["end"] == MISSING
        duration_ns = next((row[0] for row in self.export.select("ANALYSIS_DETAILS", duration=int)), None)
        if duration_ns is None or not len(unended):
            return unended
        if duration_ns <= ranges["start"].min():
            raise self.export.damaged(f"ANALYSIS_DETAILS: the recording ends after {duration_ns} ns, before its first range")
        return unended | (ranges["end"] >= duration_ns)

    def _read_rows(
        self, table: str, columns: Sequence[str], select: Callable[[Mapping[str, Integers]], np.ndarray] | None = None
    ) -> dict[str, Integers]:
        """Read columns of a table of events, and `row`, which counts from 0; refuse what cannot be an event.

        `select` tells which rows are read.
        """
        raw = self.export.read_integers(table, columns)
        raw["row"] = np.arange(len(raw["start"]), dtype=np.int32)
        if select is not None:
            kept = select(raw)
            raw = raw if kept.all() else {name: column[kept] for name, column in raw.items()}
        for name in [name for name in _REQUIRED if name in raw and not (table == "NVTX_EVENTS" and name == "end")]:
            self._refuse(table, raw, raw[name] == MISSING, f"has no {name}")
        self._refuse(table, raw, raw["start"] < 0, "starts before the recording")
        self._refuse(table, raw, (raw["end"] < raw["start"]) & (raw["end"] != MISSING), "ends before it starts")
        for name in [name for name in ("correlationId", "bytes") if name in raw]:
            self._refuse(table, raw, (raw[name] < 0) & (raw[name] != MISSING), f"has a negative {name}")
        for name in [name for name in ("deviceId", "streamId", "domainId") if name in raw]:
            strange = ((raw[name] < 0) & (raw[name] != MISSING)) | (raw[name] >= _SMALL)
            self._refuse(table, raw, strange, f"has a {name} out of range")
        return raw

    def _refuse(self, table: str, raw: Mapping[str, Integers], wrong: np.ndarray, what: str) -> None:
        """Raise a :class:`RecordError` that names the first of the wrong rows, if there is one."""
        if wrong.any():
            raise self.export.damaged(f"{table}, row {raw['row'][wrong.argmax()] + 1}: {what}")

    def _read_kernels(self) -> pa.Table:
        name = self._first_column("CUPTI_ACTIVITY_KIND_KERNEL", "demangledName", "shortName", "mangledName")
        raw = self._read_rows("CUPTI_ACTIVITY_KIND_KERNEL", (*_GPU_COLUMNS, name))
        self.export.warn_of(raw["globalPid"] == MISSING, "kernels name no process")
        kernels = pa.table({**self._gpu_columns(raw), "name": self._look_up(raw[name], "kernels").fill_null("unknown")})
        whole = self._read_rows("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", _GPU_COLUMNS)
        graphs = pa.table({**self._gpu_columns(whole), "name": repeat_name("CUDA graph", len(whole["start"]))})
        if len(graphs):
            self.export.warn(
                f"{len(graphs)} executions of CUDA graphs were traced as a whole: each counts as one kernel, which keeps the "
                "GPU busy from its start to its end; profile with --cuda-graph-trace=node for their kernels"
            )
        return stack_tables(kernels, graphs)

    def _read_copies(self) -> pa.Table:
        raw = self._read_rows("CUPTI_ACTIVITY_KIND_MEMCPY", (*_GPU_COLUMNS, "bytes", "copyKind", "srcKind", "dstKind"))
        kinds = self._read_enum("ENUM_CUDA_MEMCPY_OPER", "CUDA_MEMCPY_KIND_", COPY_KINDS)
        memory = self._memory_kinds()
        copies = pa.table(
            {
                **self._gpu_columns(raw),
                "bytes": to_nullable(raw["bytes"]),
                "kind": translate_numbers(raw["copyKind"], {key: copy_kind(name) for key, name in kinds.items()}),
                "source_memory": translate_numbers(raw["srcKind"], memory),
                "target_memory": translate_numbers(raw["dstKind"], memory),
            }
        )
        raw = self._read_rows("CUPTI_ACTIVITY_KIND_MEMSET", (*_GPU_COLUMNS, "bytes", "memKind"))
        rows = len(raw["start"])
        fills = pa.table(
            {
                **self._gpu_columns(raw),
                "bytes": to_nullable(raw["bytes"]),
                "kind": repeat_name("memset", rows),
                "source_memory": repeat_name("unknown", rows),
                "target_memory": translate_numbers(raw["memKind"], memory),
            }
        )
        return stack_tables(copies, fills)

    def _read_calls(self, *tables: str, shorten: bool = False) -> pa.Table:
        """Read calls on the CPU: of CUDA (whose names end in a version), of the system, of libraries, of the profiler."""
        parts = []
        for table in tables:
            raw = self._read_rows(table, ("start", "end", "globalTid", "correlationId", "nameId", "eventClass"), _is_no_marker)
            names = self._look_up(raw["nameId"], "calls")
            if shorten:
                plain = pc.replace_substring_regex(names.dictionary, _API_VERSION, "")
                names = encode_names(names.indices.fill_null(-1).to_numpy().astype(np.int64), plain.to_pylist())
            thread = raw["globalTid"]
            if table.startswith("CUPTI"):
                self.export.warn_of(thread == MISSING, "CUDA calls name no thread")
                self.export.warn_of(
                    find_repeated(thread >> THREAD_BITS, raw["correlationId"]), "CUDA calls share a correlation id"
                )
            parts.append(
                pa.table(
                    {
                        "start_ns": raw["start"],
                        "end_ns": raw["end"],
                        "process": to_nullable(np.where(thread == MISSING, MISSING, thread >> THREAD_BITS)),
                        "thread": to_nullable(thread),
                        "correlation": to_nullable(raw["correlationId"]),
                        "name": names.fill_null("unknown"),
                    }
                )
            )
        return stack_tables(*parts)

    def _read_metrics(self) -> pa.Table:
        """Read the samples of GPUs' counters. What was sampled before the recording began is left out."""
        raw = self.export.read_integers("GPU_METRICS", ("timestamp", "typeId", "metricId", "value"))
        kinds, positions = find_distinct(raw["typeId"])
        metrics, places = find_distinct(raw["metricId"])
        pairs, sampled = find_distinct(positions * len(metrics) + places)  # those that occur: all could be far too many
        names: dict[tuple[int, int], str] = {}
        for kind, metric, name in self.export.select("TARGET_INFO_GPU_METRICS", typeId=int, metricId=int, metricName=str):
            names[kind, metric] = name
        labels = [names.get((kinds[pair // len(metrics)], metrics[pair % len(metrics)])) for pair in pairs]
        known = np.array([label is not None for label in labels], bool)[sampled] & (raw["value"] >= 0)
        self.export.warn_of(~known, "samples of GPU metrics have no name, no value or one below zero")
        kept = known & (raw["timestamp"] >= 0)
        return pa.table(
            {
                "start_ns": raw["timestamp"][kept],
                "device": raw["typeId"][kept] & _GPU_MASK,
                "name": encode_names(sampled[kept], [label or "" for label in labels]),
                "value": raw["value"][kept],
            }
        )

    def _read_memory(self) -> pa.Table:
        """Read what the program allocated and freed of GPUs' memory, and of the host's through CUDA."""
        columns = ("start", "globalPid", "deviceId", "address", "bytes", "memKind", "memoryOperationType")
        raw = self.export.read_integers("CUDA_GPU_MEMORY_USAGE_EVENTS", columns)
        operations = self._read_enum("ENUM_CUDA_DEV_MEM_EVENT_OPER", "CUDA_DEV_MEM_EVENT_OPR_", MEMORY_OPERATIONS)
        operation = translate_numbers(raw["memoryOperationType"], {number: name.lower() for number, name in operations.items()})
        known = np.isin(operation.to_numpy(zero_copy_only=False), [name.lower() for name in MEMORY_OPERATIONS])
        whole = known & (raw["globalPid"] != MISSING)
        for name in ("start", "deviceId", "address", "bytes"):
            whole &= raw[name] >= 0
        self.export.warn_of(~whole, "allocations and frees of memory are incomplete, and left out")
        table = pa.table(
            {
                "start_ns": raw["start"],
                "process": raw["globalPid"] >> THREAD_BITS,
                "device": raw["deviceId"],
                "address": raw["address"],
                "bytes": raw["bytes"],
                "kind": translate_numbers(raw["memKind"], self._memory_kinds()),
                "operation": operation,
            }
        )
        return table.filter(pa.array(whole))

    def _gpu_columns(self, raw: Mapping[str, Integers]) -> dict[str, pa.Array | Integers]:
        # The id of an executed graph has had three names; a node's own id tells at least that a graph launched it.
        graph = raw["graphExecId"]
        for name in ("graphId", "graphNodeId"):
            graph = np.where((graph == MISSING) | (graph == 0), raw[name], graph)
        process = raw["globalPid"]
        return {
            "start_ns": raw["start"],
            "end_ns": raw["end"],
            "process": to_nullable(np.where(process == MISSING, MISSING, process >> THREAD_BITS)),
            "device": to_nullable(raw["deviceId"]),
            "stream": to_nullable(raw["streamId"]),
            "correlation": to_nullable(np.where(raw["correlationId"] == 0, MISSING, raw["correlationId"])),
            "graph": to_nullable(np.where(graph == 0, MISSING, graph)),
            "node": to_nodes(raw["graphNodeId"]),
        }

    def _launch_graphs(self, raw: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        tables, unknown = find_graph_launches(raw)
        if unknown:
            self.export.warn(f"{unknown} kernels and copies of CUDA graphs cannot be joined to the launches of these graphs")
        return tables

    def _number_devices(self, raw: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """Give each GPU one number in all processes: a process counts only the GPUs that it sees."""
        gpus: dict[tuple[int, int], int] = {}
        for pid, cuda, gpu in self.export.select("TARGET_INFO_CUDA_DEVICE", pid=int, cudaId=int, gpuId=int | None):
            if gpu is not None and gpus.setdefault((pid, cuda), gpu) != gpu:
                raise self.export.damaged(f"TARGET_INFO_CUDA_DEVICE: GPU {cuda} of process {pid} is two")
        numbered = {name: replace_devices(raw[name], gpus) for name in ("kernels", "copies", "memory")}
        names = dict(self.export.select("TARGET_INFO_GPU", id=int, name=str | None))
        seen = {device for table in numbered.values() for device in pc.unique(table["device"]).drop_null().to_pylist()}
        devices = sorted(seen | set(names))
        columns = [pa.array(devices, pa.int32()), pa.array([names.get(device) for device in devices], pa.string())]
        return {**numbered, "devices": pa.table(columns, ["device", "name"])}

    def _main_threads(self, raw: Mapping[str, pa.Table]) -> dict[int, int]:
        """Return each process' first thread: the one that has the process' own number."""
        tables = ("ranges", "api", "osrt", "library", "python_samples")
        processes = {number for name in tables for number in pc.unique(raw[name]["process"]).to_pylist()}
        return {number: main_thread(number) for number in processes if number is not None}

    def _thread_names(self) -> dict[int, str]:
        rows = self.export.select("ThreadNames", globalTid=int | None, nameId=int)
        return {thread: self.strings.get(name) or "" for thread, name in rows if thread is not None}

    def _memory_kinds(self) -> dict[int, str]:
        names = self._read_enum("ENUM_CUDA_MEM_KIND", "CUDA_MEMOPR_MEMORY_KIND_", MEMORY_KINDS)
        return {number: memory_kind(name) for number, name in names.items()}

    def _read_enum(self, table: str, prefix: str, default: list[str]) -> dict[int, str]:
        """Return an enumeration's names without their common prefix, by number."""
        names = self.export.select_map(table, "id", "name", str)
        return {number: name.removeprefix(prefix) for number, name in names.items()} or dict(enumerate(default))

    def _look_up(self, ids: Integers, what: str) -> pa.DictionaryArray:
        """Return the strings with these ids; null for an unknown id."""
        distinct, positions = find_distinct(ids)
        texts = [self.strings.get(number) for number in distinct]
        known = np.array([text is not None for text in texts], dtype=bool)
        self.export.warn_of(~known[positions] & (ids != MISSING), f"{what} have names that the table of strings lacks")
        return encode_names(np.where(known[positions], positions, -1), [text or "" for text in texts])

    def _first_column(self, table: str, *names: str) -> str:
        return next((name for name in names if self.export.has(table, name)), names[0])


_GPU_COLUMNS = (
    "start", "end", "globalPid", "deviceId", "streamId", "correlationId", "graphExecId", "graphId", "graphNodeId",
)  # fmt: skip


def _is_range(raw: Mapping[str, Integers]) -> np.ndarray:
    return np.isin(raw["eventType"], list(RANGE_KINDS))


def _is_no_marker(raw: Mapping[str, Integers]) -> np.ndarray:
    """Leave out the events in which nsys notes the start and end of its own tracing."""
    return ~np.isin(raw["eventClass"], TRACING_MARKERS)
