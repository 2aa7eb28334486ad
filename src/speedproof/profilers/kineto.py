"""The built-in profiler: torch's own (kineto), together with the loop's recorded ranges, into the same trace that nsys gives.

Its numbers are labelled as kineto's wherever they appear: it slows the CPU more than nsys does, sees only ranges of
worker processes, and no system calls.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from speedproof.profilers.chrome_columns import (
    ON_DEVICE,
    EventColumns,
    is_number,
    read_arguments,
    read_integer,
    read_nanoseconds,
    read_size,
    read_system_id,
)
from speedproof.profilers.chrome_events import ChromeHead, stream_events
from speedproof.profilers.collectives import Collectives, RankInfo, read_rank
from speedproof.profilers.event_tables import Integers, RawClock, write_events
from speedproof.profilers.host_calls import join_host_calls, name_function
from speedproof.profilers.producers import refuse_others
from speedproof.profilers.ranges import RecordedRange
from speedproof.profilers.torch_format import KINETO
from speedproof.profilers.torch_hook import EXPORT_SUFFIX
from speedproof.profilers.traced_devices import read_devices
from speedproof.profilers.traced_flop import count_traced
from speedproof.results.trace_tables import TABLES, GpuTracing, TraceInfo
from speedproof.util.errors import ProfilingError

CLOCK_MARK = "speedproof clock"
MARKS = 20  # at either end; the tightest of them counts

# Kineto's categories of events, and the table that each belongs to.
_CATEGORIES = {
    "kernel": "kernels",
    "gpu_memcpy": "copies",
    "gpu_memset": "copies",
    "cuda_runtime": "api",
    "cuda_driver": "api",
    "cpu_op": "operators",
    "python_function": "host_calls",
    "overhead": "overhead",
}

# Categories as any version of torch.profiler writes them, in small letters.
_FOREIGN = {
    **_CATEGORIES,
    "memcpy": "copies",
    "memset": "copies",
    "runtime": "api",
    "operator": "operators",
    "user_annotation": "ranges",
    "xpu_runtime": "api",
    "xpu_driver": "api",
}
_SHOWN = ("X", "B", "i", "I", "C", "s", "b")  # phases of events that a window of Chrome's format shows at their time
# Categories of other accelerators' events.
_UNREAD = re.compile(r"(mtia|glow|hpu|privateuse1)_\w+")
_MOST_KINDS = 5  # named of those that are not read
# What PyTorch marks by itself was an operator in older versions.
_MARKED_BY_TORCH = re.compile(r"ProfilerStep#|Optimizer\.|enumerate\(DataLoader\)")


class ClockMark:
    """A moment on the recorder's clock, known to lie between two readings around the start of a kineto event."""

    def __init__(self, before_ns: int, inside_ns: int) -> None:
        self.middle_ns = (before_ns + inside_ns) // 2
        self.width_ns = inside_ns - before_ns


def convert_kineto(
    chrome_trace: Path,
    ranges: Sequence[RecordedRange],
    marks: list[ClockMark],
    devices: pa.Table,
    version: str,
    folder: Path,
) -> None:
    """Write what torch's profiler of a `version` recorded in this process, with the loop's own ranges, as a trace.

    `marks` tie the profiler's clock to the recorder's; `devices` are the GPUs that were there, as :data:`TABLES` has them.

    Raises:
        ProfilingError: the events cannot be understood.
    """
    events = EventColumns([*_CATEGORIES.values(), "flop"])
    collectives = Collectives()
    marked_ns: list[int] = []
    thread_names: dict[int, str] = {}
    main_threads = {number: number for number in {os.getpid(), *(ended.process for ended in ranges)}}
    try:
        for event in stream_events(chrome_trace):
            table = _CATEGORIES.get(event.get("cat", ""))
            if table is not None and event.get("ph") == "X":
                _add(events, table, event, collectives)
            elif event.get("name") == CLOCK_MARK and event.get("cat") == "user_annotation":
                marked_ns.append(read_nanoseconds(event, "ts"))
            elif event.get("name") == "thread_name" and isinstance(event.get("tid"), int):
                thread_names[event["tid"]] = str(read_arguments(event).get("name", "")).rpartition("(")[2].rstrip(")")
        raw = _make_tables(events, os.getpid())
        raw |= {"ranges": _make_ranges(ranges, marks, sorted(marked_ns)), "devices": devices}
        raw["collectives"] = collectives.make_table(RankInfo(), raw["kernels"])
        write_events(folder, raw, main_threads, thread_names, _about(version, "on", []))
    except (ValueError, OverflowError, pa.ArrowException) as error:
        raise ProfilingError(f"torch.profiler gave invalid events ({' '.join(str(error).split())}); run again") from None


