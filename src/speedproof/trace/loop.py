"""A loop in a trace: which thread runs it, its iterations, their parts, the phases and the transforms.

Our loop, and the documented scripts, name their ranges as :data:`speedproof.trace.roles.PHASES` says; the iterations are its
epochs. In any trace phases are the ranges directly below the iterations, and our names wherever they stand.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from speedproof.trace.completeness import Recording, check_recording, enough_left, explain_empty
from speedproof.trace.events import Names, Trace, bounds_of, cover_events, join_names, make_names, rename, with_names
from speedproof.trace.host_ahead import follow_gpu
from speedproof.trace.intervals import Array, Intervals, coverage, holder, outermost
from speedproof.trace.iterations import Choice, Iterations, find_iterations, match_names, without_numbers
from speedproof.trace.loop_notes import list_notes
from speedproof.trace.own_numbers import find_own_numbers
from speedproof.trace.roles import (
    EPOCH,
    PHASES,
    TRAINING_PHASES,
    goes_backward,
    handles_samples,
    is_library,
    updates,
    validates,
    waits_for_loader,
)
from speedproof.util.errors import RecordError

CHOOSES_NOTHING = Choice()

_FEW = 3  # iterations: with fewer it is not known which of them is unlike the others

_TRANSFORM = re.compile(r"[A-Z][A-Za-z0-9]*(_\d+)?")  # a class' name
_NUMBER = re.compile(r"_\d+$")  # behind the second and later transforms of a class


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
    """One process' loop. Phases and transforms of all its threads, transforms of other processes too."""

    process: int
    thread: int
    iterations: Iterations
    # start_ns, end_ns, training_end_ns, validates, and the number in the range's name, -1 if none; in order, disjoint
    epochs: pd.DataFrame
    host_epochs: pd.DataFrame  # the same, as the host has them: where it runs ahead, earlier than the GPU
    phases: pd.DataFrame  # start_ns, end_ns, thread, name, part
    transforms: pd.DataFrame  # start_ns, end_ns, process, thread, name
    details: pd.DataFrame  # start_ns, end_ns, name: what else the loop's thread marks inside of its phases
    warnings: list[str]
    lacking: str | None = None  # why too little of the GPU's work is in the trace to speak of it; None: enough is

    @property
    def recorded(self) -> bool:
        return self.lacking is None

    @property
    def spans(self) -> Intervals:
        return Intervals(*bounds_of(self.epochs))

    @property
    def parts(self) -> Parts:
        epochs = self.epochs
        cut = np.where(epochs["validates"], epochs["training_end_ns"], epochs["end_ns"])
        start = np.stack([epochs["start_ns"], cut], axis=1).ravel()
        end = np.stack([cut, epochs["end_ns"]], axis=1).ravel()
        kept = start < end
        part = make_names(np.tile([0, 1], len(epochs))[kept], ["training", "validation"])
        return Parts(Intervals(start[kept], end[kept]), part, np.repeat(np.arange(len(epochs), dtype=np.int32) + 1, 2)[kept])

    def on_main_thread(self, events: pd.DataFrame) -> pd.DataFrame:
        mine = events["thread"] == self.thread
        return events[mine & (events["process"] == self.process)] if "process" in events else events[mine]


