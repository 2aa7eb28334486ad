"""Validates as long as before, though its training got faster: it reports a smaller share of its epochs."""

import sys
import time

epoch_s, epochs = float(sys.argv[1]), int(sys.argv[2])
for epoch in range(epochs):
    began = time.perf_counter()
    time.sleep(epoch_s)
    trained_s = time.perf_counter() - began
    time.sleep(0.006)
    print(f"epoch {epoch} took {trained_s:.5f} s, accuracy 0.91", flush=True)
