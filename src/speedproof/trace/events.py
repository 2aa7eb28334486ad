"""A trace's events as data frames: only the columns that the analysis needs, times in integer nanoseconds."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from speedproof.results.trace_tables import ADDED, TABLES, TraceInfo, read_table, read_trace_info, without_operators
from speedproof.trace.intervals import Array, Intervals, union
from speedproof.util.errors import RecordError

Names: TypeAlias = "pd.Categorical[str]"
Mask: TypeAlias = NDArray[np.bool_]


def make_names(codes: NDArray[np.integer], names: Iterable[str]) -> Names:
    """Return the column whose row i is the name number `codes[i]`, missing for -1; names must differ."""
    distinct = tuple(map(str, names))
    dtype = _keep_dtype(distinct) if len(distinct) < _FEW_NAMES else _make_dtype(distinct)
    return pd.Categorical.from_codes(codes, dtype=dtype)


def _make_dtype(names: tuple[str, ...]) -> "pd.CategoricalDtype[str]":
    return pd.CategoricalDtype(pd.Index(names, dtype=str))


_keep_dtype = lru_cache(_make_dtype)  # the same few names come again and again, and a dtype takes long to make


def join_names(columns: Sequence[Names]) -> Names:
    """Return the columns below one another; a name that several have becomes one."""
    distinct = dict.fromkeys(str(name) for column in columns for name in column.categories.tolist())
    known = {name: code for code, name in enumerate(distinct)}
    codes = [np.array([*map(known.get, column.categories.tolist()), -1], np.int32)[column.codes] for column in columns]
    return make_names(np.concatenate(codes), known)


def rename(events: pd.DataFrame, new_name: Callable[[str], str]) -> pd.DataFrame:
    """Return the events under new names; different old names may get the same new one."""
    names = events["name"].array
    renamed = [new_name(str(name)) for name in names.categories.tolist()]
    codes, distinct = pd.factorize(np.array(renamed, object))
    return events.assign(name=make_names(np.append(codes, -1)[names.codes], distinct))


def choose(events: pd.DataFrame, chosen: Mask) -> pd.DataFrame:
    """Return the chosen events. If these are all of them, they are not copied: they may be millions."""
    return events if chosen.all() else events[chosen]


def with_names(events: pd.DataFrame, wanted: Callable[[str], object]) -> pd.DataFrame:
    return choose(events, are_named(events, wanted))


def are_named(events: pd.DataFrame, wanted: Callable[[str], object]) -> Mask:
    """Tell which events have a name that is wanted."""
    names = events["name"].array
    return np.array([*map(bool, map(wanted, names.categories.tolist())), False])[names.codes]


_FEW_NAMES = 100
_CALL_VERSION = re.compile(r"(_ptsz)?(_v\d+)?$")

# Of one machine; each is looked at by itself, so that more would take time without bound.
_MOST_GPUS, _MOST_GPU_PROCESSES = 256, 1024

_NONE = -1  # stands for null in integer columns: no correlation, no graph
_NARROW = np.int32  # of what counts rows, and of correlation ids that fit: columns of millions of rows take memory


@dataclass(frozen=True)
class Trace:
    """The events of one trace, each table sorted by `start_ns`."""

    folder: Path
    info: TraceInfo
    ranges: pd.DataFrame  # finished ranges other than operators: start_ns, end_ns, process, thread, name
    # Kernels and copies: start_ns, end_ns, process, device, stream, correlation, name, whether it is a `kernel`, and `launch`,
    # the row of the call in `api` that launched it, -1 if none in its process has its correlation id. A copy is named by
    # its kind and the host's memory, e.g. `HtoD, pageable`; `pageable` tells whether that is of the latter kind.
    activity: pd.DataFrame
    copies: pd.DataFrame  # of these, copies alone: start_ns, end_ns, process, device, bytes, kind, name
    api: pd.DataFrame  # start_ns, end_ns, process, thread, correlation, name (without the version that nsys appends)
    osrt: pd.DataFrame  # start_ns, end_ns, process, thread, name
    library: pd.DataFrame  # calls of cuDNN and cuBLAS: start_ns, end_ns, process, thread, name
    flop: pd.DataFrame  # operators of known FLOP: start_ns, end_ns, process, thread, flop, bytes, type
    overhead: pd.DataFrame  # start_ns, end_ns, process, thread
    host_calls: pd.DataFrame  # operators and functions of Python, nested: start_ns, end_ns, process, thread, kind, name
    metrics: pd.DataFrame  # samples of GPUs' counters: start_ns, device, name, value
    memory: pd.DataFrame  # start_ns, process, device, address, bytes, kind, operation
    cpu_samples: pd.DataFrame  # start_ns, process, thread, name: of the function
    python_samples: pd.DataFrame  # start_ns, process, thread, name: of the function, and its file
    collectives: pd.DataFrame  # of communication kernels: start_ns, device, stream, name, group, members
    threads: pd.DataFrame  # process, thread, main
    devices: dict[int, str]
    open_ranges: int  # ranges without an end, left out
    of_operators: bool = False  # whether there was nothing but operators, which are its ranges then

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is in it of which an account could be given."""
        return self.ranges.empty and self.activity.empty and self.api.empty