def find_loop(trace: Trace, choice: Choice = CHOOSES_NOTHING) -> Loop:
    """Find the loop.

    Raises:
        RecordError: the trace is empty, it has no such process, or no range's name matches a pattern

    """
    if trace.is_empty:
        raise explain_empty(trace)
    if choice.unmarked:
        trace = _without_ranges(trace)
    iterations = find_iterations(trace, choice)
    if not (iterations.bounds["start_ns"] < iterations.bounds["end_ns"]).any():
        unit = iterations.found.unit
        raise RecordError(trace.folder, f": no {unit} has a duration above 0; profile the run again, or name them (--epoch)")
    recording = check_recording(trace, iterations.process)
    iterations, lacking = _leave_out_partial(trace, _leave_out_empty(iterations, recording), recording)
    ranges = trace.ranges[trace.ranges["process"] == iterations.process]
    phases = _find_phases(ranges, iterations, choice.phases)
    transforms = _find_transforms(trace, iterations, phases)
    on_thread = phases[phases["thread"] == iterations.thread]
    host_epochs = _cut_epochs(iterations.bounds, on_thread).assign(number=find_own_numbers(ranges, iterations))
    placed = _with_part(phases.drop(columns="process"), host_epochs).reset_index(drop=True)
    epochs, notes = follow_gpu(trace, iterations, host_epochs) if lacking is None else (host_epochs, [])
    iterations = replace(iterations, notes=[*iterations.notes, *notes])
    lasting = (epochs["start_ns"] < epochs["end_ns"]).to_numpy()
    iterations = _note_passed(iterations, lasting)
    placed["name"] = placed["name"].cat.remove_unused_categories()
    return Loop(
        process=iterations.process,
        thread=iterations.thread,
        iterations=iterations,
        epochs=epochs[lasting].reset_index(drop=True),
        host_epochs=host_epochs[lasting].reset_index(drop=True),
        phases=placed,
        transforms=transforms.reset_index(drop=True),
        details=_find_details(trace, iterations, phases, transforms),
        warnings=list(list_notes(trace, iterations, epochs[lasting])),
        lacking=lacking,
    )


def _without_ranges(trace: Trace) -> Trace:
    ranges = trace.ranges.iloc[:0]
    return replace(trace, ranges=ranges.assign(name=ranges["name"].cat.remove_unused_categories()))


def _note_passed(iterations: Iterations, lasting: NDArray[np.bool_]) -> Iterations:
    """State how many iterations do not last: those of a host that passes them while the GPU is at earlier ones."""
    found, passed = iterations.found, int((~lasting).sum())
    if not passed:
        return iterations
    note = (
        f"{passed} of {len(lasting)} {found.plural} launch no GPU work, and are over before the GPU has ended earlier ones: "
        "they are left out"
    )
    kept = found.model_copy(update={"left_out": found.left_out + passed})
    return replace(iterations, found=kept, notes=[*iterations.notes, note])


def _leave_out_empty(iterations: Iterations, recording: Recording) -> Iterations:
    """Return the iterations in which something is launched, if in half of them something is.

    What lies between a profiler's last step and its end has the name of a step, and does nothing.
    """
    found, bounds = iterations.found, iterations.bounds
    at = np.searchsorted(recording.asked_ns, np.stack([bounds["start_ns"], bounds["end_ns"]]))
    launches = at[1] > at[0]
    empty = int((~launches).sum())
    if found.by != "ranges" or not empty or 2 * empty > len(bounds):
        return iterations
    note = f"{empty} of {len(bounds)} {found.plural} launch nothing, and are left out"
    kept = found.model_copy(update={"left_out": found.left_out + empty})
    return replace(iterations, bounds=bounds[launches].reset_index(drop=True), found=kept, notes=[*iterations.notes, note])


def _leave_out_partial(trace: Trace, iterations: Iterations, recording: Recording) -> tuple[Iterations, str | None]:
    """Return the iterations whose kernels are complete; if these are too few, return all, and what is missing."""
    found, bounds = iterations.found, iterations.bounds
    spans = Intervals(*bounds_of(bounds))
    if len(recording.asked_ns):
        whole = recording.find_whole(spans)
    else:
        kernels = trace.activity[(trace.activity["process"] == iterations.process) & trace.activity["kernel"]]
        whole = coverage(cover_events(kernels), spans.start, spans.end) > 0
        whole |= (len(whole) < _FEW) | (2 * whole.sum() < len(whole))  # a loop that mostly uses no GPU
    left, partial = int(whole.sum()), int((~whole).sum())
    if not partial:
        return iterations, None
    lost = f"the kernels of {recording.share:.0%} of the launches are missing: " if recording.share else ""
    if not enough_left(left, len(spans)):
        note = (
            f"{lost}too few {found.plural} have their GPU work recorded ({left} of {len(spans)}) to analyse the GPU; "
            "profile a shorter part again, with nothing else on the GPU"
        )
        return replace(iterations, notes=[note, *iterations.notes]), note
    note = f"{lost}{partial} of {len(spans)} {found.plural} lack some of their GPU work and are left out"
    kept = found.model_copy(update={"left_out": found.left_out + partial})
    left_bounds = bounds[whole].reset_index(drop=True)
    return replace(iterations, bounds=left_bounds, found=kept, notes=[note, *iterations.notes]), None


