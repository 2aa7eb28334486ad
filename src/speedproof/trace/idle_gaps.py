"""Every idle gap of the GPU inside the epochs, and its causes.

A *stretch* is a maximal time in one part of an epoch with no kernel on any device of the loop: either nothing at all
happens, or memory is copied and nothing is computed. The second kind explains itself (:data:`COPYING`).

The first kind gets its causes from evidence. Each kind of evidence is a set of intervals; a nanosecond that several cover
counts for the first of :data:`CAUSES` alone. So a stretch is split: each part of it goes to what was at work then, and of a
cause to what its detail names.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from speedproof.trace.events import Names, Trace, bounds_of, cover_events, join_names, make_names, rename, with_names
from speedproof.trace.intervals import (
    Array,
    Intervals,
    coverage,
    difference,
    first_come,
    holder,
    innermost,
    intersection,
    overlap,
    union,
)
from speedproof.trace.loop import Loop
from speedproof.trace.roles import loads_data

COPYING = "copying"
QUEUED = "queued, not started"
OVERHEAD = "profiler overhead"
LOADING = "loading kernels"
SYNCHRONISING = "synchronising call"
TRANSFORMS = "transforms on the CPU"
COLLATING = "batches made on the CPU"
WAITING = "waiting for data"
LAUNCHING = "launch-bound"
SYSTEM = "operating system call"
LIBRARY = "library call"
BESIDE = "while a loader thread is active"
HOST = "unknown host time in a phase"
NO_RANGE = "unknown host time in no range"
UNEXPLAINED = "unexplained"

# What each cause means, and so what its evidence is, in order of priority. The loop's threads are its main thread and
# those that launch for it without ranges of their own, as PyTorch's backward thread does.
CAUSES: dict[str, str] = {
    COPYING: "memory is copied or filled, and no kernel runs; detail: direction and host memory",
    QUEUED: "the next work is launched but has not started: GPU latency, or it waits for other work; detail: the phase",
    OVERHEAD: "the profiler works on the main thread",
    LOADING: "a thread of the loop loads kernels before their first use, and launches the first; detail: the phase",
    SYNCHRONISING: "a thread of the loop is in a call that waits for the GPU or for memory; detail: the call",
    TRANSFORMS: "the main thread is in a transform; detail: the innermost one",
    COLLATING: "the main thread is in a data-loading range, between its transforms: it collates or copies; "
    "detail: the innermost open range",
    WAITING: "the main thread waits in another data-loading range; detail: the transform that other threads ran most",
    LAUNCHING: "a thread of the loop launches kernels, less than 100 µs apart: the GPU is faster; detail: the phase",
    SYSTEM: "the main thread is in a traced call of the operating system; detail: the call",
    LIBRARY: "a thread of the loop is in a traced call of cuDNN or cuBLAS; detail: the call",
    BESIDE: "another thread of the process runs transforms and shares Python's lock; detail: the one that ran most",
    HOST: "the main thread is in a phase, and the trace does not show what it does; detail: the innermost open range",
    NO_RANGE: "the main thread is in an iteration, outside of phases and transforms",
    UNEXPLAINED: "no evidence",
}

# A call that returns when the GPU, or the memory's allocator, has done something. Copies of pageable memory are added:
# the driver has to stage them, so that even the asynchronous call waits.
_WAITS = re.compile(
    r"(cuda|cu|hip)(Device|Stream|Event|Ctx|Thread)Synchronize|(cuda|hip)Memcpy(2D|3D|ToSymbol|FromSymbol|WithStream)?"
    r"|(cu|hip)Memcpy(HtoD|DtoH|DtoD)?(_v2)?"
    r"|(cuda|cu|hip)(Malloc|MemAlloc|Free|MemFree|HostAlloc|MemAllocHost|MallocHost|FreeHost|MemFreeHost)(_v2)?"
)
_LOADS = re.compile(r"(cuda|cu|hip)(Library|Module)Load\w*")
_LAUNCHES = re.compile(r"(cuda|cu|hip)((Ext)?(Module)?Launch|GraphLaunch|Memcpy|Memset).*")
# Python needs some 10 us from one operator's launch to the next, several times that under a profiler.
_BETWEEN_LAUNCHES_NS = 100_000


_BOUNDS = ("start_ns", "end_ns")
_NAMELESS = make_names(np.zeros(1, int), [""])


@dataclass(frozen=True)
class Labels:
    """Intervals with a name each. They may overlap."""

    start: Array
    end: Array
    name: Names


@dataclass(frozen=True)
class CauseEvidence:
    """The intervals of one cause, and what its detail is chosen from (None: it has no detail)."""

    cause: str
    covers: Intervals
    labels: Labels | None = None
    most: bool = False  # the detail of each piece is what fills most of it; else it is split among the labels


def find_idle_gaps(trace: Trace, loop: Loop, activity: pd.DataFrame) -> pd.DataFrame:
    """Return every part of the epochs in which no kernel runs.

    Returns:
        start_ns, end_ns, cause, detail, pageable, stretch, epoch, part. One row per piece of an idle gap with one cause and
        detail; `stretch` numbers the gaps. `pageable` marks copies from or to pageable memory, and waits for them. No rows
        without a GPU.

    """
    if activity.empty:
        return pd.DataFrame(columns=["start_ns", "end_ns", "cause", "detail", "pageable", "stretch", "epoch", "part"])
    start, end, copies = activity["start_ns"].to_numpy(), activity["end_ns"].to_numpy(), ~activity["kernel"].to_numpy()
    parts = loop.parts
    copying = difference(union(start[copies], end[copies]), union(start[~copies], end[~copies]))
    moved = overlap(parts.spans.start, parts.spans.end, copying)
    moving = Intervals(moved.start, moved.end)
    kinds = Labels(start[copies], end[copies], activity["name"].array[copies])
    idle = difference(parts.spans, union(start, end))
    explained = _explain(idle, _gather_evidence(trace, loop, activity, idle))
    idle_gaps = _join([_split(moving, COPYING, kinds, most=True), *explained])
    begin = idle_gaps["start_ns"].to_numpy()
    stretch = np.where(idle_gaps["cause"] == COPYING, holder(moving, begin), len(moving) + holder(idle, begin))
    named = {
        *activity["name"].array[activity["pageable"].to_numpy()].unique(),
        *map(_name_staging, trace.api["name"].cat.categories),
    }
    pageable = idle_gaps["detail"].isin(named)
    return idle_gaps.assign(pageable=pageable, stretch=stretch, **parts.place(holder(parts.spans, begin)))


def _explain(idle: Intervals, evidence: Iterator[CauseEvidence]) -> Iterator[pd.DataFrame]:
    """Assign each part of an idle gap to the first evidence that covers it; yield each cause's pieces."""
    unclaimed = idle
    for one in evidence:
        yield _split(intersection(unclaimed, one.covers), one.cause, one.labels, one.most)
        unclaimed = difference(unclaimed, one.covers)
    yield _split(unclaimed, UNEXPLAINED, None)


