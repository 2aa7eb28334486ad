"""What the programs of the ledger share: a piece of work is repeated, and each repetition prints its time."""

import time


def print_times(work, repetitions=5):
    for _ in range(repetitions):
        start = time.perf_counter()
        work()
        print(f"took {time.perf_counter() - start:.6f} s", flush=True)
