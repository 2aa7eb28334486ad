"""From a profiler's raw events to the trace's tables: small numbers for processes and threads, one zero for all times.

A raw table has the columns of its schema in :data:`speedproof.results.trace_tables.TABLES`, but `process` and `thread` are
the profiler's own numbers and times count from wherever the profiler counts.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from speedproof.results.trace_tables import TABLES, TraceInfo, write_trace

Integers = NDArray[np.int64]

# Thread names that a program or library gives to all its users' threads; any other could be somebody's.
_GENERIC_THREAD = re.compile(
    r"(MainThread|python[\d.]*|Thread-\d+.*|ThreadPoolExecutor-[\d_]+|QueueFeederThread"
    r"|pt_[a-z_]+[\d_]*|cuda-?[\w-]*|\[NSys[\w ]*\]?|\[NS\][\w ]*|pin_memory|iou-\w+|jemalloc_bg_thd|OpenBLAS|omp_\w+)"
)


class RawClock(NamedTuple):
    """What is known of the clock of raw tables, in nanoseconds."""

    shown_zero_ns: int | None = None  # which moment the profiler's own window calls zero
    unix_ns: int | None = None  # when, since 1970, it was zero


UNKNOWN_CLOCK = RawClock()


def encode_names(indices: Integers, names: Sequence[str]) -> pa.DictionaryArray:
    """Return the column whose row i holds `names[indices[i]]`; -1 is null. Equal names become one dictionary entry."""
    distinct = sorted(set(names))
    number = {name: position for position, name in enumerate(distinct)}
    positions = np.array([*(number[name] for name in names), -1])  # the last one is for null
    return pa.DictionaryArray.from_arrays(
        pa.array(positions[indices], pa.int32(), mask=indices < 0), pa.array(distinct, pa.string())
    )


def repeat_name(name: str, rows: int) -> pa.DictionaryArray:
    return encode_names(np.zeros(rows, np.int64), [name])


def make_raw_table(name: str, columns: Mapping[str, Any], rows: int) -> pa.Table:
    """Return a raw table of so many rows; a column that is not given is null."""
    arrays = {}
    for field in TABLES[name]:
        values = columns.get(field.name, [None] * rows)
        text = pa.types.is_dictionary(field.type)
        arrays[field.name] = pa.array(values, pa.string()).dictionary_encode() if text else pa.array(values, pa.int64())
    return pa.table(arrays)


def join_rows(name: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return a raw table whose events are given one by one; what one does not give is null."""
    return make_raw_table(name, {field.name: [row.get(field.name) for row in rows] for field in TABLES[name]}, len(rows))


def generic_thread_name(name: str) -> str:
    """Return a thread's name if it could be anybody's, else an empty one."""
    return name if _GENERIC_THREAD.fullmatch(name) else ""


def write_events(
    folder: Path,
    raw: dict[str, pa.Table],
    main_threads: Mapping[int, int],
    thread_names: Mapping[int, str],
    info: TraceInfo,
    clock: RawClock = UNKNOWN_CLOCK,
) -> TraceInfo:
    """Write raw tables as a trace, and return its `trace.json`. `raw` is emptied: a large trace is not held twice.

    `main_threads` gives a process' first thread, `thread_names` a thread's name, both by the profiler's numbers; a
    thread's number must be unique among all processes. Tables are sorted by start. The rows and zeros of `info` are filled in
    here.
    """
    zero_ns = min((pc.min(table["start_ns"]).as_py() for table in _timed(raw) if len(table)), default=0)
    tables = {name: _sort_by_start(raw.pop(name)) for name in list(raw)}
    processes = _number("process", tables)
    threads = _number("thread", tables)
    owners = _owners(tables)
    for name in list(tables):
        table = tables.pop(name)
        for column, numbers in (("process", processes), ("thread", threads), ("end_thread", threads)):
            table = _replace(table, column, numbers)
        for column in ("start_ns", "end_ns"):
            if column in table.column_names:
                table = table.set_column(table.column_names.index(column), column, pc.subtract(table[column], zero_ns))
        tables[name] = table
    tables["threads"] = pa.table(
        {
            "process": pa.array([processes[owners[thread]] for thread in threads], pa.int32()),
            "thread": pa.array(threads.values(), pa.int32()),
            "main": pa.array([main_threads.get(owners[thread]) == thread for thread in threads], pa.bool_()),
            "name": pa.array([generic_thread_name(thread_names.get(thread, "")) for thread in threads], pa.string()),
        }
    )
    rows = {name: len(tables[name]) if name in tables else 0 for name in TABLES}
    shown_ns = None if clock.shown_zero_ns is None else zero_ns - clock.shown_zero_ns
    unix_zero_ns = None if clock.unix_ns is None else zero_ns + clock.unix_ns
    info = info.model_copy(update={"rows": rows, "zero_ns": shown_ns, "unix_zero_ns": unix_zero_ns})
    write_trace(folder, tables, info)
    return info


def _timed(tables: dict[str, pa.Table]) -> list[pa.Table]:
    return [table for table in tables.values() if "start_ns" in table.column_names]


def _sort_by_start(table: pa.Table) -> pa.Table:
    """Return a table in order of start; one without times as it is."""
    if "start_ns" not in table.column_names:
        return table
    start_ns = table["start_ns"].to_numpy()
    if np.all(start_ns[1:] >= start_ns[:-1]):  # as profilers mostly write them
        return table
    return table.take(pa.array(np.argsort(start_ns, kind="stable")))


def _number(column: str, tables: dict[str, pa.Table]) -> dict[int, int]:
    """Return the small number of each process or thread, in order of its first event in any of the tables."""
    first_ns: dict[int, int] = {}
    for table in _timed(tables):
        for name in {column, f"end_{column}"} & set(table.column_names):
            firsts = table.group_by(name).aggregate([("start_ns", "min")])
            for number, start_ns in zip(firsts[name].to_pylist(), firsts["start_ns_min"].to_pylist(), strict=True):
                if number is not None:
                    first_ns[number] = min(start_ns, first_ns.get(number, start_ns))
    return {number: small for small, number in enumerate(sorted(first_ns, key=lambda number: (first_ns[number], number)))}


def _owners(tables: dict[str, pa.Table]) -> dict[int, int]:
    owners: dict[int, int] = {}
    for table in tables.values():
        for thread in ("end_thread", "thread"):  # `thread` wins over `end_thread`
            if {thread, "process"} <= set(table.column_names):
                pairs = table.group_by([thread, "process"]).aggregate([])
                owners |= dict(zip(pairs[thread].to_pylist(), pairs["process"].to_pylist(), strict=True))
    return owners


def _replace(table: pa.Table, column: str, numbers: Mapping[int, int]) -> pa.Table:
    """Replace the profiler's numbers in a column by small ones; null stays null."""
    if column not in table.column_names or not numbers:
        return table
    known = pa.array(numbers.keys(), pa.int64())
    small = pc.index_in(table[column], value_set=known)  # `numbers` counts from zero in this very order
    return table.set_column(table.column_names.index(column), column, small)