def _split(pieces: Intervals, cause: str, labels: Labels | None, most: bool = False) -> pd.DataFrame:
    """Return pieces of one cause, cut where their detail changes; of labels that overlap the first to begin counts."""
    if labels is None:
        detail = _NAMELESS.repeat(len(pieces))
    elif most:
        detail = _most_of(pieces, labels)
    else:
        named, owner = first_come(labels.start, labels.end)
        met, rest = overlap(pieces.start, pieces.end, named), difference(pieces, named)
        codes = np.append(labels.name.codes[owner][met.right], np.full(len(rest), -1, np.int32))
        detail = join_names([_NAMELESS, make_names(codes, labels.name.categories)])[1:].fillna("")
        pieces = Intervals(np.append(met.start, rest.start), np.append(met.end, rest.end))
    of_cause = make_names(np.full(len(pieces), list(CAUSES).index(cause)), CAUSES)
    return pd.DataFrame({"start_ns": pieces.start, "end_ns": pieces.end, "cause": of_cause, "detail": detail})


def _join(stretches: list[pd.DataFrame]) -> pd.DataFrame:
    detail = join_names([frame["detail"].array for frame in stretches])
    return pd.concat(stretches, ignore_index=True).assign(detail=detail)


def _most_of(spans: Intervals, labels: Labels) -> Names:
    """Return, for each span, the name that overlaps it longest; empty where none does."""
    met = overlap(labels.start, labels.end, spans)
    lengths = pd.DataFrame({"span": met.right, "code": labels.name.codes[met.left], "length": met.length})
    lengths = lengths[lengths["code"] >= 0].groupby(["span", "code"], sort=True)["length"].sum().reset_index()
    longest = lengths.sort_values("length", kind="stable").drop_duplicates("span", keep="last")
    codes = np.full(len(spans), -1, np.int32)
    codes[longest["span"]] = longest["code"]
    # A range without a name of its own has an empty one, too.
    return join_names([_NAMELESS, make_names(codes, labels.name.categories)])[1:].fillna("")


