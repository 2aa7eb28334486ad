"""Families of ranges, whose names differ in numbers alone: which of them are a loop's iterations, and why others are not."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from speedproof.trace.events import bounds_of
from speedproof.trace.intervals import Array, Intervals, holder, outermost
from speedproof.trace.launched_work import LaunchedWork
from speedproof.trace.repetition import are_alike
from speedproof.trace.roles import is_library, is_optimizer_step
from speedproof.trace.unmarked_loops import leave_far
from speedproof.util.numbers import format_value

_ENOUGH = 0.5  # ranges that nobody named must hold this share of what begins on their thread while they last
FILLED = 0.9  # ranges that cover this share of their span are the iterations; else these last from start to start
_ALIKE = 0.75  # of a family's ranges must hold the same number of inner ones, so that they are the same work
_MOST_SET_ASIDE = 3  # named at most

_TOO_LITTLE = "less than half of the ranges and calls of their thread begin in them"
_UNEVEN = "they differ too much in length"
_PARTS = "they hold less than half of the GPU work of a range around them"


@dataclass(frozen=True)
class _Family:
    name: str
    spans: Intervals
    held: int  # ranges and calls that begin in its ranges, but for these themselves
    lasting: int  # the same, from the first of its ranges to the last


def disjoint(ranges: pd.DataFrame) -> Intervals:
    """Return the bounds of the ranges that lie in no other and are not empty, in order."""
    start, end = bounds_of(ranges)
    start, end = start[start < end], end[start < end]
    kept = outermost(start, end)
    return Intervals(start[kept], end[kept])


def choose_family(
    ranges: pd.DataFrame, calls: Array, work: LaunchedWork, kernels: Callable[[], LaunchedWork]
) -> tuple[str | None, list[str]]:
    """Return the name whose ranges repeat, do not overlap, and hold most of what begins while they last.

    Of several, that which holds most, so that of nested ones it is the outer; of equals, that which repeats less often. If it
    holds less than half of the GPU's work, that which holds most of this work. If there is none, also return which repeat, and
    why they are not chosen.

    Ranges of uneven lengths count if they lie around the chosen ones, or around an optimizer's steps, and each holds equally
    many of these: then they repeat the same work, and took different times for it.

    Args:
        ranges: those of one thread, of names without numbers
        calls: when its CUDA calls begin
        work: what its process launched
        kernels: returns the kernels of it

    """
    families: list[_Family] = []
    uneven: list[_Family] = []
    set_aside: list[tuple[int, int, str, str]] = []  # by work and number; why
    around = ranges[~ranges["name"].duplicated(keep=False)]
    everything = list(_list_families(ranges, calls))
    for family in everything:
        if why := _find_obstacle(family, around, work, kernels):
            set_aside.append((_sum_inside(family.spans, work), len(family.spans), family.name, why))
            uneven += [family] if why == _UNEVEN and not _is_part(family.spans, around, work) else []
        else:
            families.append(family)
    best = _choose_best(families, work)
    inner = [family for family in everything if is_optimizer_step(family.name)] if best is None else [best]
    if (outer := _choose_around(inner, uneven)) is not None:
        return outer.name, []
    return (None, _describe_largest(set_aside, work)) if best is None else (best.name, [])


def _choose_best(families: Sequence[_Family], work: LaunchedWork) -> _Family | None:
    held = [(_work_of(family.spans, work), family.held, -len(family.spans), family.name, family) for family in families]
    best = max(held, key=lambda one: one[1:3], default=None)
    if best is not None and best[0] < _ENOUGH * int(work.summed_ns[-1]):
        best = max(held, key=lambda one: one[:3])
    return None if best is None else best[-1]


def _choose_around(inner: Sequence[_Family], uneven: Sequence[_Family]) -> _Family | None:
    """Return the outermost uneven family around one of the inner ones, of which each of its ranges holds the same number."""
    around = [outer for outer in uneven if any(_hold_alike(outer.spans, one.spans) for one in inner)]
    return max(around, key=lambda family: (family.held, -len(family.spans)), default=None)


def _hold_alike(outer: Intervals, inner: Intervals) -> bool:
    """Return whether most of a family's ranges hold the same number of inner ones, which do not fill the time by themselves."""
    at = holder(outer, inner.start)
    inside = (at >= 0) & (inner.end <= np.append(outer.end, 0)[at])
    counts = np.bincount(at[inside], minlength=len(outer))
    usual = int(np.median(counts))
    return not _fills(inner) and usual > 0 and float((counts == usual).mean()) >= _ALIKE and float(inside.mean()) >= _ALIKE


