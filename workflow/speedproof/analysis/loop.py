"""The training loop in a trace: which thread runs it, its epochs, their parts, the phases and the transforms.

Our loop, and the documented scripts, name their ranges as :data:`DATA_PHASES` and its siblings say. In a trace that
uses none of these names, an epoch is what the user names, or the longest range that repeats on the main thread and holds
most of what begins there, and the phases are the ranges directly below.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from speedproof.analysis.events import Trace
from speedproof.analysis.intervals import Array, Intervals, holder, outermost
from speedproof.analysis.names import Names, make_names, rename, with_names
from speedproof.errors import RecordError

EPOCH = "epoch"
DATA_PHASES = ("dataload", "validation dataload")
TRAINING_PHASES = ("dataload", "forward", "backward", "update")
VALIDATION_PHASES = ("validation dataload", "sliding window", "decollate batch", "compute metric")
WHOLE_TRACE = "whole trace"

_TRANSFORM = re.compile(r"[A-Z][A-Za-z0-9]*(_\d+)?")  # a class' name
_NUMBER = re.compile(r"_\d+$")  # MONAI numbers the second and later transforms of a class
_ENOUGH = 0.5  # ranges found without being told must hold this share of what begins on their thread


@dataclass(frozen=True)
class Parts:
    """The epochs' parts in order: where each lies, which part it is, and its epoch's index, counted from 1."""

    spans: Intervals
    part: Names
    epoch: NDArray[np.int32]

    def place(self, rows: Array) -> dict[str, Any]:
        """Return the columns `epoch` and `part` for things that lie in the parts with these numbers."""
        return {"epoch": self.epoch[rows], "part": self.part[rows]}


@dataclass(frozen=True)
class Loop:
    """One process' training loop. Phases and transforms of all its threads, transforms of other processes too."""

    process: int
    thread: int
    epochs: pd.DataFrame  # start_ns, end_ns, training_end_ns, validates; in order, disjoint
    phases: pd.DataFrame  # start_ns, end_ns, thread, name, part
    transforms: pd.DataFrame  # start_ns, end_ns, process, thread, name
    warnings: list[str]

    @property
    def spans(self) -> Intervals:
        """Return the epochs as intervals."""
        return Intervals(self.epochs["start_ns"].to_numpy(), self.epochs["end_ns"].to_numpy())

    @property
    def parts(self) -> Parts:
        """Return the epochs cut into their training and validation parts."""
        epochs = self.epochs
        cut = np.where(epochs["validates"], epochs["training_end_ns"], epochs["end_ns"])
        start = np.stack([epochs["start_ns"], cut], axis=1).ravel()
        end = np.stack([cut, epochs["end_ns"]], axis=1).ravel()
        kept = start < end
        part = make_names(np.tile([0, 1], len(epochs))[kept], ["training", "validation"])
        return Parts(Intervals(start[kept], end[kept]), part, np.repeat(np.arange(len(epochs), dtype=np.int32) + 1, 2)[kept])

    def on_main_thread(self, events: pd.DataFrame) -> pd.DataFrame:
        """Return those events that happened on the loop's own thread."""
        mine = events["thread"] == self.thread
        return events[mine & (events["process"] == self.process)] if "process" in events else events[mine]


def find_loop(trace: Trace, epoch: str | None = None, process: int | None = None) -> Loop:
    """Find the training loop.

    Args:
        trace: the events
        epoch: a regular expression that the whole name of an epoch's range matches; None: `epoch`, else found
        process: whose loop it is; None: the one, of those with epochs, that kept a GPU busy longest

    Raises:
        RecordError: the trace is empty, it has no such process, or no range's name matches `epoch`

    """
    if trace.ranges.empty and trace.activity.empty and trace.api.empty:
        raise RecordError(f"{trace.folder}: the trace holds no ranges, kernels or calls; profile the run again")
    process, thread, name, epochs = _find_epochs(trace if process is None else _only_process(trace, process), epoch)
    if not (epochs["start_ns"] < epochs["end_ns"]).any():
        raise RecordError(f"{trace.folder}: no epoch lasts longer than nothing; profile the run again, or name its epochs")
    ranges = trace.ranges[trace.ranges["process"] == process]
    known = ranges["name"].isin(TRAINING_PHASES + VALIDATION_PHASES)
    warnings = []
    if known.any():
        phases = ranges[known]
        loop_names = {EPOCH, name, *TRAINING_PHASES, *VALIDATION_PHASES}
        transforms = with_names(trace.ranges, lambda range_: range_ not in loop_names and _TRANSFORM.fullmatch(range_))
        transforms = rename(transforms, lambda transform: _NUMBER.sub("", transform))
    else:
        phases = _outermost_in(ranges[(ranges["thread"] == thread) & (ranges["name"] != name)], epochs)
        transforms = trace.ranges.iloc[:0]
    if name == WHOLE_TRACE:
        warnings.append("no range looks like an epoch: the whole trace counts as one; name it with the epoch option")
    if trace.open_ranges:
        warnings.append(f"{trace.open_ranges} ranges never ended")
    epochs = _cut_epochs(epochs, ranges[known & (ranges["thread"] == thread)])
    phases = _with_part(phases.drop(columns="process"), epochs).reset_index(drop=True)
    phases["name"] = phases["name"].cat.remove_unused_categories()
    return Loop(process, thread, epochs, phases, transforms.reset_index(drop=True), warnings)