def convert_chrome(path: Path, folder: Path, gpu_tracing: GpuTracing | None = None) -> TraceInfo:
    """Convert what torch.profiler exported of anyone's program (`export_chrome_trace`) to a trace in `folder`.

    Annotations are its ranges (`record_function`, a profiler's steps, what PyTorch itself marks), operators its operators.
    `gpu_tracing` is known of one's own recordings; None: the file tells, as far as it does.

    Raises:
        ProfilingError: the events cannot be understood, or they are of several processes.
    """
    try:
        return _read_foreign(path).write(folder, gpu_tracing)
    except (ValueError, OverflowError, pa.ArrowException) as error:
        raise ProfilingError(f"{path}: invalid events ({' '.join(str(error).split())[:160]}); export it again") from None


@dataclass
class _Foreign:
    """What a file of torch.profiler's holds."""

    path: Path
    events: EventColumns
    processes: set[int]
    first: dict[str, Any]  # a trace's window opens with its first event, whether or not it is read here
    unread: Counter[str]  # events of no table, by their category
    collectives: Collectives
    count: int = 0  # of all events

    def write(self, folder: Path, gpu_tracing: GpuTracing | None) -> TraceInfo:
        if len(self.processes) > 1:
            raise ProfilingError(
                f"{self.path}: holds events of {len(self.processes)} processes; give the file of one, as each rank exports it"
            )
        process, head = next(iter(self.processes), 0), ChromeHead(self.path)
        info = _about("unknown", gpu_tracing or self._find_gpu_tracing(head), list(self._list_warnings()))
        clock = RawClock(read_nanoseconds(self.first, "ts", 0), head.base_time_ns)
        rank = read_rank(head.text)
        info = info.model_copy(update=rank._asdict())
        raw = _make_tables(self.events, process) | {"devices": read_devices(head.text)}
        raw["collectives"] = self.collectives.make_table(rank, raw["kernels"])
        if _are_repeated(raw["kernels"]):
            raise ProfilingError(f"{self.path}: holds the same kernels twice or more; give it as torch.profiler exported it")
        return write_events(folder, raw, {process: process}, {}, info, clock)

    def _find_gpu_tracing(self, head: ChromeHead) -> GpuTracing:
        if any(map(_UNREAD.fullmatch, self.unread)):
            return "unread"
        if self.events.count("api", *ON_DEVICE):
            return "on"
        return "unseen" if head.names_no_gpu else "unknown"

    def _list_warnings(self) -> Iterator[str]:
        if dropped := self.events.drop_untimed():
            yield f"{dropped} GPU events have no time, which the profiler lost: they are left out"
        if count := sum(self.unread[kind] for kind in self.unread if _UNREAD.fullmatch(kind)):
            yield f"{count} events of another accelerator are not read: {_list_kinds(filter(_UNREAD.fullmatch, self.unread))}"
        elif self.unread and not self.events.count(*_FOREIGN.values()):
            yield f"none of its {self.unread.total()} events is of a kind that is read; there are {_list_kinds(self.unread)}"


def _read_foreign(path: Path) -> _Foreign:
    found = _Foreign(path, EventColumns([*_FOREIGN.values(), "flop"]), set(), {}, Counter(), Collectives())
    for event in stream_events(path):
        if event.get("ph") in _SHOWN and is_number(ts := event.get("ts")):
            found.first = event if not found.first or ts < found.first["ts"] else found.first
        table, found.count = _find_foreign_table(event), found.count + 1
        if table is None:
            refuse_others(path, event, KINETO.name)
            if event.get("ph") in _SHOWN:
                found.unread[_name_kind(event)] += 1
            continue
        event |= {name: read_system_id(event.get(name)) for name in ("pid", "tid")}
        if table not in ON_DEVICE and event["tid"] is None:
            continue
        _add(found.events, table, event, found.collectives)
        if table in ("api", "ranges") and event["pid"] is not None:
            found.processes.add(event["pid"])
    if not found.count:
        raise ProfilingError(f"{path}: holds no events; profile again")
    return found


