"""The built-in profiler: torch's own (kineto), together with the loop's recorded ranges, into the same trace that nsys gives.

Its numbers are labelled as kineto's wherever they appear: it slows the CPU more than nsys does, sees only ranges of
worker processes, and no system calls.
"""

import gzip
import json
import os
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from speedproof.profilers.event_tables import Integers, RawClock, write_events
from speedproof.profilers.host_calls import join_host_calls, name_function
from speedproof.profilers.ranges import RecordedRange
from speedproof.profilers.torch_format import KINETO
from speedproof.profilers.torch_hook import EXPORT_SUFFIX
from speedproof.results.trace_tables import TABLES, TraceInfo
from speedproof.util.errors import ProfilingError

CLOCK_MARK = "speedproof clock"
MARKS = 20  # at either end; the tightest of them counts
_CHUNK = 1 << 20  # characters
_LONGEST_US = 1 << 53  # since 1970, from which kineto may count; more is not a valid time
_LARGEST = (1 << 63) - 1  # of a column
_LONGEST_HEAD = 1 << 12  # characters between the key of the events and their list
# What reading a file may take, by its size: a few bytes may unpack to gigabytes, and an event is read as a whole.
_LONGEST_EVENT = 1 << 24  # characters
_UNPACKED_PER_BYTE, _UNPACKED_SPARE = 100, 32 << 20  # real traces unpack to 10 to 50 times their size
_BETWEEN = re.compile(r"[\s,]*")
_PROCESS_OR_THREAD = re.compile(r"-?[0-9]{1,18}")
_EVENTS_START = re.compile(r'"traceEvents"\s*:\s*\[')
_BASE_TIME = re.compile(r'"baseTimeNanoseconds"\s*:\s*(\d{1,19})\b')

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
}
_SHOWN = ("X", "B", "i", "I", "C", "s", "b")  # phases of events that a window of Chrome's format shows at their time
_TEXT = ("utf-8", "replace")  # encoding, and what to do with what is none
_LEVEL = 9  # of packing, which reading does not ask for
_ON_DEVICE = ("kernels", "copies")
# What PyTorch marks by itself was an operator in older versions.
_MARKED_BY_TORCH = re.compile(r"ProfilerStep#|Optimizer\.|enumerate\(DataLoader\)")


class ClockMark:
    """A moment on the recorder's clock, known to lie between two readings around the start of a kineto event."""

    def __init__(self, before_ns: int, inside_ns: int) -> None:
        self.middle_ns = (before_ns + inside_ns) // 2
        self.width_ns = inside_ns - before_ns


class _Events:
    """Events by the table that they belong to, as columns."""

    def __init__(self, tables: Iterable[str]) -> None:
        self.columns: dict[str, dict[str, list[Any]]] = {name: defaultdict(list) for name in set(tables)}

    def add(self, table: str, event: dict[str, Any]) -> None:
        for column, value in _event_columns(table, event).items():
            self.columns[table][column].append(value)

    def make_tables(self, process: int) -> dict[str, pa.Table]:
        """Return the raw tables; all events are of one process."""
        raw = {name: _make_table(name, columns, process) for name, columns in self.columns.items()}
        operators, functions = raw["operators"], raw.pop("host_calls")
        others = [table for name, table in raw.items() if name != "operators" and "end_ns" in table.column_names]
        raw["host_calls"] = join_host_calls(operators, functions, others)
        return raw | {"operators": _outermost(operators)}


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
    events = _Events(_CATEGORIES.values())
    marked_ns: list[int] = []
    thread_names: dict[int, str] = {}
    for event in stream_events(chrome_trace):
        table = _CATEGORIES.get(event.get("cat", ""))
        if table is not None and event.get("ph") == "X":
            events.add(table, event)
        elif event.get("name") == CLOCK_MARK and event.get("cat") == "user_annotation":
            marked_ns.append(_nanoseconds(event, "ts"))
        elif event.get("name") == "thread_name" and isinstance(event.get("tid"), int):
            thread_names[event["tid"]] = str(_arguments(event).get("name", "")).rpartition("(")[2].rstrip(")")
    main_threads = {number: number for number in {os.getpid(), *(ended.process for ended in ranges)}}
    try:
        raw = events.make_tables(os.getpid())
        raw |= {"ranges": _make_ranges(ranges, marks, sorted(marked_ns)), "devices": devices}
        write_events(folder, raw, main_threads, thread_names, _about(version))
    except (ValueError, OverflowError, pa.ArrowException) as error:
        raise ProfilingError(f"torch.profiler gave invalid events ({' '.join(str(error).split())}); run again") from None


