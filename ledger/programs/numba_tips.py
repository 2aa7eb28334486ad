"""Functions of Numba's performance tips: `python numba_tips.py loops --njit`."""

import sys

import numba
import numpy as np
from timing import print_times

CALLS = {"loops": 1, "identity": 10, "sum": 50}  # per repetition, so that each takes seconds
x = np.arange(1e7)


def loops(x):
    result = np.empty_like(x)
    for i in range(len(x)):
        result[i] = np.cos(x[i]) ** 2 + np.sin(x[i]) ** 2
    return result


def identity(x):
    return np.cos(x) ** 2 + np.sin(x) ** 2


def total(x):
    total = 0.0
    for value in x:
        total += np.sqrt(value)
    return total


name, options = sys.argv[1], sys.argv[2:]
function = {"loops": loops, "identity": identity, "sum": total}[name]
if options:
    function = numba.njit(parallel="--parallel" in options, fastmath="--fastmath" in options)(function)
    function(x[:10])  # compiles


def work():
    for _ in range(CALLS[name]):
        function(x)


print_times(work, repetitions=3)