def _gather_evidence(trace: Trace, loop: Loop, activity: pd.DataFrame, idle: Intervals) -> Iterator[CauseEvidence]:
    phases = loop.on_main_thread(loop.phases)
    phase_labels = _labels(phases)
    elsewhere, own_transforms = _split_transforms(loop)
    calls, library = (loop_calls(each, trace, loop, activity) for each in (trace.api, trace.library))
    waits, launches = waiting_calls(calls, activity), with_names(calls, _LAUNCHES.fullmatch)
    system = loop.on_main_thread(trace.osrt)
    in_no_range = difference(difference(loop.spans, cover_events(phases)), union(own_transforms.start, own_transforms.end))
    yield CauseEvidence(QUEUED, _queued(activity, idle), phase_labels)
    yield CauseEvidence(OVERHEAD, cover_events(loop.on_main_thread(trace.overhead)))
    yield CauseEvidence(LOADING, _loading(with_names(calls, _LOADS.fullmatch), launches), phase_labels)
    yield CauseEvidence(SYNCHRONISING, cover_events(waits), _labels(waits))
    yield CauseEvidence(TRANSFORMS, union(own_transforms.start, own_transforms.end), own_transforms)
    loading = pd.concat([with_names(ranges, loads_data)[[*_BOUNDS]] for ranges in (phases, loop.details)])
    transforming = coverage(union(own_transforms.start, own_transforms.end), *bounds_of(loading)) > 0
    yield CauseEvidence(COLLATING, cover_events(loading[transforming]), _open_ranges(loop, phases))
    yield CauseEvidence(WAITING, cover_events(loading), elsewhere, most=True)
    yield CauseEvidence(LAUNCHING, _issuing(launches), phase_labels)
    yield CauseEvidence(SYSTEM, cover_events(system), _labels(system))
    yield CauseEvidence(LIBRARY, cover_events(library), _labels(library))
    beside = _beside(loop)
    working = difference(cover_events(beside), cover_events(_waits_of(trace, loop, beside)))
    yield CauseEvidence(BESIDE, working, _labels(beside), most=True)
    yield CauseEvidence(HOST, cover_events(phases), _open_ranges(loop, phases))
    yield CauseEvidence(NO_RANGE, in_no_range)


def _labels(events: pd.DataFrame) -> Labels:
    return Labels(*bounds_of(events), events["name"].array)


def _queued(activity: pd.DataFrame, idle: Intervals) -> Intervals:
    """Return the end of each stretch from when the launch of the next kernel or copy had returned."""
    start = activity["start_ns"].to_numpy()
    following = np.searchsorted(start, idle.end)
    launched = np.append(activity["launch_end_ns"].to_numpy(), -1)[following]
    since = np.where(launched >= 0, np.maximum(launched, idle.start), idle.end)
    return union(since, np.maximum(since, idle.end))


def _split_transforms(loop: Loop) -> tuple[Labels, Labels]:
    """Return what other threads and processes, and what the main thread, were transforming: the innermost at each moment."""
    elsewhere, own = [loop.transforms.iloc[:0]], [loop.transforms.iloc[:0]]
    for place, events in loop.transforms.groupby(["process", "thread"], sort=True):
        pieces, owner = innermost(*bounds_of(events))
        seen = events.iloc[owner].assign(start_ns=pieces.start, end_ns=pieces.end)
        (own if place == (loop.process, loop.thread) else elsewhere).append(seen)
    return _labels(pd.concat(elsewhere)), _labels(pd.concat(own))


