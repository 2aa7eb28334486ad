"""Starts for a time that varies by a third of what its epochs may save."""

import random
import sys
import time

epoch_s, epochs = float(sys.argv[1]), int(sys.argv[2])
time.sleep(random.uniform(0.03, 0.05))
for epoch in range(epochs):
    began = time.perf_counter()
    time.sleep(epoch_s)
    print(f"epoch {epoch} took {time.perf_counter() - began:.5f} s", flush=True)