def _only_process(trace: Trace, process: int) -> Trace:
    """Return the trace as one of its processes sees it; a :class:`RecordError` names those that there are."""
    tables = {name: getattr(trace, name) for name in ("ranges", "activity", "api", "threads")}
    known = sorted({number for table in tables.values() for number in table["process"].unique().tolist() if number >= 0})
    if process not in known:
        raise RecordError(f"{trace.folder}: no process {process}; the trace has {', '.join(map(str, known))}")
    mine = {name: table[table["process"] == process] for name, table in tables.items()}
    mine["ranges"] = mine["ranges"].assign(name=mine["ranges"]["name"].cat.remove_unused_categories())
    return replace(trace, **mine)


def _find_epochs(trace: Trace, pattern: str | None) -> tuple[int, int, str, pd.DataFrame]:
    """Return the loop's process, thread, the epochs' name, and their bounds."""
    names = trace.ranges["name"].cat.categories.astype(str)
    if pattern is not None:
        return _named_epochs(trace, _match_names(trace, names, pattern))
    if EPOCH in names:
        return _named_epochs(trace, [EPOCH])
    process, thread = _main_thread(trace)
    ranges = rename(trace.ranges, _without_numbers)
    ranges = ranges[(ranges["process"] == process) & (ranges["thread"] == thread)]
    calls = trace.api[(trace.api["process"] == process) & (trace.api["thread"] == thread)]
    name = _repeating_name(ranges, calls["start_ns"].to_numpy())
    if name is not None:
        return process, thread, name, _disjoint(ranges[ranges["name"] == name])
    tables = [table for table in (trace.ranges, trace.activity, trace.api) if not table.empty]
    start_ns, end_ns = min(t["start_ns"].min() for t in tables), max(t["end_ns"].max() for t in tables)
    return process, thread, WHOLE_TRACE, pd.DataFrame({"start_ns": [start_ns], "end_ns": [end_ns]})


def _named_epochs(trace: Trace, names: Sequence[str]) -> tuple[int, int, str, pd.DataFrame]:
    """Return what :func:`_find_epochs` returns for epochs of these names: those of the busiest process that has some."""
    found = trace.ranges[trace.ranges["name"].isin(names)]
    process, thread = _busiest(trace, found[["process", "thread"]].drop_duplicates())
    mine = found[(found["process"] == process) & (found["thread"] == thread)]
    return process, thread, str(mine["name"].iloc[0]), _disjoint(mine)


def _match_names(trace: Trace, names: pd.Index, pattern: str) -> Sequence[str]:
    """Return the names that a regular expression matches as a whole."""
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise RecordError(f"epoch pattern `{pattern}`: no regular expression ({error}); correct it") from None
    matching = [name for name in names if expression.fullmatch(name)]
    if not matching:
        examples = ", ".join(f"`{name}`" for name in names[:5]) or "none"
        raise RecordError(f"{trace.folder}: no range matches the epoch pattern `{pattern}`; there are {examples}; correct it")
    return matching


def _busiest(trace: Trace, places: pd.DataFrame) -> tuple[int, int]:
    """Return the process and thread, of those given, whose process kept a GPU busy longest; the first of equals."""
    busy = (trace.activity["end_ns"] - trace.activity["start_ns"]).groupby(trace.activity["process"]).sum()
    best = places["process"].map(busy).fillna(0).argmax()
    return int(places["process"].iloc[best]), int(places["thread"].iloc[best])


def _main_thread(trace: Trace) -> tuple[int, int]:
    """Return the main thread of the process that kept a GPU busy longest; where none is marked, the one of most ranges."""
    for places in (trace.threads[trace.threads["main"]], trace.ranges, trace.api):
        if not places.empty:
            # Most rows first, so that of several threads the one that did most is taken.
            return _busiest(trace, places.value_counts(["process", "thread"], sort=True).index.to_frame(index=False))
    return int(trace.activity["process"].iloc[0]), 0


