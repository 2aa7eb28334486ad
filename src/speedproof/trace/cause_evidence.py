"""The evidence for each cause of idle time, in the order in which it counts."""

import re
from collections.abc import Iterator

import numpy as np
import pandas as pd

from speedproof.trace.causes import (
    BESIDE,
    BETWEEN,
    COLLATING,
    HOST,
    LAUNCHING,
    LIBRARY,
    LOADING,
    NO_RANGE,
    OVERHEAD,
    PARAMETERS,
    QUEUED,
    SYNCHRONISING,
    SYSTEM,
    TRANSFORMS,
    WAITING,
    CauseEvidence,
    Labels,
    Topic,
    label_events,
)
from speedproof.trace.cuda_calls import (
    BETWEEN_LAUNCHES_NS,
    find_loading,
    launching_calls,
    loop_calls,
    waiting_calls,
    waits_of_threads,
)
from speedproof.trace.events import Trace, bounds_of, cover_events, join_names, with_names
from speedproof.trace.host_causes import HostCauses
from speedproof.trace.intervals import Intervals, coverage, difference, innermost, join_close, union
from speedproof.trace.loop import Loop
from speedproof.trace.roles import loads_data, makes_batches, waits_for_loader, writes

_OUTPUT = re.compile(r"p?writev?(64)?|f(write|puts|printf|flush|sync)|puts|printf|vfprintf|fdatasync")


def gather_evidence(trace: Trace, loop: Loop, activity: pd.DataFrame, idle: Intervals) -> Iterator[CauseEvidence]:
    """Yield the evidence for the causes of idle time other than copies, the strongest first."""
    phases = loop.on_main_thread(loop.phases)
    phase_labels = label_events(phases)
    calls = loop_calls(trace.api, trace, loop, activity)
    launches = launching_calls(calls)
    loading, launching = find_loading(calls, launches, activity), join_close(*bounds_of(launches), BETWEEN_LAUNCHES_NS)
    launches = launches[["start_ns", "thread"]].reset_index(drop=True)  # it may be a copy of millions
    host = HostCauses(loop_calls(trace.host_calls, trace, loop, activity), launches, loop)
    yield CauseEvidence(QUEUED, _find_queued(activity, idle), phase_labels)
    yield CauseEvidence(OVERHEAD, _either(cover_events(loop.on_main_thread(trace.overhead)), host.profiling))
    yield CauseEvidence(LOADING, loading, phase_labels)
    yield _find_synchronising(waiting_calls(calls, activity), host)
    if host:
        yield from host.find_compiling()
    yield from _find_loading_of_data(loop, phases, host)
    if host:
        steps = host.find_steps(trace.ranges)
        yield CauseEvidence(PARAMETERS, cover_events(steps), label_events(steps))
    yield CauseEvidence(LAUNCHING, launching, phase_labels)
    yield from _find_traced_calls(trace, loop, activity)
    if host:
        yield host.find_breaks(idle)
        yield from host.find_operators(idle)
    yield _find_beside(trace, loop)
    if host:
        yield host.find_functions(idle)
        yield CauseEvidence(BETWEEN, host.between, phase_labels)
    yield CauseEvidence(HOST, cover_events(phases), _open_ranges(loop, phases))
    transforms = _split_transforms(loop)[1]
    in_no_range = difference(difference(loop.spans, cover_events(phases)), union(transforms.start, transforms.end))
    yield CauseEvidence(NO_RANGE, in_no_range)


def _find_queued(activity: pd.DataFrame, idle: Intervals) -> Intervals:
    """Return the end of each stretch from when the launch of the next kernel or copy had returned."""
    start = activity["start_ns"].to_numpy()
    following = np.searchsorted(start, idle.end)
    launched = np.append(activity["launch_end_ns"].to_numpy(), -1)[following]
    since = np.where(launched >= 0, np.maximum(launched, idle.start), idle.end)
    return union(since, np.maximum(since, idle.end))


