"""The account of the epochs' time, to the nanosecond: every one belongs to exactly one term (docs/analysis-reference.md)."""

import numpy as np
import pandas as pd

from speedproof.results.summary import Share
from speedproof.results.trace_results import name_group
from speedproof.trace.causes import UNEXPLAINED
from speedproof.trace.events import Names, are_named, bounds_of, cover_events, join_names, make_names
from speedproof.trace.intervals import Array, Intervals, difference, first_come, overlap
from speedproof.trace.kernel_groups import COMMUNICATION, group_of, is_communication
from speedproof.trace.loop import Loop

NO_PHASE = "in no phase"
EXPOSED = f"exposed {COMMUNICATION}"
_COMMUNICATION = -2  # as a row of `loop.phases`


def account_for(loop: Loop, activity: pd.DataFrame, idle: pd.DataFrame) -> list[Share]:
    """Return the terms into which each epoch falls, the largest first; their sum is the epoch, exactly.

    `idle` are the terms of the idle gaps: :func:`sum_idle_gaps`.
    """
    terms = _account_for_main_thread(loop) if activity.empty else pd.concat([_account_for_kernels(loop, activity), idle])
    terms = terms.sort_values(["epoch", "total_ns"], ascending=[True, False], kind="stable")
    return [Share.model_validate(row) for row in terms.to_dict("records")]


def _account_for_kernels(loop: Loop, activity: pd.DataFrame) -> pd.DataFrame:
    """Return the time in which kernels run, under the phases that caused them.

    Communication counts where nothing else runs, as a term of its own: what is hidden costs no time. If most kernels belong to
    no phase, these are counted by their groups; and so are the others if their only phase is the iteration itself.
    """
    kernel, communicates = activity["kernel"].to_numpy(), are_named(activity, is_communication)
    computes = np.flatnonzero(kernel & ~communicates)
    start, end = bounds_of(activity)
    pieces, owner = first_come(start[computes], end[computes])
    exposed = difference(cover_events(activity, kernel & communicates), pieces)
    owner = computes[owner]
    del computes  # it may take a hundred megabytes
    phase = activity["phase"].to_numpy()[owner]
    outside = phase < 0
    grouped = outside & (2 * pieces.length[outside].sum() > pieces.length.sum())
    names = loop.phases["name"].array
    if {*names[np.unique(phase[~outside])]} == {loop.iterations.found.name}:
        grouped |= ~outside
    if grouped.any():
        by_group = _sum_by_group(
            loop, Intervals(pieces.start[grouped], pieces.end[grouped]), activity["name"].array[owner[grouped]]
        )
        pieces, phase = Intervals(pieces.start[~grouped], pieces.end[~grouped]), phase[~grouped]
        computing = pd.concat([by_group, _sum_by_phase(loop, pieces, phase, "gpu")])
    else:
        del owner
        computing = _sum_by_phase(loop, pieces, phase, "gpu")
    return pd.concat([computing, _sum_by_phase(loop, exposed, np.full(len(exposed), _COMMUNICATION), "gpu")])


def _sum_by_group(loop: Loop, pieces: Intervals, names: Names) -> pd.DataFrame:
    owner, columns = _cut_by_parts(loop, pieces)
    groups = [name_group(group_of(str(name))) for name in names.categories]
    codes, distinct = pd.factorize(np.array(groups, object))
    return _sum_by_name(columns.assign(name=make_names(codes[names.codes[owner]], distinct)), "gpu", NO_PHASE)


def _account_for_main_thread(loop: Loop) -> pd.DataFrame:
    phases = loop.on_main_thread(loop.phases)
    pieces, owner = first_come(*bounds_of(phases))
    rest = difference(loop.spans, pieces)
    in_phases = _sum_by_phase(loop, pieces, phases.index.to_numpy()[owner], "cpu")
    return pd.concat([in_phases, _sum_by_phase(loop, rest, np.full(len(rest), -1), "cpu")])


def sum_idle_gaps(idle_gaps: pd.DataFrame) -> pd.DataFrame:
    """Return the idle time of each epoch, part and term."""
    lengths = idle_gaps.assign(name=idle_gaps["term"], total_ns=idle_gaps["end_ns"] - idle_gaps["start_ns"])
    return _sum_by_name(lengths, "idle", UNEXPLAINED)


def _sum_by_phase(loop: Loop, pieces: Intervals, phase: Array, kind: str) -> pd.DataFrame:
    """Sum what epochs hold of pieces, each of a row of `loop.phases`, of none (-1) or of :data:`_COMMUNICATION`."""
    owner, columns = _cut_by_parts(loop, pieces)
    names = join_names([loop.phases["name"].array, make_names(np.arange(2), [EXPOSED, NO_PHASE])])
    return _sum_by_name(columns.assign(name=names[phase[owner]]), kind, NO_PHASE)


def _cut_by_parts(loop: Loop, pieces: Intervals) -> tuple[Array, pd.DataFrame]:
    """Cut pieces where a part of an epoch begins or ends; return which piece each is of, and its epoch, part and length."""
    parts = loop.parts
    inside = overlap(pieces.start, pieces.end, parts.spans)
    return inside.left, pd.DataFrame({**parts.place(inside.right), "total_ns": inside.length})


def _sum_by_name(pieces: pd.DataFrame, kind: str, residual: str) -> pd.DataFrame:
    """Return the total of each epoch, part and name; one of the names is what is not known."""
    part, name = pieces["part"].array, pieces["name"].array
    parts, names = len(part.categories), len(name.categories)
    key = pieces["epoch"].to_numpy().astype(np.int64)  # one column groups faster than three
    for count, codes in ((parts, part.codes), (names, name.codes)):
        key *= count
        key += codes
    sums = pieces["total_ns"].groupby(key).sum()
    place, named = np.divmod(sums.index.to_numpy(), max(names, 1))
    epoch, in_part = np.divmod(place, max(parts, 1))
    columns = {"epoch": epoch, "part": part.categories[in_part].astype(str), "name": name.categories[named].astype(str)}
    table = pd.DataFrame({**columns, "total_ns": sums.to_numpy()})
    return table.assign(kind=np.where(table["name"] == residual, "residual", kind))
