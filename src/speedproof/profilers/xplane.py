"""XPlane files, which xprof reads, into a trace: a plane is a device or the host, a line of it a stream or a thread.

Of a GPU the lines of its streams are read: what XLA derives of these, such as its modules, are the same events again. On the
host, an event with a correlation id is a call of CUDA. One whose name begins with a dollar sign is a Python function, and is
left out. Any other is a range. XLA saves times from the start of the profile on.
"""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

from speedproof.profilers.event_tables import join_rows, write_events
from speedproof.results.trace_tables import TraceInfo
from speedproof.util.errors import RecordError

_GPU, _OTHER_DEVICE = re.compile(r"/device:GPU:(\d+).*"), re.compile(r"/device:(?!GPU:)(\w+):\d+.*")
_HOST = "/host:CPU"
_STREAM = re.compile(r"Stream #(\d+).*")
_COPY = re.compile(r"Memcpy([HDP])(?:to|2)([HDP]).*")
_DETAIL = re.compile(r"(\w+):(\S+)")
_EXACT_NS = 1 << 53  # xprof gives times as floats, which hold no larger whole numbers
_PROCESS = 1  # a file is of one process
_MAIN = ("python", "MainThread")  # as lines of main threads are called
_MEMORIES = {"pageable", "pinned", "device", "managed"}


def convert_xplane(path: Path, folder: Path) -> TraceInfo:
    """Convert an XPlane file to a trace in `folder`; raise a :class:`RecordError` if it cannot be read right."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in ("ranges", "kernels", "copies", "api")}
    devices, others, main_threads, threads = set[int](), set[str](), dict[int, int](), dict[int, str]()
    for plane in _read_planes(path):
        if gpu := _GPU.fullmatch(plane.name):
            devices.add(int(gpu[1]))
            for name, found in _list_work(path, plane, int(gpu[1])):
                rows[name].append(found)
        elif plane.name == _HOST:
            for number, line in enumerate(plane.lines):
                threads[number] = line.name
                if line.name in _MAIN:
                    main_threads.setdefault(_PROCESS, number)
                for name, found in _list_calls(path, line, number):
                    rows[name].append(found)
        elif other := _OTHER_DEVICE.fullmatch(plane.name):
            others.add(other[1])
    if others and not devices:
        raise RecordError(path, f": holds work of a {', '.join(sorted(others))}; only that of GPUs is read")
    if not any(rows.values()):
        raise RecordError(path, ": holds no kernels, calls or ranges, or is not an XPlane file; profile the run again")
    raw = {name: join_rows(name, found) for name, found in rows.items()}
    numbers = sorted(devices)
    raw["devices"] = pa.table({"device": pa.array(numbers, pa.int32()), "name": pa.nulls(len(numbers), pa.string())})
    warnings = [f"work of a {other} is not read" for other in sorted(others)]
    info = TraceInfo(profiler="xplane", profiler_version="unknown", source_schema="xplane", rows={}, warnings=warnings)
    try:
        return write_events(folder, raw, main_threads, threads, info)
    except ValueError as error:  # an event that cannot be
        raise RecordError(path, f": damaged ({error}); profile the run again") from None


def _read_planes(path: Path) -> tuple[Any, ...]:
    try:
        reader = import_module("xprof.profile_data").ProfileData
    except ImportError as error:
        raise RecordError(path, f": xprof reads this file, and cannot be imported ({error}); `pip install xprof`") from None
    try:
        return tuple(reader.from_serialized_xspace(path.read_bytes()).planes)
    except (OSError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:160]
        raise RecordError(path, f": xprof cannot read it ({reason}); is it whole? profile the run again") from None


def _list_work(path: Path, plane: Any, device: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each kernel and copy of a GPU's streams, with its table."""
    for line in plane.lines:
        if not (stream := _STREAM.fullmatch(line.name)):
            continue
        for event in line.events:
            stats = dict(event.stats)
            place = {"device": device, "stream": int(stream[1]), "graph": None, **_read_event(path, event, stats)}
            if event.name.startswith(("Memcpy", "Memset")):
                yield "copies", {**place, **_read_copy(event.name, stats)}
            else:
                yield "kernels", {**place, "name": event.name}


def _list_calls(path: Path, line: Any, thread: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each call and range of a thread, with its table."""
    for event in line.events:
        if event.name.startswith("$"):
            continue
        call = {**_read_event(path, event, dict(event.stats)), "thread": thread, "name": event.name}
        if call["correlation"] is not None:
            yield "api", call
        else:
            yield "ranges", {**call, "end_thread": thread, "domain": 0, "kind": "push_pop"}


def _read_event(path: Path, event: Any, stats: dict[str, str]) -> dict[str, Any]:
    end_ns = event.start_ns + event.duration_ns
    if not 0 <= end_ns <= _EXACT_NS:
        raise RecordError(
            path, ": counts its times from 1970, which xprof rounds to 256 ns; profile the run again, with JAX or TensorFlow"
        )
    correlation = int(stats.get("correlation_id", 0)) or None
    return {"start_ns": round(event.start_ns), "end_ns": round(end_ns), "process": _PROCESS, "correlation": correlation}


def _read_copy(name: str, stats: dict[str, str]) -> dict[str, Any]:
    """Return what a copy or fill moves, as `memcpy_details` says it: "kind_src:pageable kind_dst:device size:64"."""
    details = dict(_DETAIL.findall(stats.get("memcpy_details") or stats.get("memset_details") or ""))
    source, target = (details.get(end, "").lower() for end in ("kind_src", "kind_dst"))
    ends = _COPY.fullmatch(name)
    size = details.get("size") or details.get("num_bytes") or ""
    return {
        "bytes": int(size) if size.isdigit() else None,
        "kind": f"{ends[1]}to{ends[2]}" if ends else "memset" if name.startswith("Memset") else "unknown",
        "source_memory": source if source in _MEMORIES else "unknown",
        "target_memory": target if target in _MEMORIES else "unknown",
    }