def convert_chrome(path: Path, folder: Path) -> TraceInfo:
    """Convert what torch.profiler exported of anyone's program (`export_chrome_trace`) to a trace in `folder`.

    Annotations are its ranges (`record_function`, a profiler's steps, what PyTorch itself marks), operators its operators.

    Raises:
        ProfilingError: the events cannot be understood, or they are of several processes.
    """
    events, processes = _Events(_FOREIGN.values()), set[int]()
    first: dict[str, Any] = {}  # a trace's window opens with its first event, whether or not it is read here
    for event in stream_events(path):
        if event.get("ph") in _SHOWN and isinstance(ts := event.get("ts"), Decimal | int):
            first = event if not first or ts < first["ts"] else first
        table = _find_foreign_table(event)
        if table is None:
            continue
        event |= {name: _read_number(event.get(name)) for name in ("pid", "tid")}
        if table not in _ON_DEVICE and event["tid"] is None:
            continue
        events.add(table, event)
        if table in ("api", "ranges") and event["pid"] is not None:
            processes.add(event["pid"])
    if len(processes) > 1:
        raise ProfilingError(
            f"{path}: holds events of {len(processes)} processes; give the file of one, as each rank exports it"
        )
    process = next(iter(processes), 0)
    try:
        raw = events.make_tables(process)
        clock = RawClock(_nanoseconds(first, "ts", 0), _read_base_time(path))
        return write_events(folder, raw, {process: process}, {}, _about("unknown"), clock)
    except (ValueError, OverflowError, pa.ArrowException) as error:
        raise ProfilingError(f"{path}: invalid events ({' '.join(str(error).split())[:160]}); export it again") from None


def _about(version: str) -> TraceInfo:
    return TraceInfo(profiler=KINETO.name, profiler_version=version, source_schema="chrome", rows={}, warnings=[])


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
    convert_chrome(largest, folder)


def _read_base_time(path: Path) -> int | None:
    """Return when, in nanoseconds since 1970, the clock of a trace was zero; None if its torch does not write that.

    With torch 2.13 a range's end and the system's clock, read right after it, were 22 µs apart.
    """
    with _open_text(path) as file:
        head, *_ = _EVENTS_START.split(file.read(_CHUNK), 1)
    found = _BASE_TIME.search(head)
    return int(found[1]) if found else None


def stream_events(path: Path) -> Iterator[dict[str, Any]]:
    """Read the events of a trace in Chrome's format one after the other, so that memory does not grow with the file.

    Raises:
        ProfilingError: there are none, they break off, or one is larger, or nested deeper, than any profiler's

    """
    # Times are decimals of microseconds, which a float would round.
    decoder = json.JSONDecoder(parse_float=Decimal, strict=False)
    with _open_text(path) as file:
        chunks = _read_chunks(path, file)
        text, position = _find_events(path, chunks)
        while True:
            position = _skip(text, position)
            if text[position : position + 1] == "]":
                return
            try:
                event, position = decoder.raw_decode(text, position)
            except json.JSONDecodeError:
                text, position = _read_on(path, chunks, text[position:]), 0
                continue
            except (ValueError, RecursionError) as error:
                why = "a number has too many digits" if isinstance(error, ValueError) else "one is nested too deeply"
                raise ProfilingError(f"{path}: invalid events ({why}); export it again") from None
            if not isinstance(event, dict):
                raise ProfilingError(f"{path}: torch.profiler wrote {str(event)[:40]} in place of an event; run again")
            yield event


def _skip(text: str, position: int) -> int:
    """Return the position of the next event, or of the end of the list."""
    between = _BETWEEN.match(text, position)
    return between.end() if between else position


def _read_chunks(path: Path, file: IO[str]) -> Iterator[str]:
    """Yield a file's text piece by piece; a packed one has no more than its size allows."""
    most = _UNPACKED_SPARE + _UNPACKED_PER_BYTE * path.stat().st_size
    while chunk := file.read(_CHUNK):
        most -= len(chunk)
        if most < 0:
            raise ProfilingError(
                f"{path}: unpacks to more than {_UNPACKED_PER_BYTE} times its size; if it is a trace, unpack it first (gunzip)"
            )
        yield chunk


def _find_events(path: Path, chunks: Iterator[str]) -> tuple[str, int]:
    """Return the text in which the list of events begins, and where in it."""
    text = ""
    for chunk in chunks:
        text = text[-_LONGEST_HEAD:] + chunk
        if head := _EVENTS_START.search(text):
            return text, head.end()
    raise ProfilingError(f"{path}: torch.profiler wrote no events; run again, or use profiling.backend: nsys")


