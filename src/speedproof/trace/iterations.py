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
from speedproof.trace.families import FILLED, choose_family, disjoint
from speedproof.trace.intervals import Intervals, holder
from speedproof.trace.launched_work import order_by_launch, order_kernels
from speedproof.trace.roles import EPOCH, OPTIMIZER, is_optimizer_step, runs_engine
from speedproof.trace.unmarked_loops import (
    FAR,
    LoopPattern,
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

_NUMBER = re.compile(r"#*\d+")
# What torch.compile calls a graph, by a hash; its start tells graphs apart.
_COMPILED_GRAPH = re.compile(r"(?:## Call )?(?P<short>CompiledFxGraph \w{8})\w*(?: ##)?")
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
    pattern: LoopPattern | None = None  # what repeats, where no range holds an iteration
    set_aside: list[str] = field(default_factory=list)  # which ranges repeat but do not count, and why


def without_numbers(name: str) -> str:
    """Give `Step 10 to 20` and its siblings one name, `Step # to #`; a compiled graph's name only becomes short."""
    if graph := _COMPILED_GRAPH.fullmatch(name):
        return graph["short"]
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
    marked, set_aside = _take_repeating(trace)
    if marked is not None:
        return marked
    unmarked = _take_unmarked(trace)
    if unmarked is None or unmarked.bounds.empty:
        notes = [] if unmarked is None else unmarked.notes
        unmarked = _take_optimizer_steps(trace) or _take_whole(trace, notes=notes)
    return unmarked if unmarked.found.by == "ranges" else replace(unmarked, set_aside=set_aside)


def _take_first(all_of_them: Iterations, most_on_gpus: int) -> Iterations:
    """Return the first iterations, as many as are analysed at most."""
    found, most = all_of_them.found, min(_MOST_ITERATIONS, max(most_on_gpus, 1))
    beyond = len(all_of_them.bounds) - most
    if beyond <= 0:
        return all_of_them
    note = f"only the first {most} {found.plural} are analyzed: the {beyond} after them would take too much memory"
    kept = found.model_copy(update={"left_out": found.left_out + beyond})
    return replace(all_of_them, bounds=all_of_them.bounds.iloc[:most], found=kept, notes=[*all_of_them.notes, note])


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
    return _note_empty(_span(trace, process, thread, str(mine["name"].iloc[0]), disjoint(mine), disjoint(everything)), mine)


def _note_empty(iterations: Iterations, ranges: pd.DataFrame) -> Iterations:
    """State how many of the ranges that mark iterations are of no length, and mark none."""
    empty, found = int((ranges["start_ns"] >= ranges["end_ns"]).sum()), iterations.found
    if not empty:
        return iterations
    note = f"{empty} of {len(ranges)} ranges `{found.name}` have no duration, and are left out"
    kept = found.model_copy(update={"left_out": found.left_out + empty})
    return replace(iterations, found=kept, notes=[*iterations.notes, note])


def _take_repeating(trace: Trace) -> tuple[Iterations | None, list[str]]:
    """Return the iterations of the family that repeats on the loop's thread and holds most.

    If there is none, return which families repeat, and why they are none.
    """
    process, main = find_main_thread(trace)
    launches = trace.activity.loc[(trace.activity["process"] == process) & (trace.activity["launch"] >= 0), "launch"]
    thread = launching_thread(trace.api.iloc[launches.to_numpy()], main)
    if _on(trace.ranges, process, thread).empty:
        thread = main  # another one launches for it
    ranges = _on(rename(trace.ranges, without_numbers), process, thread)
    calls = _on(trace.api, process, thread)["start_ns"].to_numpy()
    work = order_by_launch(trace, process)
    name, set_aside = choose_family(_without_layers(ranges), calls, work, lambda: order_kernels(trace, process).latest)
    if name is None:
        return None, set_aside
    mine = ranges[ranges["name"] == name]
    spans = disjoint(mine)
    return _note_empty(_span(trace, process, thread, name, spans, spans), mine), []


def _take_unmarked(trace: Trace) -> Iterations | None:
    """Return the iterations that ranges or kernels show which come again and again, None where nothing repeats.

    Iterations without bounds say that what repeats is too little of the loop.
    """
    process, thread = find_main_thread(trace)
    ranges = with_names(_on(trace.ranges, process, thread), lambda name: not name.startswith(OPTIMIZER))
    ranges = ranges.assign(name=ranges["name"].cat.remove_unused_categories())
    tables = (ranges, rename(ranges, without_numbers))
    siblings = next(filter(None, (find_sibling_loop(table, thread) for table in tables)), None)
    engine = _take_engine(trace) if siblings is None else None
    if engine is not None:
        return engine
    loop = choose_longer(find_kernel_loop(trace, process, thread), siblings)
    if loop is None:
        return None
    return Iterations(
        process=process,
        thread=loop.thread,
        name=loop.found.name,
        bounds=pd.DataFrame({"start_ns": loop.pieces.start, "end_ns": loop.pieces.end}),
        found=loop.found,
        notes=loop.notes,
        on_gpu=loop.on_gpu,
        pattern=loop.pattern,
    )


def _take_engine(trace: Trace) -> Iterations | None:
    """Return the calls of an inference engine, whose own ranges inside of them are layers; None if it was not called."""
    names = [str(name) for name in trace.ranges["name"].cat.categories if runs_engine(str(name))]
    return _take_named(trace, names[:1]) if names else None


def _take_optimizer_steps(trace: Trace) -> Iterations | None:
    """Return iterations of one optimizer's steps, of several that which steps most, None where none steps twice."""
    steps = trace.ranges["name"].value_counts()  # the most frequent first
    name = next((str(name) for name, count in steps.items() if count > 1 and is_optimizer_step(str(name))), None)
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
    if covered < FILLED and len(family) > 1:
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
    if after.empty or np.median(open_ns) > (1 - FILLED) * np.median(whole_ns):
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
