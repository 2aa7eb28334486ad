"""Loops whose iterations no range holds: kernels that are launched again and again, or ranges that follow each other."""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from speedproof.results.summary import Found
from speedproof.trace.events import Trace, bounds_of
from speedproof.trace.intervals import Intervals, outermost
from speedproof.trace.repetition import Repetition, are_alike, find_repetition, find_single_kernel
from speedproof.util.numbers import format_value

REPETITION = "kernels that repeat"
SIBLINGS = "ranges that repeat"
_LEAST = 0.5  # of the GPU's time must lie in iterations
_CLOSED = 0.1  # of an iteration: what the last range of each may leave until the next one begins
_LONGER = 1.5  # times: of two ways to see a loop, this much more is another iteration
_GOOD_PART = 0.1
FAR = 10  # typical iterations: what lasts longer from start to start holds something else, and is left out
_LAYERS = "(they may be a model's layers)"


@dataclass(frozen=True)
class LoopPattern:
    """What comes again in each iteration."""

    of_what: str
    cut: bool = False  # one more iteration begins, whose end no launch shows


@dataclass(frozen=True)
class UnmarkedLoop:
    """What repeats; without pieces it makes no iterations, and the notes say why."""

    pieces: Intervals
    thread: int
    found: Found
    on_gpu: bool = False  # the pieces are of the GPU's time
    pattern: LoopPattern | None = None
    notes: list[str] = field(default_factory=list)


def find_kernel_loop(trace: Trace, process: int, main_thread: int) -> UnmarkedLoop | None:
    """Find the kernels that a process launches again and again; None if nothing repeats."""
    kernels = trace.activity[(trace.activity["process"] == process) & trace.activity["kernel"]]
    launch = kernels["launch"].to_numpy()
    # The kernels of a graph share one launch, which says nothing of their order: then the GPU's own times do.
    launched = bool(len(launch)) and bool((launch >= 0).all()) and len(np.unique(launch)) == len(launch)
    start, codes = kernels["start_ns"].to_numpy(), kernels["name"].array.codes.astype(np.int64)
    moment = trace.api["start_ns"].to_numpy()[launch] if launched else start
    order = np.argsort(moment, kind="stable")
    repetition = find_repetition(codes[order], moment[order])
    if repetition is None:
        repetition = find_single_kernel(codes[order], moment[order])
        by_start = np.argsort(start, kind="stable")
        if launched and _is_of_bursts(repetition, run := find_single_kernel(codes[by_start], start[by_start])):
            repetition, order, launched = run, by_start, False
    if repetition is None:
        return None
    kernel, length = codes[order], (kernels["end_ns"].to_numpy() - start)[order]
    near, far = leave_far(repetition.pieces)
    thread = launching_thread(trace.api.iloc[launch], main_thread) if launched else main_thread
    found = Found(
        unit="iteration", by="repetition", name=REPETITION, coverage=repetition.share, left_out=repetition.others + far
    )
    if (share := repetition.share_of(length, kernel)) < _LEAST:
        note = (
            f"the same {repetition.launches} kernels are launched {len(repetition.first)} times, but take only "
            f"{format_value(share, '%')} of the GPU's time: they are not the loop's iterations"
        )
        return UnmarkedLoop(Intervals(near.start[:0], near.end[:0]), thread, found, notes=[note])
    of_what = f"the same {repetition.launches} kernels {_LAYERS}" if repetition.launches > 1 else "one kernel"
    return UnmarkedLoop(near, thread, found, not launched, LoopPattern(of_what, repetition.last >= 0))


def _is_of_bursts(launches: Repetition | None, runs: Repetition | None) -> bool:
    """Return whether a host that runs ahead launches a loop of one kernel in bursts, which show no iterations."""
    if launches is None or runs is None:
        return runs is not None
    return float(np.median(runs.pieces.length)) > _LONGER * float(np.median(launches.pieces.length))


def find_sibling_loop(ranges: pd.DataFrame, main_thread: int) -> UnmarkedLoop | None:
    """Find ranges that follow each other in the same order again and again, as `reader`, `backbone` and `head` of a pass do.

    Args:
        ranges: those of the loop's thread
        main_thread: its number

    """
    rows = ranges.iloc[outermost(*bounds_of(ranges))]
    (start, end), codes = bounds_of(rows), rows["name"].array.codes.astype(np.int64)
    repetition = find_repetition(codes, start, np.append(0, start[1:] - end[:-1]))
    if repetition is None or not are_alike(repetition.pieces.length):
        return None
    if repetition.share_of(end - start, codes) < _LEAST:
        return None
    last_end = end[repetition.first + repetition.launches - 1]
    open_ns = np.median(repetition.pieces.end - last_end)
    pieces = repetition.pieces
    if repetition.last >= 0 and open_ns <= _CLOSED * np.median(pieces.length):
        last = repetition.last
        pieces = Intervals(np.append(pieces.start, start[last]), np.append(pieces.end, end[last + repetition.launches - 1]))
    near, far = leave_far(pieces)
    covered = int((end - start)[repetition.first[0] :].sum()) / int(end[-1] - start[repetition.first[0]])
    names = rows["name"].iloc[[repetition.first[0], repetition.first[0] + repetition.launches - 1]]
    of_what = f"the same {repetition.launches} ranges, `{names.iloc[0]}` to `{names.iloc[1]}` {_LAYERS}"
    found = Found(unit="iteration", by="ranges", name=SIBLINGS, coverage=min(covered, 1.0), left_out=repetition.others + far)
    return UnmarkedLoop(near, main_thread, found, pattern=LoopPattern(of_what))


def choose_longer(kernels: UnmarkedLoop | None, siblings: UnmarkedLoop | None) -> UnmarkedLoop | None:
    """Return the loop of longer iterations, for shorter ones may be their parts; of about equals, that of the kernels."""
    if kernels is None or siblings is None:
        return kernels or siblings
    lengths = [float(np.median(loop.pieces.length)) if len(loop.pieces) else 0.0 for loop in (kernels, siblings)]
    return siblings if lengths[1] > _LONGER * lengths[0] else kernels


def leave_far(spans: Intervals) -> tuple[Intervals, int]:
    """Return those of some iterations that hold nothing else, by their length, and how many others there are."""
    typical = float(np.median(spans.length)) if len(spans) else 0.0
    near = spans.length <= FAR * typical
    return Intervals(spans.start[near], spans.end[near]), int((~near).sum())


def launching_thread(calls: pd.DataFrame, main: int) -> int:
    """Return the main thread where it launches a good part of what runs, else the thread that launches most."""
    counts = calls["thread"].value_counts()
    return main if counts.get(main, 0) >= _GOOD_PART * len(calls) else int(counts.index[0])
