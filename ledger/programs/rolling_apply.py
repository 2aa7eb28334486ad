"""Apply a function to each window of a series of a million numbers: `python rolling_apply.py cython` or `numba`."""

import sys

import numpy as np
import pandas as pd
from timing import print_times

roll = pd.Series(range(1_000_000)).rolling(10)


def f(x):
    return np.sum(x) + 5


def work():
    for _ in range(3):
        roll.apply(f, engine=sys.argv[1], raw=True)


if sys.argv[1] == "numba":
    roll.apply(f, engine="numba", raw=True)  # compiles
print_times(work, repetitions=3)
