"""Starts a second rank, of which each prints."""

import os
import sys
import time

epoch_s, epochs = float(sys.argv[1]), int(sys.argv[2])
other = os.fork()
for epoch in range(epochs):
    began = time.perf_counter()
    time.sleep(epoch_s)
    print(f"epoch {epoch} took {time.perf_counter() - began:.5f} s", flush=True)
if other:
    os.waitpid(other, 0)
