"""Waits for batches that other processes load."""

import multiprocessing
import sys
import time

epoch_s, epochs = float(sys.argv[1]), int(sys.argv[2])


def load(batches):
    """Load a batch for each number that comes."""
    while batches.recv():
        time.sleep(epoch_s)
        batches.send(True)


if __name__ == "__main__":
    ours, theirs = multiprocessing.Pipe()
    worker = multiprocessing.get_context("fork").Process(target=load, args=(theirs,))
    worker.start()
    for epoch in range(epochs):
        began = time.perf_counter()
        ours.send(1)
        ours.recv()
        print(f"epoch {epoch} took {time.perf_counter() - began:.5f} s", flush=True)
    ours.send(0)
    worker.join()
