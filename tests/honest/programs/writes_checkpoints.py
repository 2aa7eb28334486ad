"""Writes a checkpoint after each epoch, outside of the time that it prints."""

import sys
import time
from pathlib import Path

epoch_s, epochs = float(sys.argv[1]), int(sys.argv[2])
for epoch in range(epochs):
    began = time.perf_counter()
    time.sleep(epoch_s)
    print(f"epoch {epoch} took {time.perf_counter() - began:.5f} s", flush=True)
    Path("checkpoint.bin").write_bytes(bytes(200_000))
