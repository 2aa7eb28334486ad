"""A loop's iterations in a trace: what the user names, or the ranges that repeat and hold most of what their thread does.

Ranges whose names differ in numbers alone (`step 12`, `Batch7`, `ProfilerStep#3`) are one *family*. Where a family's ranges
fill the time from its first to its last, each of them is an iteration. Where they do not, the loop does something between them
that belongs to it (loading data, validation): then an iteration lasts from one range's start to the next one's, and the last
one until what follows each of them has ended. Where no ranges repeat, kernels may (:mod:`speedproof.trace.repetition`), or an
optimizer's steps, which torch's profiler marks by itself; where nothing does, the trace is one stretch.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import pandas as pd

from speedproof.results.summary import Candidate, Found, IterationUnit
from speedproof.trace.events import Trace, bounds_of, rename, with_names
from speedproof.trace.intervals import Array, Intervals, holder, outermost
from speedproof.trace.launched_work import LaunchedWork, order_by_launch
from speedproof.trace.repetition import are_alike
from speedproof.trace.roles import EPOCH, runs_engine
from speedproof.trace.unmarked_loops import (
    FAR,
    choose_longer,
    find_kernel_loop,
    find_sibling_loop,
    launching_thread,
    leave_far,
)
from speedproof.util.errors import RecordError
from speedproof.util.units import NS_PER_S

WHOLE_TRACE = "whole trace"
_STEP_OF_TORCH = re.compile(r"ProfilerStep#\d+")  # what torch.profiler calls a step
_OPTIMIZER = "Optimizer."  # what torch.profiler marks of each optimizer
_STEP_OF_OPTIMIZER = f"{_OPTIMIZER}step#"  # before its class

_NUMBER = re.compile(r"#*\d+")
_ENOUGH = 0.5  # ranges that nobody named must hold this share of what begins on their thread while they last
_FILLED = 0.9  # ranges that cover this share of their span are the iterations; else these last from start to start
_MOST_CANDIDATES = 8
# What is known of each iteration, and of each GPU in it, takes about 20 kB of memory and 1 kB of `summary.json`.
_MOST_ITERATIONS, _MOST_ON_GPUS = 50_000, 400_000


@dataclass(frozen=True)
class Choice:
    """What the user specified about the loop; the rest is detected."""

    epoch: str | None = None  # a regular expression of an iteration's whole name, with its number or with # in its place
    phases: dict[str, str] = field(default_factory=dict)  # a phase's name, and a regular expression of its ranges'
    process: int | None = None  # None: the one, of those with iterations, that kept a GPU busy longest
    whole: bool = False  # the trace is one stretch
    as_marked: bool = False  # iterations are their ranges, also where these leave gaps between them
    unmarked: bool = False  # no range counts, as if the program had none


@dataclass(frozen=True)
class Iterations:
    """Where a loop's iterations lie, and how they were found."""

    process: int
    thread: int
    name: str  # of their ranges' family
    bounds: pd.DataFrame  # start_ns, end_ns; in order, disjoint
    found: Found
    ranges: Intervals | None = None  # the family's ranges, where the iterations last from start to start
    candidates: list[Candidate] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    on_gpu: bool = False  # whether their bounds are moments of the GPU's work, not of the host's


def without_numbers(name: str) -> str:
    """Give `Step 10 to 20` and its siblings one name, `Step # to #`."""
    return _NUMBER.sub("#", name)


def name_unit(name: str) -> IterationUnit:
    for unit in ("epoch", "step"):
        if unit in name.lower():
            return unit
    return "stretch" if name == WHOLE_TRACE else "iteration"