def _open_ranges(loop: Loop, phases: pd.DataFrame) -> Labels:
    """Return which range of the loop's thread was open at each moment: the innermost, a phase or a detail of it."""
    start, end = (np.concatenate([phases[name], loop.details[name]]) for name in ("start_ns", "end_ns"))
    pieces, owner = innermost(start, end)
    return Labels(pieces.start, pieces.end, join_names([phases["name"].array, loop.details["name"].array])[owner])


def _beside(loop: Loop) -> pd.DataFrame:
    """Return the transforms of other threads of the loop's process, with which it shares Python's lock."""
    transforms = loop.transforms
    return transforms[(transforms["process"] == loop.process) & (transforms["thread"] != loop.thread)]


def _waits_of(trace: Trace, loop: Loop, transforms: pd.DataFrame) -> pd.DataFrame:
    """Return when the threads of these transforms wait for the GPU: then they do not hold the lock."""
    calls = trace.api[(trace.api["process"] == loop.process) & trace.api["thread"].isin(transforms["thread"].unique())]
    return with_names(calls, _WAITS.fullmatch)


def loop_calls(calls: pd.DataFrame, trace: Trace, loop: Loop, activity: pd.DataFrame) -> pd.DataFrame:
    """Return which of these calls are of the loop's threads: its main one, and those that launch but hold no ranges.

    A loader's thread, which launches transforms, holds their ranges and so is none of them.
    """
    launch = activity["launch"].to_numpy()[activity["phase"] >= 0]
    launching = pd.unique(trace.api["thread"].to_numpy()[launch])
    marked = pd.concat([loop.phases["thread"], loop.transforms["thread"][loop.transforms["process"] == loop.process]])
    threads = {loop.thread, *launching} - ({*marked} - {loop.thread})
    return calls[(calls["process"] == loop.process) & calls["thread"].isin(threads)]


def waiting_calls(calls: pd.DataFrame, activity: pd.DataFrame) -> pd.DataFrame:
    """Return the calls that wait, copies of pageable memory under a name with that word."""
    staged = activity["launch"].to_numpy()[activity["pageable"].to_numpy()]
    pageable = np.isin(calls.index, staged, kind="table" if len(staged) else None)
    waiting = with_names(calls[~pageable], _WAITS.fullmatch)
    staging = rename(calls[pageable], _name_staging)
    return pd.concat([waiting, staging]).assign(name=join_names([waiting["name"].array, staging["name"].array]))


def _name_staging(call: str) -> str:
    return f"{call} (pageable memory)"


def _loading(loads: pd.DataFrame, launches: pd.DataFrame) -> Intervals:
    """Return when kernels are loaded: until the end of the launch that asked for it, if that follows soon on the same thread.

    The launch of a kernel that was just loaded takes milliseconds, in which the driver makes it ready.
    """
    start, end = bounds_of(loads)
    end = end.copy()
    for thread in pd.unique(loads["thread"]):
        here = (loads["thread"] == thread).to_numpy()
        asked = launches[launches["thread"] == thread].sort_values("start_ns")
        following = np.searchsorted(asked["start_ns"].to_numpy(), end[here])
        begun = np.append(asked["start_ns"].to_numpy(), np.iinfo(np.int64).max)[following]
        done = np.append(asked["end_ns"].to_numpy(), 0)[following]
        end[here] = np.where(begun - end[here] < _BETWEEN_LAUNCHES_NS, done, end[here])
    return union(start, end)


def _issuing(launches: pd.DataFrame) -> Intervals:
    """Return when the loop launches one thing after another: from a call to the next, if that follows soon."""
    start, end = bounds_of(launches)
    calls = union(start, end + _BETWEEN_LAUNCHES_NS)
    # The time after the last call of a row was added only to join it with a next one.
    return Intervals(calls.start, calls.end - _BETWEEN_LAUNCHES_NS)