def _name_kind(event: dict[str, Any]) -> str:
    """Return what events of a kind that is not read are called: their category, and their form if that is the reason."""
    kind = str(event.get("cat", "events without a category"))
    return f"{kind}, ph {event['ph']}" if event["ph"] != "X" and kind.lower() in _FOREIGN else kind


def _are_repeated(kernels: pa.Table) -> bool:
    """Return whether a stream runs each kernel again at the same time, as if a file were joined to itself."""
    columns = ["start_ns", "end_ns", "device", "stream"]
    few = 2 * pc.count_distinct(kernels["start_ns"]).as_py() <= len(kernels)
    return len(kernels) > 1 and few and 2 * len(kernels.group_by(columns).aggregate([])) <= len(kernels)


def _list_kinds(kinds: Iterable[str]) -> str:
    listed = [f"`{kind[:40]}`" for kind in kinds]
    return ", ".join([*listed[:_MOST_KINDS], *["…"][: len(listed) - _MOST_KINDS]])


def _make_tables(events: EventColumns, process: int) -> dict[str, pa.Table]:
    raw = events.make_tables(process)
    operators, functions = raw["operators"], raw.pop("host_calls")
    others = [table for name, table in raw.items() if name not in ("operators", "flop") and "end_ns" in table.column_names]
    raw["host_calls"] = join_host_calls(operators, functions, others)
    known = raw["flop"]["flop"].is_valid()
    counted, unknown = (_outermost(raw["flop"].filter(which)) for which in (known, pc.invert(known)))
    return raw | {
        "operators": _outermost(raw["operators"]),
        "flop": pa.concat_tables([counted, _leave_out_covered(unknown, counted)]),
    }


def _about(version: str, gpu_tracing: GpuTracing, warnings: list[str]) -> TraceInfo:
    return TraceInfo(
        profiler=KINETO.name,
        profiler_version=version,
        source_schema="chrome",
        rows={},
        warnings=warnings,
        gpu_tracing=gpu_tracing,
    )


def _find_foreign_table(event: dict[str, Any]) -> str | None:
    """Return the table of an event of any version of torch.profiler; None: it is of none."""
    if event.get("ph") != "X":
        return None
    table = _FOREIGN.get(str(event.get("cat", "")).lower())
    return "ranges" if table == "operators" and _MARKED_BY_TORCH.match(str(event.get("name", ""))) else table


def convert_largest(exports: Path, folder: Path) -> None:
    """Convert the largest of a program's exports in `exports`, one of each process that imported torch, to a trace in `folder`.

    Raises:
        ProfilingError: there is none, or its events cannot be understood.
    """
    largest = max(exports.glob(f"*{EXPORT_SUFFIX}"), key=lambda path: path.stat().st_size, default=None)
    if largest is None:
        raise ProfilingError(
            "torch's profiler left no trace: the program imports no torch, profiles itself, or ends by os._exit or a signal"
        )
    convert_chrome(largest, folder, gpu_tracing="on")  # whatever its torch can trace, is traced


def _add(events: EventColumns, table: str, event: dict[str, Any], collectives: Collectives) -> None:
    values, arguments = _event_columns(table, event), read_arguments(event)
    events.add(table, values)
    collectives.add(table, values, arguments)
    if table == "operators" and (work := count_traced(values["name"], arguments)) is not None:
        events.add("flop", values | work)


def _event_columns(table: str, event: dict[str, Any]) -> dict[str, Any]:
    """Return an event's values for the columns of its table; kernels and copies lie on a device, the rest on a thread."""
    arguments, name = read_arguments(event), str(event.get("name", ""))
    start_ns = read_nanoseconds(event, "ts")
    values = {"start_ns": start_ns, "end_ns": start_ns + read_nanoseconds(event, "dur", 0), "name": name}
    if table in ON_DEVICE:
        values |= {name: read_integer(arguments, name) for name in ("device", "stream")}
        values["graph"] = read_integer(arguments, "graph id") or None
    else:
        values["thread"] = event.get("tid")
    if table == "host_calls":
        values |= {"name": name_function(name), "kind": "function"}
    if table == "ranges":
        values |= {"end_thread": values["thread"], "domain": 0, "kind": "push_pop"}
    if "correlation" in TABLES[table].names:
        values["correlation"] = read_integer(arguments, "correlation") or None
    if table == "copies":
        kind, source, target = _read_copy(name)
        values |= {"bytes": read_size(arguments), "kind": kind, "source_memory": source, "target_memory": target}
    return values


