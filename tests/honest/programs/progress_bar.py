"""Draws a progress bar on standard error, rewritten many times, and prints each epoch."""

import sys
import time

epoch_s, epochs = float(sys.argv[1]), int(sys.argv[2])
for epoch in range(epochs):
    began = time.perf_counter()
    for step in range(10):
        time.sleep(epoch_s / 10)
        sys.stderr.write(f"\r{10 * step:3d}%|{'#' * step:<10}| {step}/10 [00:00, {1 / epoch_s:.1f}it/s]")
        sys.stderr.flush()
    print(f"epoch {epoch} took {time.perf_counter() - began:.5f} s", flush=True)
