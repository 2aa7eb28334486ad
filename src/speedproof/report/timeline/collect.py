"""From a trace to its timeline: iterations, idle stretches with their causes, streams of GPUs, threads."""

import heapq
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from speedproof.results.summary import IterationUnit
from speedproof.results.trace_tables import only_operators, read_table
from speedproof.trace.attribution import attribute_activity
from speedproof.trace.causes import OVERHEAD
from speedproof.trace.events import Names, Trace, make_names, read_events, rename, to_frame
from speedproof.trace.idle_gaps import find_idle_gaps
from speedproof.trace.intervals import Array
from speedproof.trace.iterations import Choice, without_numbers
from speedproof.trace.kernel_groups import group_of
from speedproof.trace.loop import CHOOSES_NOTHING, Loop, find_loop
from speedproof.util.numbers import format_count
from speedproof.util.text import printable, shorten

# What a row is about, which decides how it is drawn.
LaneKind = Literal["iterations", "idle", "stream", "ranges", "operators", "calls", "system", "overhead"]

NAMELESS = 0  # the number of the empty name


@dataclass(frozen=True)
class Lane:
    """Events of which none begins before the one before has ended: n of them, times in nanoseconds of the trace."""

    start: Array
    end: Array
    name: Array  # numbers of names
    note: Array  # numbers of names: of a kernel the phase that caused it, of an idle stretch the cause's detail

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True)
class LaneRow:
    """What belongs together: a GPU's stream, a thread's ranges. An event of a deeper lane lies on one of the lane above."""

    label: str
    kind: LaneKind
    lanes: list[Lane]

    @property
    def events(self) -> int:
        """Return how many events there are."""
        return sum(map(len, self.lanes))


@dataclass(frozen=True)
class Timeline:
    """One trace's. Each name has a group: of kernels what they compute, of calls whether they wait."""

    title: str
    start_ns: int  # of what it is about, the first iteration
    end_ns: int
    names: list[str]  # the first is empty
    groups: list[str]  # of each name
    rows: list[LaneRow]
    remarks: list[str]  # what does not stand in it
    unit: IterationUnit = "iteration"  # what iterations are called

    @property
    def events(self) -> int:
        """Return how many events there are."""
        return sum(row.events for row in self.rows)


def stack_events(start: Array, end: Array, name: Array, note: Array | None = None) -> list[Lane]:
    """Return the events in as few lanes as they need, each in the uppermost that is free when it begins.

    Ranges that nest thus lie below the ones that hold them. The arrays (n) need no order.
    """
    note = np.full(len(start), NAMELESS) if note is None else note
    order = np.lexsort((-end, start))
    start, end, name, note = (np.asarray(column, np.int64)[order] for column in (start, end, name, note))
    lane = _find_lanes(start, np.maximum(end, start + 1))  # what lasts no time has a place of its own, too
    chosen = (lane == number for number in range(int(lane.max(initial=-1)) + 1))
    return [Lane(start[these], end[these], name[these], note[these]) for these in chosen]


def _find_lanes(start: Array, end: Array) -> Array:
    """Return the lane of each event, in order of start and, of one start, the longest first."""
    # Where events nest, the lane is the number of those that are open: all that began, without those that ended.
    depth = np.arange(len(start)) - np.searchsorted(np.sort(end), start, side="right")
    by_lane = np.argsort(depth, kind="stable")
    follows = depth[by_lane][1:] == depth[by_lane][:-1]
    if not (follows & (start[by_lane][1:] < end[by_lane][:-1])).any():
        return depth
    lane, free, open_ = np.empty(len(start), np.int64), list[int](), list[tuple[int, int]]()
    for number, (begin, stop) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        while open_ and open_[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(open_)[1])
        lane[number] = heapq.heappop(free) if free else len(open_)
        heapq.heappush(open_, (stop, int(lane[number])))
    return lane


# Groups of names other than kernels.
COPY, CALL, WAIT, ITERATION = "copy or fill", "call", "call that may wait", "iteration"
_WAITS = re.compile(r"Synchronize|Malloc|MemAlloc|Free|HostAlloc|cudaMemcpy($|2D|3D)|cuMemcpy(HtoD|DtoH|DtoD)?($|_)")
_SERIAL = re.compile(r", (seq|op_id|sizes) = .*")  # what tells one call of an operator from another
_LONGEST_NAME = 400  # C++ names of kernels have thousands of characters, of which the middle tells least
_COLUMNS = ["start_ns", "end_ns", "process", "thread", "name"]