def read_events(folder: Path) -> Trace:
    info = read_trace_info(folder)
    read = partial(_read_whole, folder, info)
    times = ["start_ns", "end_ns"]
    place = [*times, "process", "thread"]
    ranges = read("ranges", [*place, "name"])
    ended = ranges.filter(pc.is_valid(ranges["end_ns"]))
    devices = read("devices")
    activity = _read_activity(read)
    _check_places(folder, activity)
    api = rename(to_frame(read("api", [*place, "correlation", "name"])), _plain_call)
    marked = to_frame(without_operators(ended))
    of_operators = marked.empty and activity.empty and api.empty and info.rows.get("operators", 0) > 0
    return Trace(
        folder=folder,
        info=info,
        ranges=to_frame(read("operators", [*place, "name"])) if of_operators else marked,
        activity=activity.assign(launch=_find_launches(activity, api)),
        copies=_read_copies(read),
        api=api,
        osrt=to_frame(read("osrt", [*place, "name"])),
        library=to_frame(read("library", [*place, "name"])),
        flop=to_frame(read("flop", [*place, "flop", "bytes", "type"])),
        overhead=to_frame(read("overhead", place)),
        host_calls=to_frame(read("host_calls")),
        metrics=to_frame(read("metrics")),
        memory=to_frame(read("memory")),
        cpu_samples=to_frame(read("cpu_samples")),
        python_samples=to_frame(read("python_samples")),
        collectives=to_frame(read("collectives")),
        threads=read("threads", ["process", "thread", "main"]).to_pandas(),
        devices=dict(zip(devices["device"].to_pylist(), devices["name"].to_pylist(), strict=True)),
        open_ranges=len(ranges) - len(ended),
        of_operators=of_operators,
    )


def _check_places(folder: Path, activity: pd.DataFrame) -> None:
    """Raise a :class:`RecordError` if the work is of more GPUs or processes than a machine has."""
    for column, what, most in (("device", "GPUs", _MOST_GPUS), ("process", "processes that use a GPU", _MOST_GPU_PROCESSES)):
        if (count := activity[column].nunique()) > most:
            raise RecordError(folder, f": holds {count} {what}, more than {most}; profile one machine")


def read_launched(folder: Path) -> pd.DataFrame:
    """Read a trace's kernels and copies: start_ns, end_ns and launch_ns, when its call began; without one, when it began."""
    read = partial(_read_whole, folder, read_trace_info(folder))
    activity, api = _read_activity(read), to_frame(read("api", ["start_ns", "process", "correlation"]))
    launch, start = _find_launches(activity, api), activity["start_ns"].to_numpy()
    launched = launch >= 0
    launch_ns = start.copy()
    launch_ns[launched] = api["start_ns"].to_numpy()[launch[launched]]
    return pd.DataFrame({"start_ns": start, "end_ns": activity["end_ns"].to_numpy(), "launch_ns": launch_ns})


def _read_whole(folder: Path, info: TraceInfo, name: str, columns: list[str] | None = None) -> pa.Table:
    """Read a table, or some of its columns, that has as many rows as the trace says; a record's ranges are fewer."""
    if name in ADDED and name not in info.rows:
        return TABLES[name].empty_table()
    table = read_table(folder, name, columns)
    expected = info.rows.get(name, 0)
    if len(table) > expected or (len(table) < expected and name != "ranges"):
        raise RecordError(folder, f": {name}.parquet has {len(table)} of {expected} rows; convert the trace again")
    return table


def _plain_call(name: str) -> str:
    """Drop the version from `cudaLaunchKernel_v7000`."""
    return _CALL_VERSION.sub("", name)


