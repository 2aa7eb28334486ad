"""What `rocprofv3 --output-format json` writes, into a trace: an entry per process, with the events of each kind in a list.

A record gives its kind and its operation as positions in lists of names, and a kernel as its number among the symbols. The
text of a marker has the marker's correlation id ("Using rocprofv3", "JSON output schema").
"""

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from speedproof.profilers.chrome_events import UNPACKED_PER_BYTE, UNPACKED_SPARE
from speedproof.profilers.event_tables import join_rows, write_events
from speedproof.profilers.trace_format import find_encoding, is_gzip
from speedproof.results.trace_tables import TraceInfo
from speedproof.util.errors import RecordError

_GPU = 2  # the type of an agent
_THREAD_BITS = 32  # a thread's number is its own and its process': no two processes share one
_COPY = re.compile(r"(?:MEMORY_COPY_)?(HOST|DEVICE)_TO_(HOST|DEVICE)")
_START_END = re.compile(r"roctx(RangeStart|ProcessRange).*")
_AGAIN = "run `rocprofv3 --output-format json` again"


def convert_rocprof(path: Path, folder: Path) -> TraceInfo:
    """Convert a file of rocprofv3 to a trace in `folder`; raise a :class:`RecordError` if it is broken."""
    processes = _read_processes(path)
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in ("ranges", "kernels", "copies", "api")}
    names: dict[int, str | None] = {}
    version = "unknown"
    try:
        for content in processes:
            process = _Process(content)
            version = str(content.get("metadata", {}).get("build_spec", {}).get("git_describe", version))
            names |= process.device_names
            for name, found in process.list_events():
                rows[name].append(found)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else error
        raise RecordError(path, f": not as rocprofv3 writes it ({reason}); {_AGAIN}") from None
    if not any(rows.values()):
        raise RecordError(path, ": holds no kernels, copies, HIP calls or markers; run `rocprofv3 --sys-trace` on the program")
    info = TraceInfo(profiler="rocprof", profiler_version=version, source_schema="json", rows={}, warnings=[])
    raw = {name: join_rows(name, found) for name, found in rows.items()}
    raw["devices"] = pa.table({"device": pa.array(names, pa.int32()), "name": pa.array(names.values(), pa.string())})
    pids = {row["process"] for found in rows.values() for row in found}
    try:
        return write_events(folder, raw, {pid: _number_thread(pid, pid) for pid in pids}, {}, info)
    except ValueError as error:  # an event that cannot be
        raise RecordError(path, f": damaged ({error}); {_AGAIN}") from None


def _read_processes(path: Path) -> list[dict[str, Any]]:
    most = UNPACKED_SPARE + UNPACKED_PER_BYTE * path.stat().st_size
    try:
        with (gzip.open if is_gzip(path) else open)(path, "rt", encoding=find_encoding(path), errors="replace") as file:
            text = file.read(most + 1)
        if len(text) > most:
            raise RecordError(path, f": unpacks to more than {UNPACKED_PER_BYTE} times its size; unpack it first (gunzip)")
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise RecordError(path, f": broken JSON (line {error.lineno}, column {error.colno}: {error.msg}); {_AGAIN}") from None
    except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
        raise RecordError(path, f": not readable ({getattr(error, 'strerror', None) or error}); {_AGAIN}") from None
    found = content.get("rocprofiler-sdk-tool") if isinstance(content, dict) else None
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise RecordError(path, f": no list rocprofiler-sdk-tool; {_AGAIN}")
    return found


class _Process:
    """One process' entry."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.pid = int(content["metadata"]["pid"])
        self._records = content["buffer_records"]
        strings = content.get("strings", {})
        self._kinds = strings.get("buffer_records", [])
        self._messages = {one["key"]: one["value"] for one in strings.get("marker_api", [])}
        self._kernels = {one["kernel_id"]: one for one in content.get("kernel_symbols", [])}
        gpus = sorted((one for one in content.get("agents", []) if one["type"] == _GPU), key=lambda one: one["node_id"])
        self._devices = {one["id"]["handle"]: number for number, one in enumerate(gpus)}
        self.device_names = {number: one.get("product_name") or one.get("name") for number, one in enumerate(gpus)}

    def list_events(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each event's table and its row."""
        for record in self._records.get("hip_api", []):
            yield "api", {**self._read_call(record), "name": self._name_operation(record)}
        for record in self._records.get("marker_api", []):
            yield from self._read_marker(record)
        for record in self._records.get("kernel_dispatch", []):
            about = record["dispatch_info"]
            place = self._place(record, about["agent_id"], about["queue_id"])
            yield "kernels", {**self._read_call(record), **place, "name": self._name_kernel(about["kernel_id"])}
        for record in self._records.get("memory_copy", []):
            yield "copies", {**self._read_call(record), **self._read_copy(record)}

    def _read_call(self, record: dict[str, Any]) -> dict[str, Any]:
        return {
            "start_ns": record["start_timestamp"],
            "end_ns": record["end_timestamp"],
            "process": self.pid,
            "thread": _number_thread(self.pid, record.get("thread_id", self.pid)),
            "correlation": record["correlation_id"]["internal"] or None,
        }

    def _read_marker(self, record: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield a range; a mark has no length, and other calls of ROCTx no message."""
        call = self._read_call(record)
        message = self._messages.get(call["correlation"])
        if message is not None and call["start_ns"] < call["end_ns"]:
            kind = "start_end" if _START_END.fullmatch(self._name_operation(record)) else "push_pop"
            yield "ranges", {**call, "end_thread": call["thread"], "domain": 0, "kind": kind, "name": message}

    def _read_copy(self, record: dict[str, Any]) -> dict[str, Any]:
        ends = _COPY.fullmatch(self._name_operation(record))
        memory = [{"HOST": "unknown", "DEVICE": "device"}[end] for end in ends.groups()] if ends else ["unknown", "unknown"]
        on_gpu = record["dst_agent_id"] if record["dst_agent_id"]["handle"] in self._devices else record["src_agent_id"]
        return {
            **self._place(record, on_gpu, {"handle": 0}),
            "bytes": record.get("bytes"),
            "kind": f"{ends[1][0]}to{ends[2][0]}" if ends else "unknown",
            "source_memory": memory[0],
            "target_memory": memory[1],
        }

    def _place(self, record: dict[str, Any], agent: dict[str, Any], queue: dict[str, Any]) -> dict[str, Any]:
        stream = record.get("stream_id", {}).get("handle") or queue["handle"]
        return {"device": self._devices.get(agent["handle"]), "stream": stream, "graph": None}

    def _name_operation(self, record: dict[str, Any]) -> str:
        operations = self._kinds[record["kind"]]["operations"]
        return str(operations[record["operation"]])

    def _name_kernel(self, number: int) -> str:
        about = self._kernels.get(number, {})
        found = (about.get(f"{form}kernel_name") for form in ("formatted_", "demangled_", ""))
        return next((str(name) for name in found if name), "unknown")


def _number_thread(pid: int, thread: int) -> int:
    return pid << _THREAD_BITS | thread