def _read_copy(name: str) -> tuple[str, str, str]:
    """Return kind, source's and target's memory of e.g. "Memcpy HtoD (Pageable -> Device)" or "Memset (Device)"."""
    operation, _, memories = name.partition(" (")
    kind = operation.removeprefix("Memcpy ").replace("Memset", "memset")
    source, arrow, target = memories.rstrip(")").lower().partition(" -> ")
    return (kind, source, target) if arrow else (kind, "unknown", source or "unknown")


def _outermost(operators: pa.Table) -> pa.Table:
    """Keep the operators that no other operator of their thread called: what those call in turn explains nothing more."""
    start_ns, end_ns, thread = (operators[name].to_numpy() for name in ("start_ns", "end_ns", "thread"))
    order = np.lexsort((-end_ns, start_ns, thread))
    kept = np.ones(len(order), dtype=bool)
    for number in np.unique(thread):
        mine = order[thread[order] == number]
        covered_ns = np.maximum.accumulate(end_ns[mine])
        kept[mine[1:]] = start_ns[mine[1:]] >= covered_ns[:-1]
    return operators.filter(pa.array(kept))


def _leave_out_covered(operators: pa.Table, others: pa.Table) -> pa.Table:
    """Keep the operators that neither hold nor lie in one of the others, which are disjoint on each thread."""
    start_ns, end_ns, thread = (operators[name].to_numpy() for name in ("start_ns", "end_ns", "thread"))
    kept = np.ones(len(thread), dtype=bool)
    for number in np.unique(thread):
        here, mine = others.filter(pc.equal(others["thread"], number)), thread == number
        begun = np.searchsorted(np.sort(here["start_ns"].to_numpy()), end_ns[mine])
        kept[mine] = begun <= np.searchsorted(np.sort(here["end_ns"].to_numpy()), start_ns[mine], side="right")
    return operators.filter(pa.array(kept))


def _make_ranges(ranges: Sequence[RecordedRange], marks: list[ClockMark], marked_ns: list[int]) -> pa.Table:
    columns = list(zip(*ranges, strict=True)) or [()] * len(RecordedRange._fields)
    names, kinds, start_ns, end_ns, process, thread = columns
    return pa.table(
        {
            "start_ns": _to_kineto_clock(np.array(start_ns, np.int64), marks, marked_ns),
            "end_ns": _to_kineto_clock(np.array(end_ns, np.int64), marks, marked_ns),
            "process": pa.array(process, pa.int64()),
            "thread": pa.array(thread, pa.int64()),
            "end_thread": pa.array(thread, pa.int64()),
            "domain": np.zeros(len(names), np.int64),
            "kind": pa.array(kinds, pa.string()).dictionary_encode(),
            "name": pa.array(names, pa.string()).dictionary_encode(),
        }
    )


def _to_kineto_clock(times_ns: Integers, marks: list[ClockMark], marked_ns: list[int]) -> Integers:
    """Translate the recorder's times by the tightest mark at either end: the clocks have an offset and, slightly, a drift."""
    if len(marked_ns) != len(marks):
        raise ProfilingError(f"torch.profiler kept {len(marked_ns)} of {len(marks)} clock marks; run again")
    pairs = list(zip(marks, marked_ns, strict=True))
    first, last = (min(half, key=lambda pair: pair[0].width_ns) for half in (pairs[:MARKS], pairs[MARKS:]))
    (start, kineto_start_ns), (end, kineto_end_ns) = first, last
    rate = (kineto_end_ns - kineto_start_ns) / (end.middle_ns - start.middle_ns)
    return kineto_start_ns + np.rint((times_ns - start.middle_ns) * rate).astype(np.int64)
