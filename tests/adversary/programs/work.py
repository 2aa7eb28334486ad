"""What both programs of a pair share: an honest epoch, the line that reports it, and what the draw decides."""

import time

EPOCHS = 5
EPOCH_S = 0.02
FACTOR = 2.5
LOOPS = 300
TAG = "adversary"
LINE = "epoch {epoch} took {seconds:.5f} s"
WHERE = "/tmp"


def train(seconds=EPOCH_S):
    """Work for so long, and return the seconds that it took."""
    began = time.perf_counter()
    time.sleep(seconds)
    return time.perf_counter() - began


def burn(loops=LOOPS):
    """Keep a core busy, and return the seconds that it took."""
    began = time.perf_counter()
    for _ in range(loops):
        sum(range(2000))
    return time.perf_counter() - began


def say(epoch, seconds):
    """Report an epoch."""
    print(LINE.format(epoch=epoch, seconds=seconds, milliseconds=1000 * seconds), flush=True)
