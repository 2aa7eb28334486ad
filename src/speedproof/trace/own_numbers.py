"""The numbers that a program gives its iterations, in their ranges' names: `ProfilerStep#38` is step 38, wherever it comes."""

import re

import numpy as np
import pandas as pd

from speedproof.trace.intervals import Array
from speedproof.trace.iterations import Iterations, without_numbers

NOT_NUMBERED = -1
_NUMBER = re.compile(r"\d+")
_MOST_DIGITS = 18  # of a number that an integer holds


def find_own_numbers(ranges: pd.DataFrame, iterations: Iterations) -> Array:
    """Return each iteration's number: the first in the ranges' names that differs in all; else :data:`NOT_NUMBERED`."""
    starts = iterations.bounds["start_ns"].to_numpy()
    unnumbered = np.full(len(starts), NOT_NUMBERED, np.int64)
    if iterations.found.by != "ranges":
        return unnumbered
    mine = ranges[(ranges["thread"] == iterations.thread) & ranges["start_ns"].isin(starts)]
    names = {start: str(name) for start, name in zip(mine["start_ns"], mine["name"], strict=True) if _is_one(name, iterations)}
    numbers = [_NUMBER.findall(names.get(start, "")) for start in starts.tolist()]
    for place in range(min(map(len, numbers), default=0)):
        chosen = [several[place] for several in numbers]
        if max(map(len, chosen)) <= _MOST_DIGITS and len(set(map(int, chosen))) == len(chosen):
            return np.array(chosen, np.int64)
    return unnumbered


def _is_one(name: str, iterations: Iterations) -> bool:
    return without_numbers(name) == iterations.found.name