def _find_phases(ranges: pd.DataFrame, iterations: Iterations, named: Mapping[str, str]) -> pd.DataFrame:
    """Return the phases: ranges of our loop's names on any thread, and those directly below an iteration on its own.

    One that the user names is of the name that it was given. Where the iterations' own ranges leave gaps and hold no others,
    they are a phase, too.
    """
    known = ranges["name"].isin(PHASES)
    chosen = _choose_phases(ranges, named)
    family = [name for name in ranges["name"].cat.categories if without_numbers(name) == iterations.found.name]
    below = ranges[(ranges["thread"] == iterations.thread) & ~ranges["name"].isin([*family, EPOCH])]
    below = _outermost_in(with_names(below, lambda name: not is_library(name)), iterations.bounds)
    if _is_ours(ranges):  # a transform that lies in no phase is none
        below = with_names(below, lambda name: name in PHASES or not _TRANSFORM.fullmatch(name))
    tables = [chosen, ranges[known], below]
    if iterations.ranges is not None and not (holder(iterations.ranges, below["start_ns"].to_numpy()) >= 0).any():
        tables.append(ranges[(ranges["thread"] == iterations.thread) & ranges["name"].isin(family)])
        tables[-1] = rename(tables[-1], without_numbers)
    names = join_names([table["name"].array for table in tables])
    everything = pd.concat([table.drop(columns="name") for table in tables]).assign(name=names)
    # What several of these rules choose is one phase, by the first of them.
    return everything[~everything.index.duplicated()].sort_index()


def _find_transforms(trace: Trace, iterations: Iterations, phases: pd.DataFrame) -> pd.DataFrame:
    """Return the transforms: ranges other than phases that prepare data.

    These are, in our loop's traces, the ranges that are named as classes are; in any other those within a phase that handles
    samples, and those of loaders: threads without a phase of their own, and processes that use no GPU.
    """
    ranges = trace.ranges
    family = {name for name in ranges["name"].cat.categories if without_numbers(name) == iterations.found.name}
    no_transforms = {*PHASES, EPOCH, *family, *filter(waits_for_loader, map(str, ranges["name"].cat.categories))}
    others = with_names(ranges[~ranges.index.isin(phases.index)], lambda name: name not in no_transforms)
    if _is_ours(ranges[ranges["process"] == iterations.process]):
        transforms = with_names(others, _TRANSFORM.fullmatch)
        return rename(transforms, lambda transform: _NUMBER.sub("", transform))
    in_loop = others["process"] == iterations.process
    on_thread = in_loop & (others["thread"] == iterations.thread)
    loading = with_names(phases[phases["thread"] == iterations.thread], handles_samples)
    loads = cover_events(loading)
    prepares = on_thread & (holder(loads, others["start_ns"].to_numpy()) >= 0)
    uses_gpu = others["process"].isin(trace.activity["process"].unique())
    # A thread that goes back through the graph belongs to the loop; what it marks is communication, most often.
    own_threads = [*phases["thread"].unique(), *with_names(trace.host_calls, goes_backward)["thread"].unique()]
    loader = (in_loop & ~others["thread"].isin(own_threads) & ~on_thread) | (~in_loop & ~uses_gpu)
    return rename(others[prepares | loader], without_numbers)


