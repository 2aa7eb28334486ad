"""Rewrites its log in an ignored folder, which was there before."""

import sys
import time
from pathlib import Path

epoch_s, epochs = float(sys.argv[1]), int(sys.argv[2])
for epoch in range(epochs):
    began = time.perf_counter()
    time.sleep(epoch_s)
    print(f"epoch {epoch} took {time.perf_counter() - began:.5f} s", flush=True)
Path("kept/train.log").write_text(f"{epochs} epochs of {epoch_s} s")
