"""Prints the seconds of each epoch."""

import sys
import time

epoch_s, epochs = float(sys.argv[1]), int(sys.argv[2])
for epoch in range(epochs):
    began = time.perf_counter()
    time.sleep(epoch_s)
    print(f"epoch {epoch} took {time.perf_counter() - began:.5f} s", flush=True)
