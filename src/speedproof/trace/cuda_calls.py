"""Calls of CUDA's runtime and driver (or HIP's), as evidence: which wait, which launch, which load kernels."""

import re
from collections.abc import Iterable

import numpy as np
import pandas as pd

from speedproof.trace.events import Trace, are_named, bounds_of, choose, join_names, rename, with_names
from speedproof.trace.intervals import Array, Intervals, union
from speedproof.trace.loop import Loop
from speedproof.trace.roles import goes_backward
from speedproof.util.units import NS_PER_MS

# A call that returns when the GPU, or the memory's allocator, has done something. Copies of pageable memory are added:
# the driver has to stage them, so that even the asynchronous call waits.
_WAITS = re.compile(
    r"(cuda|cu|hip)(Device|Stream|Event|Ctx|Thread)Synchronize|(cuda|hip)Memcpy(2D|3D|ToSymbol|FromSymbol|WithStream)?"
    r"|(cu|hip)Memcpy(HtoD|DtoH|DtoD)?(_v2)?"
    r"|(cuda|cu|hip)(Malloc|MemAlloc|Free|MemFree|HostAlloc|HostMalloc|MemAllocHost|MallocHost|FreeHost|HostFree|MemFreeHost)(_v2)?"
)
_ALLOCATES = re.compile(r"(cuda|hip)(Malloc|HostAlloc|HostMalloc|MallocHost)|cuMem(Alloc|HostAlloc|AllocHost)(_v2)?")
_FREES = re.compile(r"(cuda|hip)(Free|FreeHost|HostFree)|cuMemFree(Host)?(_v2)?")
_LOADS = re.compile(r"(cuda|cu|hip)(Library|Module)Load\w*")
_LAUNCHES = re.compile(r"(cuda|cu|hip)(Launch|GraphLaunch|(Ext)?ModuleLaunch|ExtLaunch|Memcpy|Memset).*")
# Python needs some 10 us from one operator's launch to the next, several times that under a profiler.
BETWEEN_LAUNCHES_NS = 100_000
# A launch takes some microseconds. That of a kernel which is used for the first time loads it, which not every trace shows by
# a call of its own: then it takes so long, and so many times as long as others.
_LOADS_FROM_NS, _LOADS_FROM_TIMES = NS_PER_MS, 100


def loop_calls(calls: pd.DataFrame, trace: Trace, loop: Loop, activity: pd.DataFrame) -> pd.DataFrame:
    """Return which of these calls are of the loop's threads.

    These are its main one, those that go back through the graph, and those that launch but hold no ranges.
    A loader's thread, which launches transforms, holds their ranges and so is none of them.
    """
    if calls.empty:
        return calls
    launch = activity["launch"].to_numpy()[activity["phase"] >= 0]
    launching = pd.unique(trace.api["thread"].to_numpy()[launch])
    marked = pd.concat([loop.phases["thread"], loop.transforms["thread"][loop.transforms["process"] == loop.process]])
    backward = with_names(trace.host_calls, goes_backward)["thread"].unique()
    threads = ({*launching} - {*marked}) | {loop.thread, *backward}
    return choose(calls, ((calls["process"] == loop.process) & calls["thread"].isin(threads)).to_numpy())


def waiting_calls(calls: pd.DataFrame, activity: pd.DataFrame) -> pd.DataFrame:
    """Return the calls that wait, with their `topic`; copies of pageable memory under a name with that word."""
    staged = activity["launch"].to_numpy()[activity["pageable"].to_numpy()]
    pageable = np.isin(calls.index, staged, kind="table" if len(staged) else None)
    waiting = calls[~pageable & are_named(calls, _WAITS.fullmatch)]
    staging = rename(calls[pageable], "{} (pageable memory)".format)
    names = join_names([waiting["name"].array, staging["name"].array])
    memory = waiting.index.isin(with_names(waiting, is_about_memory).index)
    topic = np.append(np.where(memory, "allocation", ""), np.full(len(staging), "pageable memory"))
    return pd.concat([waiting, staging]).assign(name=names, topic=topic)


def is_about_memory(call: str) -> bool:
    return _ALLOCATES.fullmatch(call) is not None or is_free(call)


def is_free(call: str) -> bool:
    return _FREES.fullmatch(call) is not None


def launching_calls(calls: pd.DataFrame) -> pd.DataFrame:
    return with_names(calls, _LAUNCHES.fullmatch)


def waits_of_threads(calls: pd.DataFrame, process: int, threads: Iterable[int]) -> pd.DataFrame:
    """Return when these threads of a process wait for the GPU."""
    return with_names(calls[(calls["process"] == process) & calls["thread"].isin([*threads])], _WAITS.fullmatch)


def find_loading(calls: pd.DataFrame, launches: pd.DataFrame, activity: pd.DataFrame) -> Intervals:
    """Return when kernels are loaded: until the end of the launch that asked for it, if that follows soon on the same thread.

    The launch of a kernel that was just loaded takes milliseconds, in which the driver makes it ready.
    """
    loads = with_names(calls, _LOADS.fullmatch)
    start, end = bounds_of(loads)
    end = end.copy()
    for thread in pd.unique(loads["thread"]):
        here = (loads["thread"] == thread).to_numpy()
        asked = launches[launches["thread"] == thread].sort_values("start_ns")
        following = np.searchsorted(asked["start_ns"].to_numpy(), end[here])
        begun = np.append(asked["start_ns"].to_numpy(), np.iinfo(np.int64).max)[following]
        done = np.append(asked["end_ns"].to_numpy(), 0)[following]
        end[here] = np.where(begun - end[here] < BETWEEN_LAUNCHES_NS, done, end[here])
    none = np.zeros(0, np.int64)
    first = _find_slow_firsts(launches, activity) if loads.empty else (none, none)  # else the trace shows them
    return union(*(np.concatenate(pair) for pair in zip((start, end), first, strict=True)))


def _find_slow_firsts(launches: pd.DataFrame, activity: pd.DataFrame) -> tuple[Array, Array]:
    """Return the first launches of kernels that took so long that they must have loaded them, each until its kernel starts.

    A graph's launch takes long since it has many kernels.
    """
    kernels = np.flatnonzero(activity["kernel"] & (activity["launch"] >= 0))
    launch, name = activity["launch"].to_numpy()[kernels], activity["name"].array
    single = np.isin(launches.index, launch) & are_named(launches, lambda name: "Graph" not in name)
    row, (start, end) = launches.index.to_numpy(), bounds_of(launches)
    first_launch = np.full(len(name.categories), -1)
    first_launch[name.codes[kernels][::-1]] = launch[::-1]  # the last to be written stays: the first, in order of start
    first, took = single & np.isin(row, first_launch), end - start
    later = took[single & ~first]
    usual = float(np.median(later, overwrite_input=True)) if len(later) else 0.0
    slow = first & (took >= max(_LOADS_FROM_NS, _LOADS_FROM_TIMES * usual))
    launched = kernels[np.isin(launch, row[slow])]
    starts_ns = activity.iloc[launched].groupby("launch")["start_ns"].min()
    return start[slow], np.clip(starts_ns.reindex(row[slow]).to_numpy(np.int64), start[slow], end[slow])
