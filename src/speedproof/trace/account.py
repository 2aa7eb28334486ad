"""The account of the epochs' time, to the nanosecond: every one belongs to exactly one term (docs/analysis-reference.md)."""

import numpy as np
import pandas as pd

from speedproof.results.summary import Share
from speedproof.trace.causes import UNEXPLAINED
from speedproof.trace.events import Names, bounds_of, join_names, make_names, with_names
from speedproof.trace.intervals import Array, Intervals, difference, first_come, overlap, union
from speedproof.trace.kernel_groups import COMMUNICATION, group_of, is_communication
from speedproof.trace.loop import Loop

NO_PHASE = "in no phase"
EXPOSED = f"exposed {COMMUNICATION}"
_COMMUNICATION = -2  # as a row of `loop.phases`


def account_for(loop: Loop, activity: pd.DataFrame, idle_gaps: pd.DataFrame) -> list[Share]:
    """Return the terms into which each epoch falls, the largest first; their sum is the epoch, exactly."""
    if activity.empty:
        terms = _account_for_main_thread(loop)
    else:
        terms = pd.concat([_account_for_kernels(loop, activity), _account_for_idle_gaps(idle_gaps)])
    terms = terms.sort_values(["epoch", "total_ns"], ascending=[True, False], kind="stable")
    return [Share.model_validate(row) for row in terms.to_dict("records")]


def _account_for_kernels(loop: Loop, activity: pd.DataFrame) -> pd.DataFrame:
    """Return the time in which kernels run, under the phases that caused them.

    Communication counts where nothing else runs, as a term of its own: what is hidden costs no time. In a loop without
    phases the terms are groups of kernels.
    """
    kernels = activity[activity["kernel"]]
    communicates = kernels.index.isin(with_names(kernels, is_communication).index)
    start, end, phase = (kernels[name].to_numpy() for name in ("start_ns", "end_ns", "phase"))
    pieces, owner = first_come(start[~communicates], end[~communicates])
    exposed = difference(union(start[communicates], end[communicates]), pieces)
    if loop.phases.empty:
        computing = _sum_by_group(loop, pieces, kernels["name"].array[~communicates][owner])
    else:
        computing = _sum_by_phase(loop, pieces, phase[~communicates][owner], "gpu")
    return pd.concat([computing, _sum_by_phase(loop, exposed, np.full(len(exposed), _COMMUNICATION), "gpu")])


def _sum_by_group(loop: Loop, pieces: Intervals, names: Names) -> pd.DataFrame:
    parts = loop.parts
    inside = overlap(pieces.start, pieces.end, parts.spans)
    groups = [f"kernels: {group_of(str(name))}" for name in names.categories]
    codes, distinct = pd.factorize(np.array(groups, object))
    named = make_names(codes[names.codes[inside.left]], distinct)
    return _sum_by_name(pd.DataFrame({**parts.place(inside.right), "name": named, "total_ns": inside.length}), "gpu", NO_PHASE)


def _account_for_main_thread(loop: Loop) -> pd.DataFrame:
    phases = loop.on_main_thread(loop.phases)
    pieces, owner = first_come(*bounds_of(phases))
    rest = difference(loop.spans, pieces)
    in_phases = _sum_by_phase(loop, pieces, phases.index.to_numpy()[owner], "cpu")
    return pd.concat([in_phases, _sum_by_phase(loop, rest, np.full(len(rest), -1), "cpu")])


def _account_for_idle_gaps(idle_gaps: pd.DataFrame) -> pd.DataFrame:
    lengths = idle_gaps.assign(name=idle_gaps["term"], total_ns=idle_gaps["end_ns"] - idle_gaps["start_ns"])
    return _sum_by_name(lengths, "idle", UNEXPLAINED)


def _sum_by_phase(loop: Loop, pieces: Intervals, phase: Array, kind: str) -> pd.DataFrame:
    """Sum what epochs hold of pieces, each of a row of `loop.phases`, of none (-1) or of :data:`_COMMUNICATION`."""
    parts = loop.parts
    inside = overlap(pieces.start, pieces.end, parts.spans)
    names = join_names([loop.phases["name"].array, make_names(np.arange(2), [EXPOSED, NO_PHASE])])
    columns = {**parts.place(inside.right), "name": names[phase[inside.left]], "total_ns": inside.length}
    return _sum_by_name(pd.DataFrame(columns), kind, NO_PHASE)


def _sum_by_name(pieces: pd.DataFrame, kind: str, residual: str) -> pd.DataFrame:
    """Return the total of each epoch, part and name; one of the names is what is not known."""
    sums = pieces.groupby(["epoch", "part", "name"], observed=True)["total_ns"].sum().reset_index()
    sums = sums.astype({"part": str, "name": str})
    return sums.assign(kind=np.where(sums["name"] == residual, "residual", kind))
