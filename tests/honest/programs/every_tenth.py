"""Prints one iteration of ten, as nanoGPT does, in milliseconds."""

import sys
import time

epoch_s, epochs = float(sys.argv[1]), int(sys.argv[2])
for step in range(10 * epochs):
    began = time.perf_counter()
    time.sleep(epoch_s / 5)
    if step % 10 == 0:
        print(f"iter {step}: loss 1.21, time {1000 * (time.perf_counter() - began):.2f}ms, mfu 1.00%", flush=True)
