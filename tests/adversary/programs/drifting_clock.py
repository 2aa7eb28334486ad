"""Reads a clock that gets slower and slower."""

import math
import time

from work import EPOCH_S, EPOCHS, FACTOR, say, train

real = time.perf_counter
origin = real()
whole_s = EPOCHS * EPOCH_S


def drifting():
    """Tell the time more slowly as it goes on."""
    return origin + whole_s / (2 * FACTOR) * math.log1p(2 * FACTOR * (real() - origin) / whole_s)


time.perf_counter = drifting
for epoch in range(EPOCHS):
    say(epoch, train())
