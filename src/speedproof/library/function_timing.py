"""How long calls of a function take: in loops that are long enough for the clock, on the GPU if torch uses one."""

import gc
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import repeat
from typing import Any, Protocol

Function = Callable[[], object]
_COVERS = 0.9  # of the time between two synchronizations: below, work runs on another stream or device
_MOST_CALLS = 10**9
_TRIES = 5
_LONG = 50  # times a loop: a call that takes longer is timed once


class LoopClock(Protocol):
    """Times a loop of calls."""

    title: str

    def time_calls(self, function: Function, calls: int) -> float:
        """Return how many seconds so many calls take together."""


class WallClock:
    """The wall clock, between two calls of `synchronize` if work may go on after a call returns."""

    def __init__(self, synchronize: Callable[[], object] = lambda: None, title: str = "wall clock") -> None:
        self._synchronize, self.title = synchronize, title

    def time_calls(self, function: Function, calls: int) -> float:
        """Return how many seconds so many calls take together."""
        self._synchronize()
        begun_s = time.perf_counter()
        for _ in repeat(None, calls):
            function()
        self._synchronize()
        return time.perf_counter() - begun_s


class CudaClock:
    """CUDA events on the current stream, which also cover the time that the GPU waits for the program."""

    title = "CUDA events"

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda
        self._wall = WallClock(cuda.synchronize)
        self._gpu_s = self._wall_s = 0.0

    def time_calls(self, function: Function, calls: int) -> float:
        """Return how many seconds so many calls take together."""
        begin, end = (self._cuda.Event(enable_timing=True) for _ in range(2))

        def call_between_events() -> None:
            begin.record()
            for _ in repeat(None, calls):
                function()
            end.record()

        self._wall_s += self._wall.time_calls(call_between_events, 1)
        took_s = float(begin.elapsed_time(end)) / 1000
        self._gpu_s += took_s
        return took_s

    @property
    def misses_work(self) -> bool:
        """Return whether the events cover too little of the time between the synchronizations so far."""
        return self._gpu_s < _COVERS * self._wall_s


def find_cuda() -> Any:
    """Return torch's CUDA module if the program imported torch and a GPU is available, else None."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_available() else None


def calibrate_calls(clock: LoopClock, function: Function, loop_s: float) -> tuple[int, float]:
    """Return how many calls take about `loop_s` together, at least one, and how long one of them takes.

    The shortest of a few times counts: a pause of the process would make a loop too short for the clock.
    """

    def time_shortest(calls: int) -> float:
        first_s = clock.time_calls(function, calls)
        tries = 0 if first_s > _LONG * loop_s else _TRIES - 1
        return min([first_s, *(clock.time_calls(function, calls) for _ in range(tries))])

    calls, took_s = 1, time_shortest(1)
    while took_s < loop_s / 2 and calls < _MOST_CALLS:
        wanted = calls * loop_s / took_s if took_s > 0 else math.inf
        calls = min(_MOST_CALLS, max(2 * calls, int(min(10 * calls, wanted))))
        took_s = time_shortest(calls)
    each_s = took_s / calls
    return max(1, min(_MOST_CALLS, round(loop_s / each_s))) if each_s > 0 else calls, each_s


@contextmanager
def without_collector() -> Iterator[None]:
    """Collect garbage once, and keep the collector off while this lasts."""
    gc.collect()
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
