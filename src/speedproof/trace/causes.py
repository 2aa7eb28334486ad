"""The causes of idle time: their names, what each means, and what evidence of one is made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import pandas as pd

from speedproof.trace.events import Names, bounds_of
from speedproof.trace.intervals import Array, Intervals

COPYING = "copying"
QUEUED = "queued, not started"
OVERHEAD = "profiler overhead"
LOADING = "loading kernels"
SYNCHRONISING = "synchronising call"
COMPILING = "compiling"
GUARDS = "looking up compiled code"
COLLECTING = "garbage collection"
TRANSFORMS = "transforms on the CPU"
COLLATING = "batches made on the CPU"
WAITING = "waiting for data"
PARAMETERS = "optimizer by parameter"
LAUNCHING = "launch-bound"
SYSTEM = "operating system call"
LIBRARY = "library call"
BREAK = "graph break"
DISPATCH = "launching operator"
OPERATOR = "operator on the CPU"
BESIDE = "while a loader thread is active"
PYTHON = "Python function"
BETWEEN = "between operators"
HOST = "unknown host time in a phase"
NO_RANGE = "unknown host time in no range"
UNEXPLAINED = "unexplained"

# What each cause means, and so what its evidence is, in order of priority. The loop's threads are its main thread and
# those that launch for it without ranges of their own, as PyTorch's backward thread does.
CAUSES: dict[str, str] = {
    COPYING: "memory is copied or filled, and no kernel runs; detail: direction and host memory",
    QUEUED: "the next work is launched but has not started: GPU latency, or it waits for other work; detail: the phase",
    OVERHEAD: "the profiler works on the main thread",
    LOADING: "a thread of the loop loads kernels before their first use, and launches the first; detail: the phase",
    SYNCHRONISING: "a thread of the loop is in a call that waits for the GPU or for memory; detail: the call",
    COMPILING: "a thread of the loop compiles (torch.compile); detail: the function that caused it",
    GUARDS: "a thread of the loop checks which compiled code fits (torch.compile's guards); detail: the function",
    COLLECTING: "a thread of the loop collects garbage; detail: the function in which this happens",
    TRANSFORMS: "the main thread is in a transform; detail: the innermost one",
    COLLATING: "the main thread is in a data-loading range, between its transforms: it collates or copies; "
    "detail: the innermost open range",
    WAITING: "the main thread waits in another data-loading range, or for a queue; "
    "detail: the transform that other threads ran most",
    PARAMETERS: "the main thread is in an optimizer's step that goes through the parameters one by one; detail: the step",
    LAUNCHING: "a thread of the loop launches kernels, less than 100 µs apart: the GPU is faster; detail: the phase",
    SYSTEM: "the main thread is in a traced call of the operating system; detail: the call",
    LIBRARY: "a thread of the loop is in a traced call of cuDNN or cuBLAS; detail: the call",
    BREAK: "a thread of the loop runs Python between two graphs of one compiled function; detail: where the first ends",
    DISPATCH: "a thread of the loop is in an operator that launches, or in a short part of one; detail: the operators",
    OPERATOR: "a thread of the loop is in an operator that launches nothing; detail: the operators",
    BESIDE: "another thread of the process runs transforms and shares Python's lock; detail: the one that ran most",
    PYTHON: "the main thread is in a function of Python; detail: the function",
    BETWEEN: "a thread of the loop is between operators that are less than 100 µs apart; detail: the phase",
    HOST: "the main thread is in a phase, and the trace does not show what it does; detail: the innermost open range",
    NO_RANGE: "the main thread is in an iteration, outside of phases and transforms",
    UNEXPLAINED: "no evidence",
}
UNKNOWN = (HOST, NO_RANGE, UNEXPLAINED)

# What a detail is about, beyond its cause, where that decides what helps.
Topic = Literal["", "pageable memory", "allocation", "allocator retry", "output"]


@dataclass(frozen=True)
class Labels:
    """Intervals with a name each. They may overlap."""

    start: Array
    end: Array
    name: Names
    topics: Mapping[str, Topic] = field(default_factory=dict)  # by name
    terms: Mapping[str, str] = field(default_factory=dict)  # of the account, by name: what is alike in another program


@dataclass(frozen=True)
class CauseEvidence:
    """The intervals of one cause, and what its detail is chosen from (None: it has no detail)."""

    cause: str
    covers: Intervals
    labels: Labels | None = None
    most: bool = False  # the detail of each piece is what fills most of it; else it is split among the labels


def label_events(events: pd.DataFrame, topics: Mapping[str, Topic] | None = None) -> Labels:
    return Labels(*bounds_of(events), events["name"].array, topics or {})
