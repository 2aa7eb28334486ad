"""What is known of each rank's trace, and whether traces are those of the ranks of one run."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from speedproof.results.summary import Found
from speedproof.results.trace_results import Basis
from speedproof.trace.events import bounds_of
from speedproof.trace.intervals import Intervals
from speedproof.util.errors import RecordError

_ALIKE = 0.5  # of two ranks' kinds of kernels: ranks of one run have as many in common
_FEW = 10  # kernels: the times of as many are never the same on two ranks, to the nanosecond


@dataclass(frozen=True)
class RankTrace:
    """What of one rank's trace is compared with the others': its events are let go of before the next one's are read."""

    profiler: str
    found: Found
    kernels: frozenset[str]  # their names, communication's apart
    epochs: Intervals
    reaches: bool  # they last from start to start, not as long as their ranges
    collectives: dict[Basis, pd.DataFrame]
    communicates: bool
    communication_s: float  # an epoch
    exposed_s: float  # of it, an epoch
    number: int | None = None  # the rank's own; None: its trace does not tell
    of: int | None = None  # how many ranks its run has
    steps: tuple[int, ...] = ()  # the epochs' own numbers, -1 if there is none
    times: int | None = None  # a digest of when its kernels run; None: these are too few to tell ranks apart


def hash_events(kernels: pd.DataFrame) -> int | None:
    """Return a digest of when some kernels begin and end; None if they are too few to differ for sure."""
    return None if len(kernels) < _FEW else hash(tuple(bound.tobytes() for bound in bounds_of(kernels)))


def check_related(traces: Sequence[str], ranks: Sequence[RankTrace]) -> None:
    """Raise a :class:`RecordError` unless the traces may be of one run's ranks."""
    for place, (trace, rank) in enumerate(zip(traces, ranks, strict=True)):
        if fault := _find_fault(rank, ranks[0]):
            raise RecordError(trace, f": rank {place} is of another run: {fault}; give the traces of one run")
        if fault := _find_other_steps(rank, ranks[0]):
            raise RecordError(trace, f": {fault}; give the traces of one run, of the same {rank.found.plural}")
        same = [other for other in range(place) if rank.times is not None and ranks[other].times == rank.times]
        if same:
            raise RecordError(trace, f": holds the same kernels as the trace of rank {same[0]}; give each rank once")


def _find_fault(rank: RankTrace, first: RankTrace) -> str | None:
    common, kinds = len(first.kernels & rank.kernels), len(first.kernels | rank.kernels)
    if rank.found.name != first.found.name:
        return f"its iterations are `{rank.found.name}`, rank 0's `{first.found.name}`"
    if common < _ALIKE * kinds:
        return f"it has {common} of {kinds} kinds of kernels in common with rank 0"
    if rank.communicates != first.communicates:
        return "only one of it and rank 0 shows communication"
    if rank.of != first.of and None not in (rank.of, first.of):
        return f"its run has {rank.of} ranks, rank 0's {first.of}"
    return None


def _find_other_steps(rank: RankTrace, first: RankTrace) -> str | None:
    unit, plural = rank.found.unit, rank.found.plural
    if len(rank.epochs) != len(first.epochs):
        return f"it holds {len(rank.epochs)} {plural}, the trace of rank 0 {len(first.epochs)}"
    for one, other in zip(rank.steps, first.steps, strict=True):
        if one != other and min(one, other) >= 0:
            return f"it holds {unit} {one} where the trace of rank 0 holds {unit} {other}"
    return None


def number_ranks(traces: Sequence[str], ranks: Sequence[RankTrace]) -> list[int]:
    """Return each trace's rank: its own number if all tell it, else its place in the list.

    Raises:
        RecordError: a rank is given twice, or a trace has another one's place

    """
    own = [rank.number for rank in ranks]
    numbers = [number for number in own if number is not None]
    if len(numbers) == len(ranks):
        for place, number in enumerate(numbers):
            if number in numbers[:place]:
                other = traces[numbers.index(number)]
                raise RecordError(traces[place], f": is of rank {number}, as {other} is; give each rank once")
        return numbers
    for place, (trace, rank) in enumerate(zip(traces, ranks, strict=True)):
        if rank.number not in (None, place):
            raise RecordError(trace, f": is of rank {rank.number}, not of rank {place}; give all traces in the order of ranks")
        known = rank.collectives["communication kernels"]["members"]
        for members in filter(None, known.unique()):
            if str(place) not in members.split():
                raise RecordError(
                    trace, f": communicates among ranks {members}, not as rank {place}; give all traces in the order of ranks"
                )
    return [*range(len(ranks))]