def _without_numbers(name: str) -> str:
    """Give `Step 10 to 20` and its siblings one name, `Step # to #`."""
    return re.sub(r"\d+", "#", name)


def _repeating_name(ranges: pd.DataFrame, calls: Array) -> str | None:
    """Return the name, of greatest total length, whose ranges repeat, do not overlap, and hold most of what begins.

    Args:
        ranges: those of one thread
        calls: when its CUDA calls begin

    """
    lengths = (ranges["end_ns"] - ranges["start_ns"]).groupby(ranges["name"], observed=True).agg(["size", "sum"])
    candidates = lengths[lengths["size"] > 1].sort_values(["sum", "size"], ascending=[False, True])
    for name in candidates.index:
        spans = _disjoint(ranges[ranges["name"] == name])
        others = np.append(ranges["start_ns"].to_numpy()[ranges["name"] != name], calls)
        held = holder(Intervals(spans["start_ns"].to_numpy(), spans["end_ns"].to_numpy()), others) >= 0
        if len(spans) == candidates.loc[name, "size"] and held.sum() >= _ENOUGH * len(others):
            return str(name)
    return None


def _disjoint(ranges: pd.DataFrame) -> pd.DataFrame:
    """Return the bounds of the ranges that lie in no other and are not empty, in order."""
    ranges = ranges[ranges["start_ns"] < ranges["end_ns"]]
    kept = outermost(ranges["start_ns"].to_numpy(), ranges["end_ns"].to_numpy())
    return ranges.iloc[kept][["start_ns", "end_ns"]].reset_index(drop=True)


def _outermost_in(ranges: pd.DataFrame, epochs: pd.DataFrame) -> pd.DataFrame:
    """Return the ranges directly below the epochs, named without numbers."""
    spans = Intervals(epochs["start_ns"].to_numpy(), epochs["end_ns"].to_numpy())
    start, end = ranges["start_ns"].to_numpy(), ranges["end_ns"].to_numpy()
    at = holder(spans, start)
    # A range over a whole epoch, or over its end, is not below it.
    below = ranges[(at >= 0) & (end <= np.append(spans.end, 0)[at]) & (end - start < np.append(spans.length, 0)[at])]
    kept = outermost(below["start_ns"].to_numpy(), below["end_ns"].to_numpy())
    return rename(below.iloc[kept], _without_numbers)


def _cut_epochs(epochs: pd.DataFrame, phases: pd.DataFrame) -> pd.DataFrame:
    """Add where each epoch's training part ends: where its first validation phase begins, else with itself.

    That phase is the first to begin after the last `update`: in the documented scripts it is a `dataload`, as in training.
    What the loop waits for in between is training's work. An epoch without training phases that validates only validates.
    """
    spans = Intervals(epochs["start_ns"].to_numpy(), epochs["end_ns"].to_numpy())
    start, end, name = phases["start_ns"].to_numpy(), phases["end_ns"].to_numpy(), phases["name"]
    at = holder(spans, start)
    validates = np.zeros(len(epochs), bool)
    validates[at[(at >= 0) & name.isin(VALIDATION_PHASES).to_numpy()]] = True
    trained = np.full(len(epochs), -1)
    for names in (("update",), TRAINING_PHASES):
        mine = (at >= 0) & name.isin(names).to_numpy()
        last = np.full(len(epochs), -1)
        np.maximum.at(last, at[mine], end[mine])
        trained = np.where(trained < 0, last, trained)
    trained = np.where(trained < 0, spans.start, trained)
    later = (at >= 0) & (start >= trained[at])
    first = spans.end.copy()
    np.minimum.at(first, at[later], start[later])
    return epochs.assign(training_end_ns=np.where(validates, first, spans.end), validates=validates)


def _with_part(phases: pd.DataFrame, epochs: pd.DataFrame) -> pd.DataFrame:
    """Say of each phase whether it began in the training or the validation part of an epoch, or outside of all.

    By time, not by name: in the documented scripts both parts load their data under one name.
    """
    start = phases["start_ns"].to_numpy()
    at = holder(Intervals(epochs["start_ns"].to_numpy(), epochs["end_ns"].to_numpy()), start)
    late = epochs["validates"].to_numpy()[at] & (start >= epochs["training_end_ns"].to_numpy()[at])
    return phases.assign(part=np.where(at < 0, "outside", np.where(late, "validation", "training")))
