"""The FLOP that a counted program left: as time passed, and of its epochs."""

import csv
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from speedproof.profilers.flop_hook import COUNTS_SUFFIX
from speedproof.results.observations import CountedFlop
from speedproof.run.arrivals import judge_arrivals
from speedproof.run.epoch_reports import Marks
from speedproof.util.child_processes import Life

EAGER = {"TORCHDYNAMO_DISABLE": "1"}  # compiled programs call no operators that could be counted
_ALIKE = 0.7  # of the largest epoch
_LARGEST = 1 << 62  # that one row may say


class FlopSlice(NamedTuple):
    """What a process computed until a moment of the machine's monotonic clock, since its last slice."""

    at_s: float
    device: str
    kind: str
    flop: int


def read_slices(folder: Path) -> list[FlopSlice]:
    """Read what the processes of a counted program left; rows that are none, as one that was cut, are left out."""
    slices = []
    for path in sorted(folder.glob(f"*{COUNTS_SUFFIX}")):
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            for row in csv.reader(file):
                try:
                    at_s, device, kind, flop = row
                    one = FlopSlice(float(at_s), device, kind.partition("_")[0], int(flop))  # float8_e4m3fn
                except ValueError:
                    continue
                if 0 < one.flop < _LARGEST:
                    slices.append(one)
    return slices


def count_epochs(slices: Sequence[FlopSlice], marks: Marks, life: Life) -> CountedFlop:
    """Return the FLOP of an epoch from one end that our clock saw to the next; if it saw none, of the whole process.

    If a GPU computed anything, what the CPU did is left out.
    """
    device = "cuda" if any(one.device == "cuda" for one in slices) else "cpu"
    own = [one for one in slices if one.device == device]
    spans = _list_spans(marks) if judge_arrivals(marks) == "seen" else []
    reported_s = sum(epoch.train_s for epoch in (marks.epochs[-len(spans) :] if spans else marks.epochs))
    whole = spans or [(life.began_s, life.ended_s)]
    length_s = sum(end - start for start, end in whole)
    return CountedFlop(
        of="epoch" if spans else "process",
        device=device,
        flop=_average([_sum_kinds(one for one in own if start < one.at_s <= end) for start, end in whole]),
        reported_share=min(1.0, reported_s / length_s) if length_s > 0 and reported_s > 0 else None,
    )


def _sum_kinds(slices: Iterable[FlopSlice]) -> Counter[str]:
    sums: Counter[str] = Counter()
    for one in slices:
        sums[one.kind] += one.flop
    return sums


def _average(epochs: Sequence[Counter[str]]) -> dict[str, int]:
    """Return the FLOP of a typical epoch if epochs are alike, else of the mean one.

    A report that arrives late gives the first products of an epoch to the one before, so that the last one lacks them.
    """
    in_order = sorted(epochs, key=lambda one: one.total())
    if in_order[0].total() >= _ALIKE * in_order[-1].total():
        return dict(sorted(in_order[len(in_order) // 2].items()))
    return {kind: round(sum(one[kind] for one in epochs) / len(epochs)) for kind in sorted(set().union(*epochs))}


def _list_spans(marks: Marks) -> list[tuple[float, float]]:
    """Return from when to when each epoch went on by our clock: from the end before it, the first if its begin was seen."""
    first = marks.epochs[0].begin_seen_s
    ends = [epoch.end_seen_s for epoch in marks.epochs if epoch.end_seen_s is not None]
    return list(pairwise([*([first] if first is not None else []), *ends]))
