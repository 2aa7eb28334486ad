"""Prints the seconds since its start."""

import sys
import time

epoch_s, epochs = float(sys.argv[1]), int(sys.argv[2])
started = time.perf_counter()

for epoch in range(epochs):
    time.sleep(epoch_s)
    print(f"epoch {epoch} elapsed {time.perf_counter() - started:.5f} s", flush=True)
