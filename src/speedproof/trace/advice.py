"""Advice like Nsight Systems' expert rules, each with an upper bound of what it could save."""

from dataclasses import dataclass
from typing import cast

import pandas as pd

from speedproof.results.names import ProfilerName
from speedproof.results.summary import Advice
from speedproof.trace import causes
from speedproof.trace.causes import Topic
from speedproof.util.units import NS_PER_S

# Advice that could save less than this share of an epoch is left out.
_WORTH_SAYING = 0.01
# Nsight Systems' `gpu_time_util` rule calls a GPU under-utilised if it is used less than half of the time.
_LOW_UTILISATION = 0.5


@dataclass(frozen=True)
class _Rule:
    name: str
    text: str
    causes: tuple[str, ...]
    topics: tuple[Topic, ...] | None = None  # of the details to which it applies; None: to all
    hides: bool = False  # behind kernels: the saving is at most the time with kernels
    kineto: str = ""  # what to do in torch.profiler, which records no NVTX ranges, if that is something else

    def write(self, profiler: ProfilerName) -> str:
        return self.kineto if profiler == "kineto" and self.kineto else self.text

    def applies(self, cause: str, topic: str) -> bool:
        return cause in self.causes and (self.topics is None or topic in self.topics)


_RULES = [
    _Rule("data wait", "load data ahead, with worker processes or a thread, prefetching, or a cache", (causes.WAITING,)),
    _Rule("transforms", "move transforms off the main thread, onto the GPU, or into a cache", (causes.TRANSFORMS,)),
    _Rule(
        "batches",
        "load data in worker processes: the loop's own thread assembles the batches",
        (causes.COLLATING,),
    ),
    _Rule(
        "pageable copies",
        "pin host memory, so that copies do not block",
        (causes.COPYING, causes.SYNCHRONISING),
        ("pageable memory",),
    ),
    _Rule(
        "synchronous calls",
        "read results less often, and do not wait for the GPU in every step",
        (causes.SYNCHRONISING,),
        ("",),
    ),
    _Rule(
        "allocations",
        "reuse memory: allocate it before the loop, or from a pool (a caching allocator, cudaMallocAsync)",
        (causes.SYNCHRONISING,),
        ("allocation",),
    ),
    _Rule(
        "allocator retries",
        "the GPU's memory is full, so PyTorch frees its cache and tries again: use less memory, or set expandable_segments",
        (causes.SYNCHRONISING,),
        ("allocator retry",),
    ),
    _Rule("first use", "load kernels before the measured epochs, for example in a warm-up step", (causes.LOADING,)),
    _Rule("exposed copies", "copy on a separate stream while kernels run", (causes.COPYING,), hides=True),
    _Rule(
        "compilation",
        "compile before the measured iterations; TORCH_LOGS=recompiles names what compiles again",
        (causes.COMPILING,),
    ),
    _Rule(
        "guards",
        "compile larger parts, or several steps in one function, so that compiled code is looked up less often",
        (causes.GUARDS,),
    ),
    _Rule(
        "graph breaks",
        "keep compiled functions in one graph: TORCH_LOGS=graph_breaks names the causes, fullgraph=True rejects them",
        (causes.BREAK,),
    ),
    _Rule(
        "garbage", "collect garbage between epochs (gc.disable, gc.freeze), and do not call gc.collect", (causes.COLLECTING,)
    ),
    _Rule("optimizer", "update all parameters at once: an optimizer with fused=True or foreach=True", (causes.PARAMETERS,)),
    _Rule(
        "launch gaps",
        "launch fewer kernels: CUDA graphs, compilation, fused optimisers, larger batches",
        (causes.LAUNCHING, causes.DISPATCH, causes.BETWEEN),
    ),
    _Rule("operators", "run these operators on the GPU, ahead of the step, or in worker processes", (causes.OPERATOR,)),
    _Rule(
        "output",
        "move printing and logging out of the step",
        (causes.HOST, causes.SYSTEM, causes.PYTHON),
        ("output",),
    ),
    _Rule(
        "Python code",
        "move these functions out of the step, move them into other processes, or compile them",
        (causes.PYTHON,),
        ("",),
    ),
    _Rule(
        "shared interpreter",
        "load data in worker processes instead of threads, which share Python's interpreter lock with the loop",
        (causes.BESIDE,),
    ),
    _Rule(
        "host code",
        "the trace does not show the cause: add NVTX ranges, or sample the CPU",
        (causes.HOST,),
        kineto="the trace does not show the cause: mark parts of the code with record_function, or record with_stack=True",
    ),
    _Rule(
        "unmarked code",
        "add NVTX ranges between the phases to see what runs there",
        (causes.NO_RANGE,),
        kineto="mark this code with record_function, or record with_stack=True, to see what runs there",
    ),
]


def give_advice(idle_gaps: pd.DataFrame, epochs_ns: int, count: int, free_ns: int, profiler: ProfilerName) -> list[Advice]:
    """Return advice, the largest saving first.

    Rules overlap (a pageable copy is an exposed one too), so their savings do not add up. The idle gaps are those of `count`
    epochs, which last `epochs_ns` in total; for `free_ns` of that, kernels run without a concurrent copy.
    """
    if idle_gaps.empty:
        return []
    lengths = (idle_gaps["end_ns"] - idle_gaps["start_ns"]).groupby([idle_gaps["cause"], idle_gaps["topic"]], observed=True)
    idle_ns = cast("dict[tuple[str, str], int]", lengths.sum().to_dict())
    sums = [(rule, sum(ns for kind, ns in idle_ns.items() if rule.applies(*kind))) for rule in _RULES]
    found = [(rule, min(ns, free_ns) if rule.hides else ns) for rule, ns in sums]
    nothing_runs = sum(ns for (cause, _), ns in idle_ns.items() if cause != causes.COPYING)
    if nothing_runs > (1 - _LOW_UTILISATION) * epochs_ns:
        found.append((_Rule("low utilisation", "the GPU is idle more than half of the time", ()), nothing_runs))
    worth = sorted((pair for pair in found if pair[1] >= _WORTH_SAYING * epochs_ns), key=lambda pair: -pair[1])
    return [Advice(rule=rule.name, text=rule.write(profiler), seconds_per_epoch=ns / count / NS_PER_S) for rule, ns in worth]
