"""Counts the FLOP of whatever program imports torch, by torch's own counter, into the folder that a variable names.

A counted program finds this file as `sitecustomize`, and beside it the package with what it imports.
"""

import atexit
import importlib
import os
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from speedproof.profilers.operator_flop import FORMULAS, count_operator
from speedproof.profilers.torch_hook import follow_import

FLOP_VARIABLE = "SPEEDPROOF_FLOP"
COUNTS_SUFFIX = ".flop.csv"  # rows: moment by the machine's monotonic clock, device, type of the numbers, FLOP since the last
_SLICE_S = 0.002

# What a formula may raise for arguments of another version, or of nested tensors; a program must not fail by our counter.
_STRANGE = (ArithmeticError, AssertionError, AttributeError, IndexError, RuntimeError, TypeError, ValueError)
_Sums = dict[tuple[str, str], int]  # FLOP by kind of device and type of number


class FlopCounts:
    """The FLOP that this process computes, written as time passes."""

    def __init__(self, torch: Any) -> None:
        self._torch, self._process = torch, os.getpid()
        self._path = Path(os.environ[FLOP_VARIABLE], f"{self._process}{COUNTS_SUFFIX}")
        self._sums: _Sums = defaultdict(int)
        self._begun_s = self._last_s = time.monotonic()
        self._capturing: _Sums | None = None  # what is captured into a CUDA graph is not computed yet

    def begin(self) -> None:
        """Count from now on; raises if this torch has no counter."""
        counter = importlib.import_module("torch.utils.flop_counter").FlopCounterMode(display=False)
        ours = {getattr(self._torch.ops.aten, name, None): _count_nothing for name in FORMULAS}
        known = ours | counter.flop_registry
        # Operators of a higher order, such as flex attention, have no `default`: their masks are unknown.
        counter.flop_registry = {one: self._wrap(one, formula) for one, formula in known.items() if hasattr(one, "default")}
        self._follow_graphs()
        counter.__enter__()
        self._counter = counter  # for as long as the program runs
        atexit.register(self.write)

    def _wrap(self, packet: Any, known: Callable[..., int]) -> Callable[..., int]:
        """Return the counter's formula of an operator, ours if there is one, which also notes what is counted."""
        schema = getattr(getattr(packet, "default", None), "_schema", None)
        names = [one.name for one in schema.arguments] if schema else []
        defaults = [one.default_value for one in schema.arguments] if schema else []

        def count(*given: Any, **more: Any) -> int:
            values = [*given, *(more.get(*one) for one in list(zip(names, defaults, strict=True))[len(given) :])]
            tensors = [value for value in values if isinstance(value, self._torch.Tensor)]
            if os.getpid() != self._process or not tensors or any(one.layout != self._torch.strided for one in tensors):
                return 0
            try:
                work = count_operator(packet.__name__, [_shape_of(value) for value in values], values)
                flop = work.flop if work else int(known(*given, **more))
            except _STRANGE:
                return 0
            if work is None and dict(zip(names, values, strict=False)).get("is_causal") is True:
                flop //= 2  # torch counts what the mask leaves out
            self._add({(tensors[0].device.type, str(tensors[0].dtype).removeprefix("torch.")): flop})
            return flop

        return count

    def _add(self, more: _Sums) -> None:
        now_s = time.monotonic()
        if self._capturing is None and now_s - self._begun_s > _SLICE_S:  # what follows may be another epoch's
            self.write()
            self._begun_s = now_s
        sums = self._sums if self._capturing is None else self._capturing
        for key, flop in more.items():
            sums[key] += flop
        self._last_s = now_s

    def write(self) -> None:
        """Append what was counted since the last time."""
        if os.getpid() == self._process:
            rows = [f"{self._last_s:.6f},{device},{kind},{flop}\n" for (device, kind), flop in self._sums.items()]
            with self._path.open("a", encoding="ascii") as file:
                file.writelines(rows)
        self._sums.clear()

    def _follow_graphs(self) -> None:
        """Count what a CUDA graph holds each time that it is replayed."""
        graphs = self._torch.cuda.CUDAGraph
        begin, end, replay = graphs.capture_begin, graphs.capture_end, graphs.replay

        def capture_begin(graph: Any, *given: Any, **more: Any) -> Any:
            self._capturing = graph.speedproof_flop = defaultdict(int)
            return begin(graph, *given, **more)

        def capture_end(graph: Any) -> Any:
            self._capturing = None
            return end(graph)

        def replay_counted(graph: Any) -> Any:
            self._add(getattr(graph, "speedproof_flop", {}))
            return replay(graph)

        graphs.capture_begin, graphs.capture_end, graphs.replay = capture_begin, capture_end, replay_counted


def _count_nothing(*_given: Any, **_more: Any) -> int:
    return 0


def _shape_of(value: Any) -> tuple[int, ...]:
    return tuple(value.shape) if hasattr(value, "shape") else ()


def start_counting(torch: Any) -> None:
    """Count until the program ends; a torch without a counter leaves no counts."""
    try:
        FlopCounts(torch).begin()
    except (ImportError, AttributeError):
        return


if os.environ.get(FLOP_VARIABLE) and __name__ == "sitecustomize":
    follow_import(start_counting, __file__)
