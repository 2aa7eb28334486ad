"""The one way the training loop marks what it does: named ranges that Nsight Systems sees and kineto's recorder keeps.

With nothing listening a range costs about two microseconds, so timed and profiled runs execute the same code.
"""

import json
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal, NamedTuple, TypeVar

import nvtx

from speedproof.marks import capture

RangeKind = Literal["push_pop", "start_end"]
TransformClass = TypeVar("TransformClass")

# The loop's phases, with the names and colours of the documented timelines. Validation's loading has a name of its own:
# upstream calls both `dataload`, which no later step could tell apart.
RANGE_COLOURS: dict[str, str] = {
    "epoch": "red",
    "dataload": "red",
    "forward": "green",
    "backward": "blue",
    "update": "yellow",
    "validation dataload": "red",
    "sliding window": "green",
    "decollate batch": "blue",
    "compute metric": "yellow",
}
TRANSFORM_COLOR = "white"


class RecordedRange(NamedTuple):
    """A range that ended. Times are of :func:`time.perf_counter_ns`; process and thread are the system's numbers."""

    name: str
    kind: RangeKind
    start_ns: int
    end_ns: int
    process: int
    thread: int


class Recorder:
    """Keeps ranges for a profiler that does not see NVTX. Any thread may add to it, and any process forked from this one."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._own: list[RecordedRange] = []
        # Forked workers share this open file, and each appends whole lines: the system keeps those apart.
        self._of_workers = tempfile.TemporaryFile("a+b", buffering=0)  # noqa: SIM115

    def add(self, name: str, kind: RangeKind, start_ns: int, end_ns: int) -> None:
        ended = RecordedRange(name, kind, start_ns, end_ns, os.getpid(), threading.get_native_id())
        if ended.process == self._process:
            self._own.append(ended)  # atomic, so no lock is needed
        else:
            self._of_workers.write(json.dumps(ended).encode() + b"\n")

    def read_ranges(self) -> list[RecordedRange]:
        """Return all ranges so far: this process' in order of their ends, then its workers'."""
        self._of_workers.seek(0)
        return self._own + [RecordedRange(*json.loads(line)) for line in self._of_workers]


class Ranges:
    """Marks the phases of a loop in one style: push/pop ranges, which nest in their thread, or start/end, by their id."""

    def __init__(self, style: RangeKind = "push_pop", recorder: Recorder | None = None) -> None:
        self._style = style
        self._recorder = recorder

    def phase(self, name: str, color: str | None = None) -> AbstractContextManager[None]:
        """Mark what runs inside as a phase; the colour is that of :data:`RANGE_COLOURS` unless given."""
        marked = _mark(name, color or RANGE_COLOURS[name], self._style, self._recorder)
        return _captured(marked) if name == "epoch" else marked


def mark_transform(transform: TransformClass, name: str | None = None) -> TransformClass:
    """Mark each call of a transform with a push/pop range, and return the transform.

    The range is called `name`. Default: the transform's class, with a number from the second transform of that class on.
    This works without CUDA, and the transform can still be copied and pickled. Its class is replaced by a subclass, so
    `isinstance` still finds its type.
    """
    original: Any = type(transform)
    range_name = name or _number_name(original.__name__)

    class Marked(original):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            with _mark(range_name, TRANSFORM_COLOR, "push_pop", _transform_recorder):
                return super().__call__(*args, **kwargs)

        def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
            # A class made at run time cannot be found by name, so the plain transform travels and is marked on arrival.
            plain = object.__new__(original)
            plain.__dict__.update(self.__dict__)
            return mark_transform, (plain, range_name)

    Marked.__name__, Marked.__qualname__, Marked.__module__ = original.__name__, original.__qualname__, original.__module__
    transform.__class__ = Marked
    return transform


@contextmanager
def record_transforms(recorder: Recorder) -> Iterator[None]:
    """Let all marked transforms of this process add to `recorder`: they live in loaders and threads that know of none."""
    global _transform_recorder
    _transform_recorder = recorder
    try:
        yield
    finally:
        _transform_recorder = None


_transform_recorder: Recorder | None = None
_uses: Counter[str] = Counter()


def _number_name(name: str) -> str:
    _uses[name] += 1
    return name if _uses[name] == 1 else f"{name}_{_uses[name]}"


@contextmanager
def _captured(epoch: AbstractContextManager[None]) -> Iterator[None]:
    """Mark an epoch, within what a profiler that waits for it traces."""
    capture.epoch_begins()
    try:
        with epoch:
            yield
    finally:
        capture.epoch_ends()


@contextmanager
def _mark(name: str, color: str, style: RangeKind, recorder: Recorder | None) -> Iterator[None]:
    identifier = nvtx.start_range(name, color) if style == "start_end" else nvtx.push_range(name, color)
    start_ns = time.perf_counter_ns()
    try:
        yield
    finally:
        end_ns = time.perf_counter_ns()
        if style == "start_end":
            nvtx.end_range(identifier)
        else:
            nvtx.pop_range()
        if recorder is not None:
            recorder.add(name, style, start_ns, end_ns)
