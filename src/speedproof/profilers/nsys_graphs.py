"""Which launch of a CUDA graph ran which of its nodes, if the export does not say so of the nodes themselves.

Each node of a graph runs once in each execution of it, which shows where the next one begins. If a process launched as many
graphs as were executed, one after the other, the first launch ran the first execution, and so on. Else it is left unknown.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from speedproof.profilers.event_tables import Integers
from speedproof.profilers.nsys_columns import to_nullable
from speedproof.profilers.nsys_sqlite import MISSING

_NODES_PER_GRAPH = 1 << 32  # CUPTI numbers a node within its graph, whose number is in the upper half
_NODES = ("kernels", "copies")


class GraphLaunches(NamedTuple):
    """The tables with the correlation ids that were found, and of how many nodes none was."""

    tables: dict[str, pa.Table]
    unknown: int


def find_graph_launches(raw: Mapping[str, pa.Table]) -> GraphLaunches:
    """Give the nodes of CUDA graphs that have no correlation id that of the launch that ran them."""
    if all(pa.types.is_null(raw[name]["node"].type) for name in _NODES):
        return GraphLaunches({}, 0)
    nodes = pd.concat([_list_nodes(raw[name]) for name in _NODES], keys=_NODES)
    lost = nodes[(nodes["node"] != MISSING) & (nodes["correlation"] == MISSING)]
    if lost.empty:
        return GraphLaunches({}, 0)
    calls = _list_graph_calls(raw["api"])
    calls = calls[~calls["correlation"].isin(nodes["correlation"])]
    found = nodes["correlation"].copy()
    for process, mine in lost.groupby("process"):
        found.loc[mine.index] = _pair(mine, calls[calls["process"] == process])
    tables = {name: _with_correlation(raw[name], found.loc[name].to_numpy()) for name in _NODES if len(raw[name])}
    return GraphLaunches(tables, int((found.loc[lost.index] == MISSING).sum()))


def to_nodes(numbers: Integers) -> pa.Array:
    """Return the numbers of nodes, null for none; without memory if there is none at all, as in most traces."""
    none = (numbers == MISSING) | (numbers == 0)
    return pa.nulls(len(numbers)) if none.all() else pa.array(numbers, pa.int64(), mask=none)


def _pair(nodes: pd.DataFrame, calls: pd.DataFrame) -> Integers:
    """Return the correlation id of each node's launch, :data:`MISSING` if it is not known."""
    unknown = np.full(len(nodes), MISSING)
    nodes = nodes.assign(
        key=nodes["graph"].where(nodes["graph"] != nodes["node"], nodes["node"] // _NODES_PER_GRAPH), row=range(len(nodes))
    ).sort_values("start_ns", kind="stable")
    runs = nodes.groupby("node").size().groupby(nodes.groupby("node")["key"].first())
    nodes["run"] = nodes.groupby("node").cumcount()
    executions = nodes.groupby(["key", "run"]).agg(first=("start_ns", "min"), last=("end_ns", "max")).sort_values("first")
    calls = calls.sort_values("start_ns", kind="stable")
    if (runs.nunique() > 1).any() or len(executions) != len(calls):
        return unknown
    first, last = executions["first"].to_numpy(), executions["last"].to_numpy()
    if (first < calls["start_ns"].to_numpy()).any() or (first[1:] < last[:-1]).any():
        return unknown
    ids = pd.Series(calls["correlation"].to_numpy(), index=executions.index)
    unknown[nodes["row"]] = ids.reindex(pd.MultiIndex.from_frame(nodes[["key", "run"]])).to_numpy()
    return unknown


def _list_nodes(table: pa.Table) -> pd.DataFrame:
    names = ["start_ns", "end_ns", "process", "correlation", "graph", "node"]
    return pd.DataFrame({name: pc.fill_null(pc.cast(table[name], pa.int64()), MISSING).to_numpy() for name in names})


def _list_graph_calls(api: pa.Table) -> pd.DataFrame:
    """Return the calls that launch a graph: the runtime's, if there are some, which call the driver's."""
    for prefix in ("cudaGraphLaunch", "cuGraphLaunch"):
        chosen = api.filter(pc.starts_with(pc.cast(api["name"], pa.string()), prefix))
        if len(chosen):
            break
    names = ["start_ns", "process", "correlation"]
    return pd.DataFrame({name: pc.fill_null(chosen[name], MISSING).to_numpy() for name in names})


def _with_correlation(table: pa.Table, correlation: Integers) -> pa.Table:
    return table.set_column(table.column_names.index("correlation"), "correlation", to_nullable(correlation))
