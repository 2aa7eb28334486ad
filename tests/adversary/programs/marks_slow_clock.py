"""Marks each epoch as it ends, by a clock that runs slow."""

import time

import marks
from work import EPOCHS, FACTOR, train

real = time.monotonic
origin = real()


def slow():
    """Tell the time too slowly."""
    return origin + (real() - origin) / FACTOR


time.monotonic = slow
for _ in marks.epochs(EPOCHS):
    train()
