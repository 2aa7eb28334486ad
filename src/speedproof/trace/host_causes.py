"""What the operators and functions of Python that torch's profiler saw say about the causes of idle time."""

import re
from collections.abc import Iterator
from functools import cached_property

import numpy as np
import pandas as pd

from speedproof.trace.call_stacks import CallNamer, Flags, find_stacks
from speedproof.trace.causes import (
    BREAK,
    COLLECTING,
    COMPILING,
    DISPATCH,
    GUARDS,
    OPERATOR,
    PYTHON,
    CauseEvidence,
    Labels,
    Topic,
)
from speedproof.trace.cuda_calls import BETWEEN_LAUNCHES_NS, is_free
from speedproof.trace.events import bounds_of, cover_events, join_names, make_names, rename, with_names
from speedproof.trace.intervals import Array, Intervals, join_close
from speedproof.trace.loop import Loop

_COMPILES = re.compile(r".*\(dynamo_timed\)|entire_frame_compile|_compile\.\w+|compile_attempt_\d+")
_GUARDS = re.compile(r"TorchDynamo Cache Lookup|TorchDynamo Guard.*")
_COLLECTS = re.compile(r"Python GC|<built-in function collect>|<built-in method collect of .*")
_REGION = re.compile(r"Torch-Compiled Region.*")
_RESUMES = re.compile(r"(?P<file>.+)\((?P<line>\d+)\): torch_dynamo_resume_in_(?P<function>.+)_at_\d+")
# The loader's queue, Python's own and those of processes. Who fills it is another thread's or process' matter.
_WAITS_FOR_DATA = re.compile(
    r"(multiprocessing/queues|queue)\.py\(\d+\): get|torch/utils/data/dataloader\.py\(\d+\): _(try_)?get_data"
)
_PROFILES = re.compile(r"torch/profiler/profiler\.py\(\d+\): .*")
_STEPS = re.compile(r"Optimizer\.step#.*")
_AT_ONCE = re.compile(r"aten::_(foreach|fused)_.*|.*multi_tensor.*")
_MANY_OPERATORS = 50  # of an optimizer's step: one that handles all parameters at once has fewer


