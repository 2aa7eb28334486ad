"""Validates after each epoch, and prints the time of its training only."""

import sys
import time

epoch_s, epochs = float(sys.argv[1]), int(sys.argv[2])
for epoch in range(epochs):
    began = time.perf_counter()
    time.sleep(epoch_s)
    trained_s = time.perf_counter() - began
    time.sleep(epoch_s / 4)
    print(f"epoch {epoch} took {trained_s:.5f} s, accuracy 0.91", flush=True)
