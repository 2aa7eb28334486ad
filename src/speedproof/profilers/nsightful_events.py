"""Reads nsightful's JSON of an nsys export: processes are devices (`Device 0`, `Host 0`), threads streams or the host's.

It has kernels, calls and ranges. `nsightful` assumes one process per device, so that `Host 1` is the process that uses GPU 1. A
kernel's launch is not in it, and `nvtx-kernel` shows its ranges once more.
"""

import re
from pathlib import Path
from typing import Any

import pyarrow as pa

from speedproof.profilers.chrome_columns import EventColumns, read_arguments, read_integer, read_nanoseconds
from speedproof.profilers.chrome_events import stream_events
from speedproof.profilers.event_tables import RawClock, write_events
from speedproof.profilers.nsightful_format import NSIGHTFUL
from speedproof.profilers.producers import refuse_others
from speedproof.results.trace_tables import TraceInfo
from speedproof.util.errors import ProfilingError

_TABLES = {"cuda": "kernels", "cuda_api": "api", "nvtx": "ranges"}
_NUMBER = re.compile(r"\d{1,9}$")
_VERSION = re.compile(r"_v\d{4,}$")  # of a CUDA call, as nsys names it
_THREADS_PER_PROCESS = 1 << 40


def convert_nsightful(path: Path, folder: Path) -> TraceInfo:
    """Convert nsightful's JSON to a trace in `folder`.

    Raises:
        ProfilingError: the events cannot be understood.
    """
    events, main_threads = EventColumns(_TABLES.values()), dict[int, int]()
    try:
        for event in stream_events(path):
            table = _TABLES.get(str(event.get("cat")))
            if table is None or event.get("ph") != "X":
                refuse_others(path, event, NSIGHTFUL.name)
                continue
            values = _read_values(table, event)
            events.add(table, values)
            if table != "kernels":
                process, thread = values["process"], values["thread"]
                main_threads[process] = min(thread, main_threads.get(process, thread))
        info = TraceInfo(
            profiler=NSIGHTFUL.name,
            profiler_version="unknown",
            source_schema="chrome",
            rows={},
            warnings=[],
            gpu_tracing="on" if events.count("kernels", "api") else "unknown",
        )
        return write_events(folder, events.make_tables(0), main_threads, {}, info, RawClock(0))
    except (ValueError, OverflowError, pa.ArrowException) as error:
        raise ProfilingError(f"{path}: invalid events ({' '.join(str(error).split())[:160]}); export it again") from None


def _read_values(table: str, event: dict[str, Any]) -> dict[str, Any]:
    start_ns = read_nanoseconds(event, "ts")
    device, line = _read_place(event, "pid"), _read_place(event, "tid")
    name = str(event.get("name") or "")
    values = {"start_ns": start_ns, "end_ns": start_ns + read_nanoseconds(event, "dur", 0), "process": device, "name": name}
    if table == "kernels":
        return values | {"device": device, "stream": line, "correlation": None, "graph": None}
    thread = device * _THREADS_PER_PROCESS + line
    if table == "api":
        correlation = read_integer(read_arguments(event), "correlationId")
        return values | {"thread": thread, "correlation": correlation, "name": _VERSION.sub("", name)}
    return values | {"thread": thread, "end_thread": thread, "domain": 0, "kind": "push_pop"}


def _read_place(event: dict[str, Any], key: str) -> int:
    """Return the number at the end of `Device 0`, `NVTX 4711` and the like."""
    number = _NUMBER.search(str(event.get(key)))
    if number is None:
        raise ValueError(f"an event whose {key} ends in no number: {str(event.get(key))[:40]}")
    return int(number[0])