def read_timeline(title: str, folder: Path, choice: Choice = CHOOSES_NOTHING) -> Timeline:
    """Return the timeline of a trace.

    Args:
        title: its name
        folder: the trace, as :mod:`speedproof.results.trace_tables` describes it
        choice: the user's choice of its loop

    Raises:
        RecordError: there is no readable trace, or it is empty

    """
    trace = read_events(folder)
    loop = find_loop(trace, choice)
    numbers = Numbers()
    rows = [
        _collect_iterations(loop, numbers),
        *_collect_gpus(trace, loop, numbers),
        *_collect_threads(trace, loop, numbers),
    ]
    return Timeline(
        title=_make_plain(title),
        start_ns=int(loop.spans.start[0]),
        end_ns=int(loop.spans.end[-1]),
        names=numbers.names,
        groups=numbers.groups,
        rows=[row for row in rows if row.events],
        remarks=_remark_open_ranges(trace.open_ranges),
        unit=loop.iterations.found.unit,
    )


class Numbers:
    """Each name once, with its group: events have its number."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], int] = {("", ""): NAMELESS}

    @property
    def names(self) -> list[str]:
        """Return the names by number."""
        return [name for name, _ in self._known]

    @property
    def groups(self) -> list[str]:
        """Return the names' groups by number."""
        return [group for _, group in self._known]

    def number(self, names: Names, find_group: Callable[[str], str] = lambda name: "") -> Array:
        """Return the number of each name of a column, of the empty name for a missing one."""
        used, codes = np.unique(names.codes, return_inverse=True)
        known = [self._find(str(names.categories[code]), find_group) if code >= 0 else NAMELESS for code in used]
        return np.array(known, np.int64)[codes]

    def _find(self, name: str, find_group: Callable[[str], str]) -> int:
        return self._known.setdefault((_make_plain(name), find_group(name)), len(self._known))


def _make_plain(name: str) -> str:
    """Return a name as it can be shown on one line."""
    return shorten(printable(" ".join(name.split())), _LONGEST_NAME)


def _collect_iterations(loop: Loop, numbers: Numbers) -> LaneRow:
    found = loop.iterations.found
    spans = loop.spans
    own = [number if number >= 0 else index for index, number in enumerate(loop.epochs["number"].tolist(), start=1)]
    names = numbers.number(make_names(np.arange(len(spans)), [f"{found.unit} {number}" for number in own]))
    return LaneRow(found.plural, "iterations", [Lane(spans.start, spans.end, names, np.zeros_like(names))])


def _collect_gpus(trace: Trace, loop: Loop, numbers: Numbers) -> Iterator[LaneRow]:
    """Yield the idle stretches of the loop's GPUs, and each stream of each GPU of the trace."""
    activity = attribute_activity(trace, loop)
    idle_gaps = find_idle_gaps(trace, loop, activity)
    if len(idle_gaps):
        yield _make_row(
            "no kernel runs",
            "idle",
            idle_gaps,
            numbers.number(idle_gaps["cause"].array),
            numbers.number(idle_gaps["detail"].array),
        )
    others = trace.activity[~trace.activity["device"].isin(activity["device"].unique())]
    phases = np.append(numbers.number(loop.phases["name"].array), NAMELESS)
    caused = np.concatenate([phases[activity["phase"].to_numpy()], np.full(len(others), NAMELESS)])
    work = pd.concat([activity[others.columns], others], ignore_index=True).assign(note=caused)
    streams: dict[Any, pd.DataFrame] = dict(list(work.groupby(["device", "stream"])))
    for (device, stream), these in sorted(streams.items(), key=lambda item: (item[0][0], -_sum_times(item[1]))):
        kernels, copies = these[these["kernel"]], these[~these["kernel"]]
        whole = pd.concat([kernels, copies])
        names = np.concatenate(
            [numbers.number(kernels["name"].array, group_of), numbers.number(copies["name"].array, _group_copy)]
        )
        yield _make_row(f"GPU {device}, stream {stream}", "stream", whole, names, whole["note"].to_numpy())


