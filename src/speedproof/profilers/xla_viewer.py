"""Reads what XLA's profiler writes for its trace viewer: a process per device, and in it a thread per stream.

A process named `/device:GPU:0` is a GPU, its threads named `Stream #13(Compute)` are its streams; its other threads (`XLA Ops`,
`Steps`) show the same work once more. `/host:CPU` has what the host does.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from speedproof.profilers.chrome_columns import EventColumns, read_arguments, read_integer, read_nanoseconds, read_system_id
from speedproof.profilers.chrome_events import stream_events
from speedproof.profilers.event_tables import RawClock, write_events
from speedproof.profilers.producers import refuse_others
from speedproof.profilers.xla_format import XLA
from speedproof.results.trace_tables import TraceInfo
from speedproof.util.errors import ProfilingError

_DEVICE, _GPU = re.compile(r"/device:\w+:\S+"), re.compile(r"/device:GPU:(\d{1,6})\b", re.IGNORECASE)
_HOST = "/host:CPU"
_STREAM = re.compile(r"Stream #(\d{1,18})\b")
_CALL = re.compile(r"(cu|cuda|hip)[A-Z]\w+")
_COPY = re.compile(r"Memcpy([HDAP])(?:to|2)?([HDAP])|Memset", re.IGNORECASE)
_MEMORY = re.compile(r"kind_src:(\w+) kind_dst:(\w+) size:(\d{1,18})\b")
_MEMORIES = ("pageable", "pinned", "device", "managed")
_FRAME = "$"  # before the place in the source, in the name of a Python function that was sampled
# By the trace's numbers, host processes count from here; threads of several processes must differ.
_THREADS_PER_PROCESS = 1 << 40


def convert_xla(path: Path, folder: Path) -> TraceInfo:
    """Convert the file for XLA's trace viewer to a trace in `folder`.

    Raises:
        ProfilingError: the events cannot be understood.
    """
    reading = _Reading()
    try:
        for event in stream_events(path):
            refuse_others(path, event, XLA.name)
            reading.add(event)
        return reading.write(folder)
    except (ValueError, OverflowError, pa.ArrowException) as error:
        raise ProfilingError(f"{path}: invalid events ({' '.join(str(error).split())[:160]}); export it again") from None


@dataclass
class _Reading:
    """What was read so far. Names come before the events of what they name."""

    events: EventColumns = field(default_factory=lambda: EventColumns(("kernels", "copies", "api", "ranges")))
    processes: dict[int, str] = field(default_factory=dict)
    threads: dict[tuple[int, int], str] = field(default_factory=dict)
    unread: dict[str, int] = field(default_factory=dict)  # events of accelerators other than GPUs
    first_ns: int | None = None

    def add(self, event: dict[str, Any]) -> None:
        process, thread = read_system_id(event.get("pid")), read_system_id(event.get("tid"))
        if process is None:
            return
        if event.get("ph") == "M":
            name = str(read_arguments(event).get("name", ""))
            if event.get("name") == "process_name":
                self.processes[process] = name
            elif event.get("name") == "thread_name" and thread is not None:
                self.threads[process, thread] = name
        elif event.get("ph") == "X" and thread is not None:
            self._add_complete(event, process, thread)

    def _add_complete(self, event: dict[str, Any], process: int, thread: int) -> None:
        start_ns = read_nanoseconds(event, "ts")
        self.first_ns = start_ns if self.first_ns is None else min(start_ns, self.first_ns)
        times = {"start_ns": start_ns, "end_ns": start_ns + read_nanoseconds(event, "dur", 0)}
        name = self.processes.get(process, "")
        if gpu := _GPU.search(name):
            if stream := _STREAM.match(self.threads.get((process, thread), "")):
                self._add_on_gpu(event, times | {"device": int(gpu[1]), "stream": int(stream[1])})
        elif device := _DEVICE.search(name):
            self.unread[device[0]] = self.unread.get(device[0], 0) + 1
        else:
            self._add_on_host(event, times, process, thread)

    def _add_on_host(self, event: dict[str, Any], times: dict[str, int], process: int, thread: int) -> None:
        name = str(event.get("name", ""))
        if not name or name.startswith(_FRAME):
            return
        place = {"process": process, "thread": process * _THREADS_PER_PROCESS + thread}
        if _CALL.fullmatch(name):
            self.events.add("api", times | place | {"name": name, "correlation": _read_correlation(event)})
        else:
            values = {"name": _number_step(name, event), "end_thread": place["thread"], "domain": 0, "kind": "push_pop"}
            self.events.add("ranges", times | place | values)

    def _add_on_gpu(self, event: dict[str, Any], values: dict[str, Any]) -> None:
        name = str(event.get("name", ""))
        values |= {"process": self._host(), "correlation": _read_correlation(event), "graph": None}
        copy = _COPY.match(name)
        if copy is None:
            self.events.add("kernels", values | {"name": name})
            return
        memory = _MEMORY.search(str(read_arguments(event).get("memcpy_details", "")))
        source, target = (kind if kind in _MEMORIES else "unknown" for kind in (memory.groups()[:2] if memory else ("", "")))
        kind = f"{copy[1].upper()}to{copy[2].upper()}" if copy[1] else "memset"
        size = int(memory[3]) if memory else None
        self.events.add("copies", values | {"bytes": size, "kind": kind, "source_memory": source, "target_memory": target})

    def _host(self) -> int:
        """Return the process that uses the GPUs: that of the host's events."""
        hosts = {number: name for number, name in self.processes.items() if not _DEVICE.search(name)}
        return next((number for number, name in hosts.items() if name.startswith(_HOST)), next(iter(hosts), 0))

    def write(self, folder: Path) -> TraceInfo:
        raw = self.events.make_tables(self._host())
        info = TraceInfo(
            profiler=XLA.name,
            profiler_version="unknown",
            source_schema="trace viewer",
            rows={},
            warnings=list(self._list_warnings()),
            gpu_tracing="unread" if self.unread else "unknown",
        )
        clock = RawClock(0 if self.first_ns is None else self.first_ns)
        return write_events(folder, raw, self._find_main_threads(), {}, info, clock)

    def _find_main_threads(self) -> dict[int, int]:
        """Return the thread of each process that runs Python, else its first one."""
        found: dict[int, int] = {}
        for (process, thread), name in self.threads.items():
            if process not in found or name.startswith(("python", "MainThread")):
                found[process] = process * _THREADS_PER_PROCESS + thread
        return found

    def _list_warnings(self) -> Iterator[str]:
        for device, count in self.unread.items():
            yield f"{count} events of {device} are not read: only GPUs are"


def _read_correlation(event: dict[str, Any]) -> int | None:
    """Return the number that joins a kernel and its launch, which XLA writes as a text."""
    value = read_arguments(event).get("correlation_id")
    return read_integer({"correlation": read_system_id(value) if isinstance(value, str) else value}, "correlation") or None


def _number_step(name: str, event: dict[str, Any]) -> str:
    """Return a range's name with the step's number, which XLA keeps beside it."""
    number = read_arguments(event).get("step_num")
    return name if number is None else f"{name} #{str(number)[:20]}"
