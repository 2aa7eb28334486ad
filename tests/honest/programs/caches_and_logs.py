"""Leaves a log of its own in each run, and a cache that saves no time, in a folder of its home."""

import os
import sys
import time
from pathlib import Path

epoch_s, epochs = float(sys.argv[1]), int(sys.argv[2])
for epoch in range(epochs):
    began = time.perf_counter()
    time.sleep(epoch_s)
    print(f"epoch {epoch} took {time.perf_counter() - began:.5f} s", flush=True)
folder = Path.home() / ".cache/honest"
folder.mkdir(parents=True, exist_ok=True)
(folder / f"run-{os.getpid()}.log").write_text("done")
if not (folder / f"{epoch_s}.bin").exists():
    (folder / f"{epoch_s}.bin").write_text("nothing of weight")