def _find_synchronising(waits: pd.DataFrame, host: HostCauses) -> CauseEvidence:
    """Return when the loop's threads wait; the detail is the call and, if that is known, which function made it."""
    if host:
        waits = host.locate(waits)
    made = waits[["name", "topic"]].astype(str).drop_duplicates()
    topics = {name: topic for name, topic in made.itertuples(index=False) if topic}
    return CauseEvidence(SYNCHRONISING, cover_events(waits), label_events(waits, topics))


def _find_loading_of_data(loop: Loop, phases: pd.DataFrame, host: HostCauses) -> Iterator[CauseEvidence]:
    """Yield when the main thread makes batches, and when it waits for others that do."""
    elsewhere, own = _split_transforms(loop)
    transforms = union(own.start, own.end)
    yield CauseEvidence(TRANSFORMS, transforms, own)
    ranges = _join_ranges(*(with_names(each, loads_data) for each in (phases, loop.details)))
    waiting = _either(cover_events(with_names(ranges, waits_for_loader)), host.waiting)
    makes = coverage(transforms, *bounds_of(ranges)) > 0
    makes |= ranges.index.isin(with_names(ranges, makes_batches).index) & (coverage(host.operating, *bounds_of(ranges)) > 0)
    yield CauseEvidence(COLLATING, difference(cover_events(ranges[makes]), waiting), _open_ranges(loop, phases))
    yield CauseEvidence(WAITING, _either(cover_events(ranges), waiting), elsewhere, most=True)


def _find_traced_calls(trace: Trace, loop: Loop, activity: pd.DataFrame) -> Iterator[CauseEvidence]:
    system, library = loop.on_main_thread(trace.osrt), loop_calls(trace.library, trace, loop, activity)
    outputs: dict[str, Topic] = {str(name): "output" for name in system["name"].cat.categories if _OUTPUT.fullmatch(name)}
    yield CauseEvidence(SYSTEM, cover_events(system), label_events(system, outputs))
    yield CauseEvidence(LIBRARY, cover_events(library), label_events(library))


def _find_beside(trace: Trace, loop: Loop) -> CauseEvidence:
    """Return when other threads of the loop's process run transforms, and so share Python's lock with it.

    When they wait for the GPU they do not hold the lock.
    """
    transforms = loop.transforms[(loop.transforms["process"] == loop.process) & (loop.transforms["thread"] != loop.thread)]
    waits = waits_of_threads(trace.api, loop.process, transforms["thread"].unique())
    working = difference(cover_events(transforms), cover_events(waits))
    return CauseEvidence(BESIDE, working, label_events(transforms), most=True)


def _split_transforms(loop: Loop) -> tuple[Labels, Labels]:
    """Return what other threads and processes, and what the main thread, were transforming: the innermost at each moment."""
    elsewhere, own = [loop.transforms.iloc[:0]], [loop.transforms.iloc[:0]]
    for place, events in loop.transforms.groupby(["process", "thread"], sort=True):
        pieces, owner = innermost(*bounds_of(events))
        seen = events.iloc[owner].assign(start_ns=pieces.start, end_ns=pieces.end)
        (own if place == (loop.process, loop.thread) else elsewhere).append(seen)
    return label_events(pd.concat(elsewhere)), label_events(pd.concat(own))


def _open_ranges(loop: Loop, phases: pd.DataFrame) -> Labels:
    """Return which range of the loop's thread was open at each moment: the innermost, a phase or a detail of it."""
    ranges = _join_ranges(phases, loop.details)
    pieces, owner = innermost(*bounds_of(ranges))
    outputs: dict[str, Topic] = {str(name): "output" for name in ranges["name"].cat.categories if writes(str(name))}
    return Labels(pieces.start, pieces.end, ranges["name"].array[owner], outputs)


def _join_ranges(*tables: pd.DataFrame) -> pd.DataFrame:
    """Return start_ns, end_ns and name of several tables' ranges."""
    names = join_names([table["name"].array for table in tables])
    return pd.concat([table[["start_ns", "end_ns"]] for table in tables], ignore_index=True).assign(name=names)


def _either(some: Intervals, others: Intervals) -> Intervals:
    return union(np.append(some.start, others.start), np.append(some.end, others.end))