def _describe_largest(set_aside: list[tuple[int, int, str, str]], work: LaunchedWork) -> list[str]:
    all_ns = int(work.summed_ns[-1])
    shown = sorted((one for one in set_aside if not is_library(one[2])), reverse=True)[:_MOST_SET_ASIDE]
    return [_describe_set_aside(name, why, work_ns, all_ns) for work_ns, _, name, why in shown]


def _list_families(ranges: pd.DataFrame, calls: Array) -> Iterator[_Family]:
    everything = np.sort(np.append(ranges["start_ns"].to_numpy(), calls))
    for name, mine in ranges.groupby("name", observed=True):
        spans = disjoint(mine)
        if len(spans) < 2 or len(spans) < int((mine["start_ns"] < mine["end_ns"]).sum()):
            continue
        inside = np.searchsorted(everything, spans.end) - np.searchsorted(everything, spans.start)
        lasting = int(np.searchsorted(everything, spans.end[-1]) - np.searchsorted(everything, spans.start[0]))
        yield _Family(str(name), spans, int(inside.sum()) - len(spans), lasting - len(spans))


def _find_obstacle(
    family: _Family, around: pd.DataFrame, work: LaunchedWork, kernels: Callable[[], LaunchedWork]
) -> str | None:
    """Return why a family's ranges are not a loop's iterations; None if they are."""
    obstacles: dict[str, Callable[[], bool]] = {
        _TOO_LITTLE: lambda: family.held < _ENOUGH * family.lasting,
        # A host that runs ahead and waits now and then passes most ranges fast, and few slowly.
        _UNEVEN: lambda: not are_alike(_lengths_of(family.spans)) and not are_alike(_lengths_on_gpu(family.spans, kernels())),
        _PARTS: lambda: _is_part(family.spans, around, work),
    }
    return next((why for why, is_so in obstacles.items() if is_so()), None)


def _describe_set_aside(name: str, why: str, work_ns: int, all_ns: int) -> str:
    share = f"; what they launch takes {format_value(work_ns / all_ns, '%')} of the GPU's time" if all_ns else ""
    return f"ranges `{name}` repeat, but are not the iterations, because {why}{share}"


def _sum_inside(spans: Intervals, work: LaunchedWork) -> int:
    """Return how long the GPU works on what is launched in these spans."""
    first, last = (np.searchsorted(work.launch_ns, moments) for moments in (spans.start, spans.end))
    return int((work.summed_ns[last] - work.summed_ns[first]).sum())


def _work_of(family: Intervals, work: LaunchedWork) -> int:
    """Return how long the GPU works on what is launched in a family's iterations."""
    length = np.append(_lengths_of(family), family.length[-1:])[: len(family)]
    return _sum_inside(leave_far(Intervals(family.start, family.start + length))[0], work)


def _lengths_of(family: Intervals) -> Array:
    """Return how long iterations last that are a family's ranges, or, where these leave gaps, last from start to start."""
    return family.length if _fills(family) else np.diff(family.start)


def _fills(family: Intervals) -> bool:
    return int(family.length.sum()) >= FILLED * int(family.end[-1] - family.start[0])


def _lengths_on_gpu(family: Intervals, kernels: LaunchedWork) -> Array:
    return np.diff(kernels.finish(family.end))


def _is_part(family: Intervals, around: pd.DataFrame, work: LaunchedWork) -> bool:
    """Return whether a range that comes once holds the family and, for the GPU, mostly others: then these are its parts."""
    begin, end = int(family.start[0]), int(family.end[-1])
    holding = around[(around["start_ns"] <= begin) & (around["end_ns"] >= end)]
    whole_ns = min((work.sum_between(*bounds) for bounds in zip(*map(list, bounds_of(holding)), strict=True)), default=0)
    return work.sum_between(begin, end) < _ENOUGH * whole_ns