def _collect_threads(trace: Trace, loop: Loop, numbers: Numbers) -> Iterator[LaneRow]:
    """Yield what each thread does, the loop's own first, then the busiest: a row each for its ranges, operators, calls."""
    tables: list[tuple[str, LaneKind, pd.DataFrame, Callable[[str], str]]] = [
        ("ranges", "ranges", trace.ranges, partial(_group_range, loop.iterations.found.name)),
        ("operators", "operators", _read_operators(trace), _group_nothing),
        ("CUDA calls", "calls", trace.api, _group_call),
        ("library calls", "calls", trace.library, _group_nothing),
        ("system calls", "system", trace.osrt, _group_nothing),
    ]
    labels = _label_threads(trace, loop)
    groups: list[dict[Any, pd.DataFrame]] = [dict(list(table.groupby(["process", "thread"]))) for _, _, table, _ in tables]
    places = {place: sum(_sum_times(group.get(place)) for group in groups) for group in groups for place in group}
    mine = (loop.process, loop.thread)
    for place in sorted(places, key=lambda place: (place != mine, -places[place], place)):
        for (what, kind, _, find_group), group in zip(tables, groups, strict=True):
            if place in group:
                events = group[place]
                label = f"{labels.get(place) or 'a thread'}: {what}"
                yield _make_row(label, kind, events, numbers.number(events["name"].array, find_group))
    work = trace.overhead
    on_loop = ((work["process"] == mine[0]) & (work["thread"] == mine[1])).to_numpy()
    for label, these in ((labels.get(mine) or "loop's thread", work[on_loop]), ("other threads", work[~on_loop])):
        names = numbers.number(make_names(np.zeros(len(these), int), [OVERHEAD]))
        yield _make_row(f"{label}: the profiler's work", "overhead", these, names)


def _sum_times(events: pd.DataFrame | None) -> int:
    return 0 if events is None else int((events["end_ns"] - events["start_ns"]).sum())


def _make_row(label: str, kind: LaneKind, events: pd.DataFrame, names: Array, notes: Array | None = None) -> LaneRow:
    start, end = events["start_ns"].to_numpy(), events["end_ns"].to_numpy()
    return LaneRow(_make_plain(label), kind, stack_events(start, end, names, notes))


def _read_operators(trace: Trace) -> pd.DataFrame:
    """Return the framework's own ranges (`emit_nvtx`) and operators (kineto)."""
    ranges = read_table(trace.folder, "ranges", _COLUMNS)
    marked = only_operators(ranges.filter(pc.is_valid(ranges["end_ns"])))
    recorded = read_table(trace.folder, "operators", _COLUMNS)
    return rename(to_frame(pa.concat_tables([marked, recorded])), lambda name: _SERIAL.sub("", name))


def _label_threads(trace: Trace, loop: Loop) -> dict[tuple[int, int], str]:
    """Return what to call each thread: by its role and the name that the system knows; numbers are the trace's."""
    threads = read_table(trace.folder, "threads", ["process", "thread", "main", "name"])
    labels = {}
    for row in threads.filter(pc.and_(pc.is_valid(threads["process"]), pc.is_valid(threads["thread"]))).to_pylist():
        place = (row["process"], row["thread"])
        role = (
            "loop's thread" if place == (loop.process, loop.thread) else "main thread" if row["main"] else f"thread {place[1]}"
        )
        name = f" ({row['name']})" if row["name"] else ""
        labels[place] = f"{role}{name}{f' of process {place[0]}' if place[0] != loop.process else ''}"
    return labels


def _remark_open_ranges(count: int) -> list[str]:
    if not count:
        return []
    return [f"{format_count(count, 'range')} never ended and {'is' if count == 1 else 'are'} not drawn"]


def _group_nothing(name: str) -> str:
    return ""


def _group_range(iteration: str, name: str) -> str:
    return ITERATION if name == iteration or without_numbers(name) == iteration else ""


def _group_copy(name: str) -> str:
    return COPY


def _group_call(name: str) -> str:
    return WAIT if _WAITS.search(name) else CALL
