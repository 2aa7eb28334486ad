"""Leaves a helper that did some work, as one that sends logs."""

import os
import sys
import time

epoch_s, epochs = float(sys.argv[1]), int(sys.argv[2])
if os.fork() == 0:
    os.setsid()
    sum(range(1_000_000))
    time.sleep(1)
    os._exit(0)
for epoch in range(epochs):
    began = time.perf_counter()
    time.sleep(epoch_s)
    print(f"epoch {epoch} took {time.perf_counter() - began:.5f} s", flush=True)
