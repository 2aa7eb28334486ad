"""A trace's events as data frames: only the columns that the analysis needs, times in integer nanoseconds."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from speedproof.analysis.names import Names, join_names, rename
from speedproof.records.trace import TraceInfo, read_table, read_trace_info, without_operators

_CALL_VERSION = re.compile(r"(_ptsz)?(_v\d+)?$")

_NONE = -1  # stands for null in integer columns: no correlation, no graph


@dataclass(frozen=True)
class Trace:
    """The events of one trace, each table sorted by `start_ns`."""

    folder: Path
    info: TraceInfo
    ranges: pd.DataFrame  # that ended and are no operators: start_ns, end_ns, process, thread, name
    # Kernels and copies: start_ns, end_ns, process, device, stream, correlation, name, and whether it is a `kernel`. A copy
    # is named by its kind and the host's memory, e.g. `HtoD, pageable`.
    activity: pd.DataFrame
    api: pd.DataFrame  # start_ns, end_ns, process, thread, correlation, name (without the version that nsys appends)
    osrt: pd.DataFrame  # start_ns, end_ns, process, thread, name
    overhead: pd.DataFrame  # start_ns, end_ns, process, thread
    threads: pd.DataFrame  # process, thread, main
    devices: dict[int, str]
    open_ranges: int  # ranges without an end, left out


def read_events(folder: Path) -> Trace:
    """Read what the analysis needs of a trace's folder."""
    info = read_trace_info(folder)
    times = ["start_ns", "end_ns"]
    place = [*times, "process", "thread"]
    ranges = read_table(folder, "ranges", [*place, "name"])
    ended = ranges.filter(pc.is_valid(ranges["end_ns"]))
    devices = read_table(folder, "devices")
    return Trace(
        folder=folder,
        info=info,
        ranges=_to_frame(without_operators(ended)),
        activity=_read_activity(folder),
        api=rename(_to_frame(read_table(folder, "api", [*place, "correlation", "name"])), _plain_call),
        osrt=_to_frame(read_table(folder, "osrt", [*place, "name"])),
        overhead=_to_frame(read_table(folder, "overhead", place)),
        threads=read_table(folder, "threads", ["process", "thread", "main"]).to_pandas(),
        devices=dict(zip(devices["device"].to_pylist(), devices["name"].to_pylist(), strict=True)),
        open_ranges=len(ranges) - len(ended),
    )


def _plain_call(name: str) -> str:
    """Drop the version from `cudaLaunchKernel_v7000`."""
    return _CALL_VERSION.sub("", name)


def _read_activity(folder: Path) -> pd.DataFrame:
    """Return kernels and copies in one frame."""
    columns = ["start_ns", "end_ns", "process", "device", "stream", "correlation"]
    kernels = _to_frame(read_table(folder, "kernels", [*columns, "name"]))
    copies = _to_frame(read_table(folder, "copies", [*columns, "kind", "source_memory", "target_memory"]))
    both = pd.concat([kernels[columns].assign(kernel=True), copies[columns].assign(kernel=False)], ignore_index=True)
    both["name"] = join_names([kernels["name"].array, _describe_copies(copies)])
    return _sort_by_start(both)


def _describe_copies(copies: pd.DataFrame) -> Names:
    """Return e.g. `HtoD, pageable`: the kind, and the slower of the two sides' memory if either is the host's."""
    plain = copies["kind"].astype(object).fillna("copy")
    name = plain
    for memory in ("pinned", "pageable"):
        name = name.mask((copies["source_memory"] == memory) | (copies["target_memory"] == memory), plain + f", {memory}")
    return pd.Categorical(name)


def _to_frame(table: pa.Table) -> pd.DataFrame:
    """Return a table as a frame sorted by `start_ns`; absent integers are -1, for a float would lose nanoseconds."""
    for index, field in enumerate(table.schema):
        if pa.types.is_integer(field.type) and table.column(index).null_count:
            table = table.set_column(index, field.name, pc.fill_null(table.column(index), _NONE))
    return _sort_by_start(table.unify_dictionaries().to_pandas(split_blocks=True))


def _sort_by_start(events: pd.DataFrame) -> pd.DataFrame:
    start = events["start_ns"].to_numpy()
    if (start[1:] >= start[:-1]).all():
        return events
    return events.iloc[np.argsort(start, kind="stable")].reset_index(drop=True)
