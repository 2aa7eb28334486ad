"""What the programs of the ledger share: a piece of work is repeated, and each repetition prints its time."""

import time


def print_times(work, repetitions=5):
    """Do the work, print how long it took each time, and return what the last repetition returned."""
    for _ in range(repetitions):
        start = time.perf_counter()
        result = work()
        print(f"took {time.perf_counter() - start:.6f} s", flush=True)
    return result
