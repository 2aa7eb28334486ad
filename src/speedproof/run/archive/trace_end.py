"""The end of a trace: the last iterations of its loop, which take less room in a record than all of them."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from speedproof.results.files import write_json
from speedproof.results.trace_tables import (
    ADDED,
    TABLES,
    TRACE_FILE,
    read_table,
    read_trace_info,
    without_operators,
    write_table,
)
from speedproof.trace.events import read_events
from speedproof.trace.intervals import Array
from speedproof.trace.loop import find_loop
from speedproof.util.errors import RecordError

_LAUNCHED = ("kernels", "copies")  # which may start after the call that launched them


def keep_last_iterations(source: Path, target: Path, iterations: int) -> None:
    """Write a trace without what comes before its last iterations; with no more than these, as it is.

    Work that was launched before is left out, too: without its call it would be of no iteration.

    Raises:
        RecordError: the trace has no iterations

    """
    loop = find_loop(read_events(source))
    starts_ns = loop.host_epochs["start_ns"].to_numpy()
    if loop.iterations.found.unit == "stretch":
        raise RecordError(source, ": has no iterations of which the last could be kept; leave --iterations out, or mark them")
    info = read_trace_info(source)
    tables = {name: read_table(source, name) for name in TABLES if name not in ADDED or name in info.rows}
    tables["ranges"] = without_operators(tables["ranges"])
    if len(starts_ns) > iterations:
        begin_ns = int(starts_ns[-iterations])
        calls = tables["api"]
        before = _identify(calls)[calls["start_ns"].to_numpy() < begin_ns]
        for name, table in tables.items():
            if "start_ns" in table.column_names:
                kept = table["start_ns"].to_numpy() >= begin_ns
                if name in _LAUNCHED:
                    kept &= ~np.isin(_identify(table), before[before >= 0])
                tables[name] = table.filter(pa.array(kept))
        info = info.model_copy(update={"left_out": info.left_out + len(starts_ns) - iterations})
    target.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():  # of an earlier version's trace no more than it has
        write_table(target / f"{name}.parquet", table)
    rows = {name: len(table) for name, table in tables.items()}
    write_json(target / TRACE_FILE, info.model_copy(update={"rows": rows}))


def _identify(table: pa.Table) -> Array:
    """Return a number of each row's call, the same in the tables of calls and of what they launch; -1: it has none."""
    process, call = (pc.fill_null(table[name], -1).to_numpy().astype(np.int64) for name in ("process", "correlation"))
    return np.where(call < 0, -1, process * 2**40 + call)