def find_iterations(trace: Trace, choice: Choice) -> Iterations:
    """Find a loop's iterations.

    Raises:
        RecordError: the trace has no such process, or no range's name matches the pattern

    """
    if choice.process is not None:
        trace = _only_process(trace, choice.process)
    if choice.whole:
        return _take_whole(trace, "choice")
    names = [str(name) for name in trace.ranges["name"].cat.categories]
    if choice.epoch is not None:
        found = _take_named(trace, _match_names(trace, names, choice.epoch))
    elif EPOCH in names:
        found = _take_named(trace, [EPOCH])
    elif steps := _list_steps_of_torch(trace, names):
        found = _take_named(trace, steps)
    elif trace.of_operators:
        found = _take_whole(trace)  # what repeats among operators are a model's layers
    else:
        found = _take_found(trace)
    if choice.as_marked and found.ranges is not None:
        found = _as_marked(found, found.ranges)
    found = _take_first(found, _MOST_ON_GPUS // max(trace.activity["device"].nunique(), 1))
    return replace(found, candidates=_list_candidates(trace, found.process, found.thread))


def _list_steps_of_torch(trace: Trace, names: Sequence[str]) -> list[str]:
    """Return the names of torch's steps if these alone tell the iterations, else none.

    One alone does not repeat, and what repeats in it is less than a step. Those of another thread than the main one are its
    loop's, whatever repeats on the main thread.
    """
    steps = [name for name in names if _STEP_OF_TORCH.fullmatch(name)]
    main = _on(trace.ranges, *find_main_thread(trace))["name"]
    return steps if len(steps) == 1 or not main.isin(steps).any() else []


def _take_found(trace: Trace) -> Iterations:
    unmarked = _take_repeating(trace) or _take_unmarked(trace)
    if unmarked is not None and not unmarked.bounds.empty:
        return unmarked
    return _take_optimizer_steps(trace) or _take_whole(trace, notes=[] if unmarked is None else unmarked.notes)


def _take_first(all_of_them: Iterations, most_on_gpus: int) -> Iterations:
    """Return the first iterations, as many as are analysed at most."""
    found, most = all_of_them.found, min(_MOST_ITERATIONS, max(most_on_gpus, 1))
    beyond = len(all_of_them.bounds) - most
    if beyond <= 0:
        return all_of_them
    note = f"only the first {most} {found.plural} are analyzed: the {beyond} after them would take too much memory"
    kept = found.model_copy(update={"left_out": found.left_out + beyond})
    return replace(all_of_them, bounds=all_of_them.bounds.iloc[:most], found=kept, notes=[*all_of_them.notes, note])


def disjoint(ranges: pd.DataFrame) -> Intervals:
    """Return the bounds of the ranges that lie in no other and are not empty, in order."""
    start, end = bounds_of(ranges)
    start, end = start[start < end], end[start < end]
    kept = outermost(start, end)
    return Intervals(start[kept], end[kept])


def match_names(names: Sequence[str], pattern: str, what: str) -> list[str]:
    """Return the names that a regular expression matches as a whole, with their numbers or without."""
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise RecordError(f"{what} pattern `{pattern}`: not a valid regular expression ({error}); correct it") from None
    return [name for name in names if expression.fullmatch(name) or expression.fullmatch(without_numbers(name))]


def _only_process(trace: Trace, process: int) -> Trace:
    """Return the trace as one of its processes sees it; a :class:`RecordError` names those that there are."""
    tables = {name: getattr(trace, name) for name in ("ranges", "activity", "api", "threads")}
    known = sorted({number for table in tables.values() for number in table["process"].unique().tolist() if number >= 0})
    if process not in known:
        raise RecordError(trace.folder, f": no process {process}; the trace has {', '.join(map(str, known))}")
    mine = {name: table[table["process"] == process] for name, table in tables.items()}
    rows = np.append(np.cumsum(trace.api["process"] == process) - 1, -1)  # of its calls, by those of all
    mine["activity"] = mine["activity"].assign(launch=rows[mine["activity"]["launch"].to_numpy()])
    mine["ranges"] = mine["ranges"].assign(name=mine["ranges"]["name"].cat.remove_unused_categories())
    return replace(trace, **mine)


def _match_names(trace: Trace, names: Sequence[str], pattern: str) -> list[str]:
    matching = match_names(names, pattern, "epoch")
    if not matching:
        families = list(dict.fromkeys(map(without_numbers, names)))
        examples = ", ".join(f"`{name}`" for name in families[:5]) or "none"
        raise RecordError(trace.folder, f": no range matches the epoch pattern `{pattern}`; there are {examples}; correct it")
    return matching


def _take_named(trace: Trace, names: Sequence[str]) -> Iterations:
    """Return the iterations of these names: those of the busiest process that has some."""
    named = trace.ranges[trace.ranges["name"].isin(names)]
    process, thread = _busiest(trace, named[["process", "thread"]].drop_duplicates())
    mine = _on(named, process, thread)
    # Those of the same families whose numbers were not asked for end what lies before them.
    families = set(map(without_numbers, mine["name"].unique().astype(str)))
    siblings = [name for name in trace.ranges["name"].cat.categories if without_numbers(str(name)) in families]
    everything = _on(trace.ranges[trace.ranges["name"].isin(siblings)], process, thread)
    return _span(trace, process, thread, str(mine["name"].iloc[0]), disjoint(mine), disjoint(everything))


def _take_repeating(trace: Trace) -> Iterations | None:
    """Return the iterations of the family that repeats on the loop's thread and holds most, None where none does."""
    process, main = find_main_thread(trace)
    launches = trace.activity.loc[(trace.activity["process"] == process) & (trace.activity["launch"] >= 0), "launch"]
    thread = launching_thread(trace.api.iloc[launches.to_numpy()], main)
    if _on(trace.ranges, process, thread).empty:
        thread = main  # another one launches for it
    ranges = _on(rename(trace.ranges, without_numbers), process, thread)
    calls = _on(trace.api, process, thread)["start_ns"].to_numpy()
    name = _repeating_name(_without_layers(ranges), calls, order_by_launch(trace, process))
    if name is None:
        return None
    spans = disjoint(ranges[ranges["name"] == name])
    return _span(trace, process, thread, name, spans, spans)


def _take_unmarked(trace: Trace) -> Iterations | None:
    """Return the iterations that ranges or kernels show which come again and again, None where nothing repeats.

    Iterations without bounds say that what repeats is too little of the loop.
    """
    process, thread = find_main_thread(trace)
    ranges = with_names(_on(trace.ranges, process, thread), lambda name: not name.startswith(_OPTIMIZER))
    ranges = ranges.assign(name=ranges["name"].cat.remove_unused_categories())
    tables = (ranges, rename(ranges, without_numbers))
    siblings = next(filter(None, (find_sibling_loop(table, thread) for table in tables)), None)
    engine = _take_engine(trace) if siblings is None else None
    if engine is not None:
        return engine
    loop = choose_longer(find_kernel_loop(trace, process, thread), siblings)
    if loop is None:
        return None
    bounds = pd.DataFrame({"start_ns": loop.pieces.start, "end_ns": loop.pieces.end})
    return Iterations(process, loop.thread, loop.found.name, bounds, loop.found, on_gpu=loop.on_gpu, notes=loop.notes)


def _take_engine(trace: Trace) -> Iterations | None:
    """Return the calls of an inference engine, whose own ranges inside of them are layers; None if it was not called."""
    names = [str(name) for name in trace.ranges["name"].cat.categories if runs_engine(str(name))]
    return _take_named(trace, names[:1]) if names else None


def _take_optimizer_steps(trace: Trace) -> Iterations | None:
    """Return iterations of one optimizer's steps, of several that which steps most, None where none steps twice."""
    steps = trace.ranges["name"].value_counts()  # the most frequent first
    name = next((str(name) for name, count in steps.items() if count > 1 and str(name).startswith(_STEP_OF_OPTIMIZER)), None)
    return None if name is None else _take_named(trace, [name])


def _take_whole(trace: Trace, by: Literal["choice", "nothing"] = "nothing", notes: Sequence[str] = ()) -> Iterations:
    process, thread = find_main_thread(trace)
    tables = [table for table in (trace.ranges, trace.activity, trace.api) if not table.empty]
    start_ns, end_ns = min(t["start_ns"].min() for t in tables), max(t["end_ns"].max() for t in tables)
    found = Found(unit="stretch", by=by, name=WHOLE_TRACE, coverage=1.0, left_out=0)
    bounds = pd.DataFrame({"start_ns": [start_ns], "end_ns": [end_ns]})
    return Iterations(process, thread, WHOLE_TRACE, bounds, found, notes=list(notes))


def _span(trace: Trace, process: int, thread: int, name: str, spans: Intervals, family: Intervals) -> Iterations:
    """Return iterations that are a family's ranges, or, where these leave gaps, last from start to start."""
    covered = int(family.length.sum()) / int(family.end[-1] - family.start[0]) if len(family) else 1.0
    found = Found(unit=name_unit(name), by="ranges", name=without_numbers(name), coverage=min(covered, 1.0), left_out=0)
    ranges, notes = None, list[str]()
    if covered < _FILLED and len(family) > 1:
        last_end = _find_end_of_last(_on(trace.ranges, process, thread), family)
        end = np.append(family.start[1:], family.end[-1] if last_end is None else last_end)
        which = np.searchsorted(family.start, spans.start)
        ended = which < len(family) - (last_end is None)
        near, far = leave_far(Intervals(spans.start[ended], end[which[ended]]))
        found.left_out = len(spans) - len(near)
        notes.append(
            f"ranges `{found.name}` cover {covered:.0%} of the time from the first to the last of them: "
            f"{found.one} lasts from the start of one to that of the next"
            f"{'' if last_end is None else ', the last to the end of what follows each'}"
        )
        if far:
            notes.append(f"{far} of them are followed by a gap, more than {FAR} times as long as usual, and are left out")
        ranges, spans = spans, near
    bounds = pd.DataFrame({"start_ns": spans.start, "end_ns": spans.end})
    return Iterations(process, thread, name, bounds, found, ranges, notes=notes)


def _find_end_of_last(ranges: pd.DataFrame, family: Intervals) -> int | None:
    """Return where what follows the last of a family's ranges ends, if it follows the others, too, nearly up to the next one.

    Of each name, at most as many ranges count as follow one of the others: later ones are outside the loop.

    Args:
        ranges: those of the family's thread
        family: two or more, in order, disjoint

    """
    start, end = bounds_of(ranges)
    followed = np.searchsorted(family.end, start, side="right") - 1
    # One that lasts into the next of the family is around it, and does not follow this one.
    between = (
        (followed >= 0) & (holder(family, start) < 0) & (end <= np.append(family.start[1:], np.iinfo(np.int64).max)[followed])
    )
    following = rename(ranges[between], without_numbers).assign(followed=followed[between])
    last = len(family) - 1
    others, after = following[following["followed"] < last], following[following["followed"] == last]
    reached = others.groupby("followed")["end_ns"].max().reindex(range(last)).fillna(pd.Series(family.end[:-1]))
    open_ns, whole_ns = family.start[1:] - reached.to_numpy(), np.diff(family.start)
    if after.empty or np.median(open_ns) > (1 - _FILLED) * np.median(whole_ns):
        return None
    most = others.groupby(["name", "followed"], observed=True).size().groupby("name", observed=True).max()
    after = after.sort_values("start_ns", kind="stable")
    after = after[after.groupby("name", observed=True).cumcount() < after["name"].astype(str).map(most).fillna(0)]
    return None if after.empty else int(after["end_ns"].max())


def _as_marked(reaching: Iterations, ranges: Intervals) -> Iterations:
    bounds = pd.DataFrame({"start_ns": ranges.start, "end_ns": ranges.end})
    found = reaching.found.model_copy(update={"left_out": 0})
    return replace(reaching, bounds=bounds, found=found, ranges=None, notes=[])


def _busiest(trace: Trace, places: pd.DataFrame) -> tuple[int, int]:
    """Return the process and thread, of those given, whose process kept a GPU busy longest; the first of equals."""
    busy = (trace.activity["end_ns"] - trace.activity["start_ns"]).groupby(trace.activity["process"]).sum()
    best = places["process"].map(busy).fillna(0).argmax()
    return int(places["process"].iloc[best]), int(places["thread"].iloc[best])


def find_main_thread(trace: Trace) -> tuple[int, int]:
    """Return the main thread of the process that kept a GPU busy longest; if none is marked, the one with most ranges."""
    for places in (trace.threads[trace.threads["main"]], trace.ranges, trace.api):
        if not places.empty:
            # Most rows first, so that of several threads the one that did most is taken.
            return _busiest(trace, places.value_counts(["process", "thread"], sort=True).index.to_frame(index=False))
    return int(trace.activity["process"].iloc[0]), 0


def _on(events: pd.DataFrame, process: int, thread: int) -> pd.DataFrame:
    return events[(events["process"] == process) & (events["thread"] == thread)]


def _without_layers(ranges: pd.DataFrame) -> pd.DataFrame:
    """Return the ranges of a thread without those inside of an inference engine's calls."""
    calls = with_names(ranges, runs_engine)
    if calls.empty:
        return ranges
    return ranges[(holder(disjoint(calls), ranges["start_ns"].to_numpy()) < 0) | ranges.index.isin(calls.index)]


def _repeating_name(ranges: pd.DataFrame, calls: Array, work: LaunchedWork) -> str | None:
    """Return the name whose ranges repeat, do not overlap, and hold most of what begins while they last.

    Of several, that which holds most, so that of nested ones it is the outer; of equals, that which repeats less often. If it
    holds less than half of the GPU's work, that which holds most of this work.

    Args:
        ranges: those of one thread
        calls: when its CUDA calls begin
        work: what its process launched

    """
    families: list[tuple[int, int, int, str]] = []  # by work, what begins in them, and how few they are
    everything = np.sort(np.append(ranges["start_ns"].to_numpy(), calls))
    around = ranges[~ranges["name"].duplicated(keep=False)]
    for name, mine in ranges.groupby("name", observed=True):
        spans = disjoint(mine)
        if len(spans) < 2 or len(spans) < int((mine["start_ns"] < mine["end_ns"]).sum()):
            continue
        inside = np.searchsorted(everything, spans.end) - np.searchsorted(everything, spans.start)
        held = int(inside.sum()) - len(spans)  # but for themselves
        lasting = int(np.searchsorted(everything, spans.end[-1]) - np.searchsorted(everything, spans.start[0])) - len(spans)
        if held >= _ENOUGH * lasting and are_alike(_lengths_of(spans)) and not _is_part(spans, around, work):
            families.append((_work_of(spans, work), held, -len(spans), str(name)))
    if not families:
        return None
    best = max(families, key=lambda family: family[1:3])
    return best[3] if best[0] >= _ENOUGH * int(work.summed_ns[-1]) else max(families, key=lambda family: family[:3])[3]


def _work_of(family: Intervals, work: LaunchedWork) -> int:
    """Return how long the GPU works on what is launched in a family's iterations."""
    near, _ = leave_far(
        Intervals(family.start, family.start + np.append(_lengths_of(family), family.length[-1:])[: len(family)])
    )
    first, last = (np.searchsorted(work.launch_ns, moments) for moments in (near.start, near.end))
    return int((work.summed_ns[last] - work.summed_ns[first]).sum())


def _lengths_of(family: Intervals) -> Array:
    """Return how long iterations last that are a family's ranges, or, where these leave gaps, last from start to start."""
    filled = int(family.length.sum()) >= _FILLED * int(family.end[-1] - family.start[0])
    return family.length if filled else np.diff(family.start)


def _is_part(family: Intervals, around: pd.DataFrame, work: LaunchedWork) -> bool:
    """Return whether a range that comes once holds the family and, for the GPU, mostly others: then these are its parts."""
    begin, end = int(family.start[0]), int(family.end[-1])
    holding = around[(around["start_ns"] <= begin) & (around["end_ns"] >= end)]
    whole_ns = min((work.sum_between(*bounds) for bounds in zip(*map(list, bounds_of(holding)), strict=True)), default=0)
    return work.sum_between(begin, end) < _ENOUGH * whole_ns


def _list_candidates(trace: Trace, process: int, thread: int) -> list[Candidate]:
    """Return the families whose ranges repeat one after the other on the loop's thread, the longest in all first."""
    ranges = _on(rename(trace.ranges, without_numbers), process, thread)
    lengths = (ranges["end_ns"] - ranges["start_ns"]).groupby(ranges["name"], observed=True).agg(["size", "sum"])
    longest = lengths[lengths["size"] > 1].sort_values("sum", ascending=False).index[:_MOST_CANDIDATES]
    found = []
    for name in longest:
        spans = disjoint(ranges[ranges["name"] == name])
        if len(spans) > 1 and (whole := int(spans.end[-1] - spans.start[0])):
            mean_s = float(spans.length.mean()) / NS_PER_S
            found.append(Candidate(name=str(name), count=len(spans), mean_s=mean_s, coverage=int(spans.length.sum()) / whole))
    return found
