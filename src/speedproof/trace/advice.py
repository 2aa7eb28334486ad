"""Advice like Nsight Systems' expert rules, each with an upper bound of what it could save."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from speedproof.results.summary import Advice
from speedproof.trace import idle_gaps as causes
from speedproof.trace.roles import writes
from speedproof.util.units import NS_PER_S

# Advice that could save less than this share of an epoch is left out.
_WORTH_SAYING = 0.01
# Nsight Systems' `gpu_time_util` rule calls a GPU under-utilised if it is used less than half of the time.
_LOW_UTILISATION = 0.5
_OUTPUT = re.compile(r"p?writev?(64)?|f(write|puts|printf|flush|sync)|puts|printf|vfprintf|fdatasync")


@dataclass(frozen=True)
class _Rule:
    name: str
    text: str
    applies: Callable[[pd.DataFrame], "pd.Series[bool]"]
    hides: bool = False  # behind kernels: the saving is at most the time with kernels


def _is(cause: str) -> Callable[[pd.DataFrame], "pd.Series[bool]"]:
    return lambda idle_gaps: idle_gaps["cause"] == cause


def _is_output(idle_gaps: pd.DataFrame) -> "pd.Series[bool]":
    """Return which gaps are printing or logging, by the open range or the system call."""
    host = idle_gaps["cause"].isin([causes.HOST, causes.SYSTEM])
    detail = idle_gaps["detail"].array
    output = [writes(str(name)) or _OUTPUT.fullmatch(str(name)) is not None for name in detail.categories]
    return host & np.array([*output, False])[detail.codes]


def _touches_pageable(idle_gaps: pd.DataFrame) -> "pd.Series[bool]":
    return idle_gaps["pageable"] & idle_gaps["cause"].isin([causes.COPYING, causes.SYNCHRONISING])


def _only_waits(idle_gaps: pd.DataFrame) -> "pd.Series[bool]":
    return (idle_gaps["cause"] == causes.SYNCHRONISING) & ~idle_gaps["pageable"]


_RULES = [
    _Rule("data wait", "load data ahead, with worker processes or a thread, prefetching, or a cache", _is(causes.WAITING)),
    _Rule("transforms", "move transforms off the main thread, onto the GPU, or into a cache", _is(causes.TRANSFORMS)),
    _Rule("batches", "load in worker processes: the training loop's thread assembles the batches", _is(causes.COLLATING)),
    _Rule("pageable copies", "pin host memory, so that copies do not block", _touches_pageable),
    _Rule("synchronous calls", "read results less often, and do not wait for the GPU in every step", _only_waits),
    _Rule("first use", "load kernels before the measured epochs, for example in a warm-up step", _is(causes.LOADING)),
    _Rule("exposed copies", "copy on a separate stream while kernels run", _is(causes.COPYING), hides=True),
    _Rule(
        "launch gaps", "launch fewer kernels: CUDA graphs, compilation, fused optimisers, larger batches", _is(causes.LAUNCHING)
    ),
    _Rule("output", "move printing and logging out of the step", _is_output),
    _Rule(
        "shared interpreter", "load in processes, not in threads: threads share Python's lock with the loop", _is(causes.BESIDE)
    ),
    _Rule("host code", "the trace does not show the cause: add NVTX ranges, or sample the CPU", _is(causes.HOST)),
    _Rule("unmarked code", "add NVTX ranges between the phases to see what runs there", _is(causes.NO_RANGE)),
]


def give_advice(idle_gaps: pd.DataFrame, epochs_ns: int, count: int, free_ns: int) -> list[Advice]:
    """Return advice, the largest saving first.

    Rules overlap (a pageable copy is an exposed one too), so their savings do not add up. The idle gaps are those of `count`
    epochs, which last `epochs_ns` in total; for `free_ns` of that, kernels run without a concurrent copy.
    """
    if idle_gaps.empty:
        return []
    lengths = idle_gaps["end_ns"] - idle_gaps["start_ns"]
    sums = [(rule, int(lengths[rule.applies(idle_gaps)].sum())) for rule in _RULES]
    found = [(rule, min(ns, free_ns) if rule.hides else ns) for rule, ns in sums]
    nothing_runs = int(lengths[idle_gaps["cause"] != causes.COPYING].sum())
    if nothing_runs > (1 - _LOW_UTILISATION) * epochs_ns:
        found.append((_Rule("low utilisation", "the GPU is idle more than half of the time", _is("")), nothing_runs))
    worth = sorted((pair for pair in found if pair[1] >= _WORTH_SAYING * epochs_ns), key=lambda pair: -pair[1])
    return [Advice(rule=rule.name, text=rule.text, seconds_per_epoch=ns / count / NS_PER_S) for rule, ns in worth]