def _read_on(path: Path, chunks: Iterator[str], begun: str) -> str:
    """Append at least as much text again to the beginning of an event, so that a long event is decoded only a few times."""
    if len(begun) > _LONGEST_EVENT:
        raise ProfilingError(f"{path}: an event is broken, or larger than {_LONGEST_EVENT >> 20} MiB; export it again")
    more = next(chunks, "")
    if not more:
        raise ProfilingError(f"{path}: torch.profiler's events break off; is the disk full? run again")
    return "".join([begun, more, *islice(chunks, len(begun) // _CHUNK)])


@contextmanager
def _open_text(path: Path) -> Iterator[IO[str]]:
    """Yield a text file, unpacked where its name says that it is packed."""
    try:
        packed = path.suffix == ".gz"
        with gzip.open(path, "rt", _LEVEL, *_TEXT) if packed else path.open("r", -1, *_TEXT) as file:
            yield file
    except (OSError, EOFError, zlib.error) as error:
        raise ProfilingError(f"{path}: not readable ({' '.join(str(error).split())[:160]}); export it again") from None


def _event_columns(table: str, event: dict[str, Any]) -> dict[str, Any]:
    """Return an event's values for the columns of its table; kernels and copies lie on a device, the rest on a thread."""
    arguments, name = _arguments(event), str(event.get("name", ""))
    start_ns = _nanoseconds(event, "ts")
    values = {"start_ns": start_ns, "end_ns": start_ns + _nanoseconds(event, "dur", 0), "name": name}
    if table in ("kernels", "copies"):
        values |= {name: _read_integer(arguments, name) for name in ("device", "stream")}
        values["graph"] = _read_integer(arguments, "graph id") or None
    else:
        values["thread"] = event.get("tid")
    if table == "host_calls":
        values |= {"name": name_function(name), "kind": "function"}
    if table == "ranges":
        values |= {"end_thread": values["thread"], "domain": 0, "kind": "push_pop"}
    if "correlation" in TABLES[table].names:
        values["correlation"] = _read_integer(arguments, "correlation") or None
    if table == "copies":
        kind, source, target = _read_copy(name)
        values |= {"bytes": _read_integer(arguments, "bytes"), "kind": kind, "source_memory": source, "target_memory": target}
    return values


def _read_copy(name: str) -> tuple[str, str, str]:
    """Return kind, source's and target's memory of e.g. "Memcpy HtoD (Pageable -> Device)" or "Memset (Device)"."""
    operation, _, memories = name.partition(" (")
    kind = operation.removeprefix("Memcpy ").replace("Memset", "memset")
    source, arrow, target = memories.rstrip(")").lower().partition(" -> ")
    return (kind, source, target) if arrow else (kind, "unknown", source or "unknown")


def _make_table(name: str, columns: dict[str, list[Any]], process: int) -> pa.Table:
    rows = len(columns["start_ns"])
    arrays = {}
    for field in TABLES[name]:
        if field.name == "process":
            arrays[field.name] = pa.array(np.full(rows, process, np.int64))
        elif pa.types.is_dictionary(field.type):
            arrays[field.name] = pa.array(columns[field.name], pa.string()).dictionary_encode()
        else:
            arrays[field.name] = pa.array(columns[field.name], pa.int64())
    return pa.table(arrays)


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


def _read_number(value: object) -> int | None:
    """Return the number of a process or thread, which older versions of torch.profiler wrote as a text; None: it is none."""
    if isinstance(value, str) and _PROCESS_OR_THREAD.fullmatch(value):
        return int(value)
    return value if isinstance(value, int) else None


def _arguments(event: dict[str, Any]) -> dict[str, Any]:
    arguments = event.get("args")
    return arguments if isinstance(arguments, dict) else {}


def _read_integer(arguments: dict[str, Any], name: str) -> int | None:
    """Return an argument of an event that counts or numbers something; None: there is none."""
    value = arguments.get(name)
    if isinstance(value, Decimal) and -_LARGEST <= value <= _LARGEST and value == int(value):
        return int(value)
    if value is None or (isinstance(value, int) and -_LARGEST <= value <= _LARGEST):
        return value
    raise ProfilingError(f"torch.profiler gave an event whose {name} is not a whole number ({str(value)[:40]}); run again")


def _nanoseconds(event: dict[str, Any], key: str, default: int | None = None) -> int:
    """Return a time of an event, which are microseconds."""
    value = event.get(key, default)
    # Compared as it is: arithmetic on a decimal of a huge exponent fails.
    if not isinstance(value, Decimal | int) or not -_LONGEST_US <= value <= _LONGEST_US:
        raise ProfilingError(f"torch.profiler gave an event without a time ({key}: {str(value)[:40]}); run again")
    return round(value * 1000)
