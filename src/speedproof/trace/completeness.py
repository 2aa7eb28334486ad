"""Whether a recording is whole: profilers drop buffers, or stop, and then launches are there whose kernels are not."""

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from speedproof.results.summary import GpuUntraced
from speedproof.results.trace_tables import GpuTracing
from speedproof.trace.events import Trace, are_named, with_names
from speedproof.trace.intervals import Array, Intervals, holder
from speedproof.util.errors import RecordError

_LAUNCHES = re.compile(r"(cuda|cu|hip)((Ext)?(Module)?Launch(Cooperative)?Kernel\w*|GraphLaunch\w*)")
# What is launched while a CUDA graph is captured runs later, as the graph.
_CAPTURES = re.compile(r"(cuda|cu|hip)Stream(Begin|End)Capture\w*")

_MISSING = 0.01  # an iteration that lacks the kernels of more of its launches is recorded in part
_FEWEST, _MOSTLY = 3, 0.5  # so many whole iterations, or this share of all, are enough to speak of
_NEVER = np.iinfo(np.int64).min
_MOST_NOTES = 5  # on its recording, in an error
_UNTRACED: dict[GpuTracing | None, str] = {
    "off": "GPU work was not traced",
    "failed": "tracing GPU work may have failed",
    "unseen": "the profiler saw no GPU that it can trace",
}


@dataclass(frozen=True)
class Recording:
    """One process' launches of kernels, in order of their start."""

    asked_ns: Array  # when each was launched
    ran_ns: Array  # when its kernel ended; if the kernel is missing, about when it would have run
    lost: NDArray[np.bool_]  # whether the kernel is not there

    @property
    def share(self) -> float:
        return float(self.lost.mean()) if len(self.lost) else 0.0

    def find_whole(self, spans: Intervals) -> NDArray[np.bool_]:
        """Tell which spans lack no more than a hundredth of what was launched, or would have run, in them."""
        whole = np.ones(len(spans), bool)
        for moment in (self.asked_ns, self.ran_ns):
            at = holder(spans, moment)
            asked = np.bincount(at[at >= 0], minlength=len(spans))
            lost = np.bincount(at[(at >= 0) & self.lost], minlength=len(spans))
            whole &= lost <= _MISSING * asked
        return whole


def find_gpu_untraced(trace: Trace) -> GpuUntraced | None:
    """Return why a trace without GPU work does not show that there was none; None if it does, or if it has some."""
    tracing = trace.info.gpu_tracing
    if tracing is None or not trace.activity.empty:
        return None
    if tracing == "on":
        return None if trace.api.empty else "called"
    return tracing


def explain_empty(trace: Trace) -> RecordError:
    """Return why a trace cannot be analyzed, with what is known about its recording."""
    known = [_UNTRACED[trace.info.gpu_tracing]] if trace.info.gpu_tracing in _UNTRACED else []
    notes = [*known, *(note.rstrip(".") for note in trace.info.warnings[:_MOST_NOTES])]
    # If a reason is known, the same command would give the same again.
    why, then = (f": {'; '.join(notes)}", "mend that, then profile again") if notes else ("", "profile the run again")
    return RecordError(trace.folder, f": the trace holds no ranges, kernels or calls{why}; {then}")


def enough_left(left: int, seen: int) -> bool:
    """Return whether so many whole iterations represent all those seen."""
    return left > 0 and (left >= _FEWEST or left >= _MOSTLY * seen)


def check_recording(trace: Trace, process: int) -> Recording:
    """Find the launches of a process whose kernels the trace lacks.

    Where as many kernels have no launch as launches have no kernel, they may belong together: then only those launches are
    lost after which too few such kernels begin.
    """
    api, mine = trace.api, (trace.api["process"] == process).to_numpy()
    asks = mine & are_named(api, _LAUNCHES.fullmatch) & (api["correlation"] >= 0).to_numpy()
    captures = api[mine & are_named(api, _CAPTURES.fullmatch)]
    if not captures.empty:
        asks &= ~_find_captured(captures, api["start_ns"].to_numpy())
    kernels = (trace.activity["process"] == process).to_numpy() & trace.activity["kernel"].to_numpy()
    launch, start_ns, end_ns = (trace.activity[name].to_numpy()[kernels] for name in ("launch", "start_ns", "end_ns"))
    ended_ns = np.full(len(api) + 1, _NEVER)  # the last one is for kernels without a launch
    np.maximum.at(ended_ns, launch, end_ns)
    del end_ns  # it may take a hundred megabytes
    asked_ns, ran_ns = _join_nested(api, np.flatnonzero(asks), ended_ns[:-1])
    lost = ran_ns == _NEVER
    if int((launch < 0).sum()) >= max(int(lost.sum()), 1):
        lost[lost] = _find_unmatched(asked_ns[lost], start_ns[launch < 0])
    # Work is done in about the order in which it was launched.
    ran_ns = np.maximum(np.maximum.accumulate(ran_ns), asked_ns) if len(ran_ns) else ran_ns
    return Recording(asked_ns, ran_ns, lost)


def _find_unmatched(asked_ns: Array, start_ns: Array) -> NDArray[np.bool_]:
    """Tell which launches, sorted, can have launched none of some kernels, sorted, if each kernel belongs to one at most."""
    later = len(start_ns) - np.searchsorted(start_ns, asked_ns)[::-1]  # kernels after each launch, the last one first
    matched = np.minimum.accumulate(later - np.arange(1, len(later) + 1)).clip(max=0) + np.arange(1, len(later) + 1)
    return np.diff(matched, prepend=0)[::-1] == 0


def _find_captured(captures: pd.DataFrame, moment: Array) -> NDArray[np.bool_]:
    """Tell which moments lie between the begin of a capture and its end."""
    begins = with_names(captures, lambda name: "Begin" in name)["start_ns"].to_numpy()
    ends = np.sort(with_names(captures, lambda name: "End" in name)["end_ns"].to_numpy())
    return np.searchsorted(begins, moment) > np.searchsorted(ends, moment)


def _join_nested(api: pd.DataFrame, launches: NDArray[np.integer], ended_ns: Array) -> tuple[Array, Array]:
    """Take a call of the driver inside one of the runtime for one launch; return when it began, and its kernel's end.

    `launches` are rows of `api`, and so in order of their start; `ended_ns` is changed.
    """
    thread, start, end = (api[name].to_numpy() for name in ("thread", "start_ns", "end_ns"))
    by_thread = launches[np.argsort(thread[launches], kind="stable")]
    outer = np.zeros(len(api), bool)
    for rows in np.split(by_thread, np.flatnonzero(np.diff(thread[by_thread])) + 1):
        reached = np.maximum.accumulate(end[rows])
        first = np.append(0, np.flatnonzero(start[rows[1:]] >= reached[:-1]) + 1)[: len(rows)]
        outer[rows[first]] = True
        ended_ns[rows[first]] = np.maximum.reduceat(ended_ns[rows], first) if len(rows) else 0
    return start[outer], ended_ns[outer]
