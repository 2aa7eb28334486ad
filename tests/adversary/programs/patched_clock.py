"""Replaces the clock of the `time` module by a slow one; the rest is honest."""

import time

from work import EPOCHS, FACTOR, say, train

real = time.perf_counter
origin = real()


def slow():
    """Tell the time too slowly."""
    return origin + (real() - origin) / FACTOR


time.perf_counter = slow
for epoch in range(EPOCHS):
    say(epoch, train())
