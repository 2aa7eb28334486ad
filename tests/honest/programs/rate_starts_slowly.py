"""Reads its data, longer if its steps are, and prints tokens per second."""

import sys
import time

epoch_s, epochs = float(sys.argv[1]), int(sys.argv[2])
time.sleep(5 * epoch_s)
for epoch in range(epochs):
    began = time.perf_counter()
    time.sleep(epoch_s)
    print(f"step {epoch} | {512 / (time.perf_counter() - began):.1f} tok/s", flush=True)