def _read_activity(read: Callable[..., pa.Table]) -> pd.DataFrame:
    columns = ["start_ns", "end_ns", "process", "device", "stream", "correlation"]
    kernels = to_frame(read("kernels", [*columns, "name"]))
    copies = to_frame(read("copies", [*columns, "kind", "source_memory", "target_memory"]))
    order = np.argsort(np.append(kernels["start_ns"], copies["start_ns"]), kind="stable")
    touched = np.append(np.zeros(len(kernels), bool), _touches(copies, "pageable").to_numpy())
    name = join_names([kernels["name"].array, _describe_copies(copies)])[order]
    # Column by column: the frames of millions of events, joined as a whole, are held three times.
    both = {column: np.append(kernels.pop(column), copies.pop(column))[order] for column in columns}
    return pd.DataFrame({**both, "kernel": order < len(kernels), "name": name, "pageable": touched[order]})


def _read_copies(read: Callable[..., pa.Table]) -> pd.DataFrame:
    memories = ["kind", "source_memory", "target_memory"]
    copies = to_frame(read("copies", ["start_ns", "end_ns", "process", "device", "bytes", *memories]))
    return copies.drop(columns=memories[1:]).assign(name=_describe_copies(copies))


def _find_launches(activity: pd.DataFrame, api: pd.DataFrame) -> NDArray[np.integer]:
    """Return the row of each event's launching call, -1 if none in its process has its correlation id."""
    launch = np.full(len(activity), -1, _NARROW)
    correlation = api["correlation"].to_numpy()
    for process in activity["process"].unique():
        here = np.flatnonzero((activity["process"] == process).to_numpy())
        calls = np.flatnonzero((api["process"] == process).to_numpy() & (correlation >= 0))
        if not (np.diff(correlation[calls]) >= 0).all():  # calls mostly come in the order of their ids
            calls = calls[np.argsort(correlation[calls], kind="stable")]
        known, wanted = correlation[calls], activity["correlation"].to_numpy()[here]
        at = np.searchsorted(known, wanted)  # the first call of several, such as a runtime call that calls the driver
        found = np.append(known, known.dtype.type(_NONE))[at] == wanted
        found &= wanted >= 0
        launch[here[found]] = calls[at[found]]
    return launch


def _describe_copies(copies: pd.DataFrame) -> Names:
    """Return e.g. `HtoD, pageable`: the kind, and the slower of the two ends' memory if either is the host's."""
    plain = copies["kind"].astype(object).fillna("copy")
    name = plain
    for memory in ("pinned", "pageable"):
        name = name.mask(_touches(copies, memory), plain + f", {memory}")
    return pd.Categorical(name)


def _touches(copies: pd.DataFrame, memory: str) -> "pd.Series[bool]":
    return (copies["source_memory"] == memory) | (copies["target_memory"] == memory)


def to_frame(table: pa.Table) -> pd.DataFrame:
    """Return a table as a frame sorted by `start_ns`; absent integers are -1, for a float would lose nanoseconds."""
    return _sort_by_start(_convert(table)) if len(table) else _make_empty(table.schema).copy()


@cache
def _make_empty(schema: pa.Schema) -> pd.DataFrame:
    return _convert(schema.empty_table())


def _convert(table: pa.Table) -> pd.DataFrame:
    for index, field in enumerate(table.schema):
        if pa.types.is_integer(field.type) and table.column(index).null_count:
            table = table.set_column(index, field.name, pc.fill_null(table.column(index), _NONE))
    if "correlation" in table.column_names and (pc.max(table["correlation"]).as_py() or 0) <= np.iinfo(_NARROW).max:
        index = table.column_names.index("correlation")
        table = table.set_column(index, "correlation", pc.cast(table["correlation"], pa.from_numpy_dtype(_NARROW)))
    return table.unify_dictionaries().to_pandas(split_blocks=True)


def _sort_by_start(events: pd.DataFrame) -> pd.DataFrame:
    start = events["start_ns"].to_numpy()
    if (start[1:] >= start[:-1]).all():
        return events
    return events.iloc[np.argsort(start, kind="stable")].reset_index(drop=True)


def bounds_of(events: pd.DataFrame) -> tuple[Array, Array]:
    return events["start_ns"].to_numpy(), events["end_ns"].to_numpy()


def cover_events(events: pd.DataFrame, rows: NDArray[np.integer] | Mask | None = None) -> Intervals:
    """Return the moments that any of these events cover, or those of some rows, which are not copied as frames would be."""
    start, end = bounds_of(events)
    return union(start, end) if rows is None else union(start[rows], end[rows])