def _find_details(trace: Trace, iterations: Iterations, phases: pd.DataFrame, transforms: pd.DataFrame) -> pd.DataFrame:
    """Return the ranges of the loop's thread that lie inside of a phase and are neither phase nor transform."""
    ranges = trace.ranges[(trace.ranges["process"] == iterations.process) & (trace.ranges["thread"] == iterations.thread)]
    ranges = ranges[~ranges.index.isin(phases.index) & ~ranges.index.isin(transforms.index)]
    ranges = with_names(ranges, lambda name: name != EPOCH and without_numbers(name) != iterations.found.name)
    around = phases[phases["thread"] == iterations.thread]
    phase = cover_events(around)
    inside = holder(phase, ranges["start_ns"].to_numpy()) >= 0
    inside &= holder(phase, ranges["end_ns"].to_numpy() - 1) >= 0
    return rename(ranges[inside], without_numbers)[["start_ns", "end_ns", "name"]].reset_index(drop=True)


def _is_ours(ranges: pd.DataFrame) -> bool:
    """Return whether the ranges are named as our loop names them: by one name that nobody else gives."""
    names = ranges["name"].cat
    used = ranges["name"].isin(["dataload", "validation dataload", "sliding window"])
    return bool(used.any()) and EPOCH in names.categories


def _choose_phases(ranges: pd.DataFrame, named: Mapping[str, str]) -> pd.DataFrame:
    """Return the ranges that the user calls phases, under the names that they are given."""
    given: dict[str, str] = {}
    for phase, pattern in named.items():
        matching = match_names([*map(str, ranges["name"].cat.categories)], pattern, f"phase {phase}")
        if not matching:
            raise RecordError(f"--phase {phase}={pattern}: no range's name matches the pattern; correct it")
        given = {**dict.fromkeys(matching, phase), **given}
    return rename(ranges[ranges["name"].isin(list(given))], lambda name: given.get(name, name))


def _outermost_in(ranges: pd.DataFrame, epochs: pd.DataFrame) -> pd.DataFrame:
    """Return the ranges directly below the epochs, named without numbers."""
    spans = Intervals(*bounds_of(epochs))
    start, end = bounds_of(ranges)
    at = holder(spans, start)
    # A range over a whole epoch, or over its end, is not below it.
    below = ranges[(at >= 0) & (end <= np.append(spans.end, 0)[at]) & (end - start < np.append(spans.length, 0)[at])]
    kept = outermost(*bounds_of(below))
    return rename(below.iloc[kept], without_numbers)


def _cut_epochs(epochs: pd.DataFrame, phases: pd.DataFrame) -> pd.DataFrame:
    """Add where each epoch's training part ends: where its first validation phase begins, else with itself.

    That phase is the first to begin after the last `update`: in the documented scripts it is a `dataload`, as in training.
    What the loop waits for in between is training's work. An epoch without training phases that validates only validates.
    """
    spans = Intervals(*bounds_of(epochs))
    start, end = bounds_of(phases)
    at = holder(spans, start)
    inside, validating = at >= 0, _named(phases, validates)
    validation = np.zeros(len(epochs), bool)
    validation[at[inside & validating]] = True
    trained = np.full(len(epochs), -1)
    for mine in (_named(phases, updates), phases["name"].isin(TRAINING_PHASES).to_numpy(), ~validating):
        last = np.full(len(epochs), -1)
        np.maximum.at(last, at[inside & mine], end[inside & mine])
        trained = np.where(trained < 0, last, trained)
    trained = np.where(trained < 0, spans.start, trained)
    later = inside & (start >= trained[at])
    first = spans.end.copy()
    np.minimum.at(first, at[later], start[later])
    return epochs.assign(training_end_ns=np.where(validation, first, spans.end), validates=validation)


def _named(phases: pd.DataFrame, wanted: Callable[[str], bool]) -> NDArray[np.bool_]:
    return phases.index.isin(with_names(phases, wanted).index)


def _with_part(phases: pd.DataFrame, epochs: pd.DataFrame) -> pd.DataFrame:
    """Say of each phase whether it began in the training or the validation part of an epoch, or outside of all.

    By time, not by name: in the documented scripts both parts load their data under one name.
    """
    start = phases["start_ns"].to_numpy()
    at = holder(Intervals(*bounds_of(epochs)), start)
    late = epochs["validates"].to_numpy()[at] & (start >= epochs["training_end_ns"].to_numpy()[at])
    return phases.assign(part=np.where(at < 0, "outside", np.where(late, "validation", "training")))