class HostCauses:
    """Evidence from the calls of the loop's threads."""

    def __init__(self, calls: pd.DataFrame, launches: pd.DataFrame, loop: Loop) -> None:
        self._loop, self._launches = loop, launches
        self._stacks = find_stacks(calls)
        self._on_main: Flags = (self._stacks.calls["thread"] == loop.thread).to_numpy()

    def __bool__(self) -> bool:
        return len(self._stacks) > 0

    @cached_property
    def _namer(self) -> CallNamer:
        return CallNamer(self._stacks)

    @property
    def profiling(self) -> Intervals:
        """Return when the main thread is in torch's profiler itself."""
        return self._stacks.cover(self._stacks.named(_PROFILES.fullmatch) & self._on_main)

    @property
    def operating(self) -> Intervals:
        """Return when the main thread is in an operator."""
        return self._stacks.cover(self._stacks.is_operator & self._on_main)

    @property
    def waiting(self) -> Intervals:
        """Return when the main thread waits for a queue."""
        return self._stacks.cover(self._stacks.named(_WAITS_FOR_DATA.fullmatch) & self._on_main)

    def locate(self, waits: pd.DataFrame) -> pd.DataFrame:
        """Return CUDA calls that wait, each named after the function and the operator that made it, with its topic."""
        rows = self._stacks.find_at(waits["thread"].to_numpy(), waits["start_ns"].to_numpy())
        retried = self._find_retries(waits, rows)
        again = join_names([waits["name"].array, rename(waits, "{} (retry)".format)["name"].array])
        called = again[np.arange(len(waits)) + np.where(retried, len(waits), 0)]
        topic = np.where(retried, "allocator retry", waits["topic"])
        return waits.assign(name=self._namer.name(rows, called), topic=topic)

    def _find_retries(self, waits: pd.DataFrame, rows: Array) -> Flags:
        """Return which calls, made in these rows, belong to allocations that failed at first.

        PyTorch's allocator then frees what it kept, and tries again, all of it in one operator. A launch in between shows that
        the memory was used, so that the first allocation had succeeded.
        """
        found = np.zeros(len(waits), bool)
        memory = np.flatnonzero(waits["topic"] == "allocation")
        frees = waits.index.isin(with_names(waits, is_free).index)[memory]
        begun = np.searchsorted(np.sort(self._launches["start_ns"].to_numpy()), waits["start_ns"].to_numpy()[memory])
        # Calls of one operator without a launch in between are one group, in order of time.
        groups = pd.DataFrame({"free": frees, "row": rows[memory], "launches": begun}).groupby(["row", "launches"])["free"]
        first, last, some = (groups.transform(what).to_numpy(bool) for what in ("first", "last", "any"))
        found[memory] = ~first & ~last & some & np.append(self._stacks.is_operator, False)[rows[memory]]
        return found

    def find_steps(self, ranges: pd.DataFrame) -> pd.DataFrame:
        """Return the optimizer's steps that go through the parameters one by one."""
        steps = with_names(self._loop.on_main_thread(ranges), _STEPS.fullmatch)
        stacks = self._stacks
        top = stacks.is_operator & (stacks.above(stacks.is_operator)[:-1] == len(stacks)) & self._on_main
        at_once = stacks.named(_AT_ONCE.fullmatch)
        start = stacks.calls["start_ns"].to_numpy()
        each, together = (
            np.diff(np.searchsorted(np.sort(start[chosen]), np.stack(bounds_of(steps))), axis=0)[0]
            for chosen in (top & ~at_once, top & at_once)
        )
        return steps[(each >= _MANY_OPERATORS) & (together == 0)]

    def find_compiling(self) -> Iterator[CauseEvidence]:
        for cause, pattern in ((COMPILING, _COMPILES), (GUARDS, _GUARDS), (COLLECTING, _COLLECTS)):
            rows = np.flatnonzero(self._stacks.named(pattern.fullmatch))
            events = self._stacks.calls.iloc[rows]
            labels = Labels(*bounds_of(events), self._namer.name_function(rows))
            yield CauseEvidence(cause, cover_events(events), labels)

    def find_breaks(self, idle: Intervals) -> CauseEvidence:
        """Return when a compiled function that holds another one runs neither: it left its graph and resumes in the next.

        The detail is the line at which it left, if functions were recorded.
        """
        stacks, none = self._stacks, len(self._stacks)
        regions = stacks.named(_REGION.fullmatch)
        holds = stacks.above(regions)
        broken = np.zeros(none + 1, bool)
        broken[holds[:-1][regions]] = True
        broken[none] = False
        names = stacks.calls["name"].array
        resumes = stacks.named(_RESUMES.fullmatch)
        texts = [*map(_name_break, map(str, names.categories)), ""]
        codes = np.append(names.codes.astype(np.int64), len(texts) - 1)
        # The function that resumes lies in the next compiled one, or around it.
        inside, outside = np.flatnonzero(resumes), stacks.above(resumes)[:-1][regions]
        codes[holds[holds[inside]]] = names.codes[inside]
        around_next = outside[holds[outside] == holds[:-1][regions]]
        codes[holds[around_next]] = codes[around_next]
        pieces = stacks.pieces_in(idle)
        around = stacks.nearest(stacks.is_operator)[pieces["row"].to_numpy()]
        pieces, around = pieces[broken[around]], around[broken[around]]
        same, distinct = pd.factorize(np.array(texts, object))
        labels = Labels(*bounds_of(pieces), make_names(same[codes[around]], distinct))
        return CauseEvidence(BREAK, cover_events(pieces), labels)

    def find_operators(self, idle: Intervals) -> Iterator[CauseEvidence]:
        """Yield when operators that launch are at work, and when those are that do not.

        What is short and part of an operator that launches prepares the launch: memory for its result, a view.
        """
        stacks = self._stacks
        start, end = bounds_of(stacks.calls)
        launching = np.append(self._count_launches() > 0, False)
        launching[:-1] |= (end - start < BETWEEN_LAUNCHES_NS) & launching[stacks.above(stacks.is_operator)[:-1]]
        yield self._find_innermost(DISPATCH, stacks.is_operator & launching[:-1], idle)
        yield self._find_innermost(OPERATOR, stacks.is_operator & ~launching[:-1], idle)

    def _count_launches(self) -> Array:
        """Return how many launches begin in each call."""
        counts = np.zeros(len(self._stacks), np.int64)
        threads = self._stacks.calls["thread"].to_numpy()
        for thread in np.unique(threads):
            begun = np.sort(self._launches["start_ns"][self._launches["thread"] == thread].to_numpy())
            mine = threads == thread
            start, end = bounds_of(self._stacks.calls[mine])
            counts[mine] = np.searchsorted(begun, end) - np.searchsorted(begun, start)
        return counts

    def find_functions(self, idle: Intervals) -> CauseEvidence:
        return self._find_innermost(PYTHON, ~self._stacks.is_operator & self._on_main, idle)

    @property
    def between(self) -> Intervals:
        """Return when a thread goes from one operator to the next soon."""
        return join_close(*bounds_of(self._stacks.calls[self._stacks.is_operator]), BETWEEN_LAUNCHES_NS)

    def _find_innermost(self, cause: str, wanted: Flags, idle: Intervals) -> CauseEvidence:
        pieces = self._stacks.pieces_in(idle)
        pieces = pieces[wanted[pieces["row"].to_numpy()]]
        rows = pieces["row"].to_numpy()
        names, terms = self._namer.name(rows), self._namer.name_term(rows)
        used, first = np.unique(names.codes, return_index=True)
        details = [str(names.categories[code]) for code in used]
        known = dict(zip(details, (f"{cause}: {term}" for term in np.asarray(terms)[first]), strict=True))
        writes = self._namer.writes[rows[first]]
        topics: dict[str, Topic] = {detail: "output" for detail, one in zip(details, writes, strict=True) if one}
        return CauseEvidence(cause, cover_events(pieces), Labels(*bounds_of(pieces), names, topics, known))


def _name_break(function: str) -> str:
    """Return where a function resumes that left its graph, `model.py(28): forward`; any other name as it is."""
    found = _RESUMES.fullmatch(function)
    return f"{found['file']}({found['line']}): {found['function']}" if found else function
