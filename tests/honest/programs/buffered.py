"""Prints in large pieces, as into a pipe: all lines come together at the end."""

import sys
import time

epoch_s, epochs = float(sys.argv[1]), int(sys.argv[2])
sys.stdout = open(1, "w", buffering=1 << 16, closefd=False)  # noqa: SIM115

for epoch in range(epochs):
    began = time.perf_counter()
    time.sleep(epoch_s)
    print(f"epoch {epoch} took {time.perf_counter() - began:.5f} s")
