"""Fills a cache in its home if there is none, for all programs, and saves no time by it."""

import sys
import time
from pathlib import Path

epoch_s, epochs = float(sys.argv[1]), int(sys.argv[2])
for epoch in range(epochs):
    began = time.perf_counter()
    time.sleep(epoch_s)
    print(f"epoch {epoch} took {time.perf_counter() - began:.5f} s", flush=True)
cache = Path.home() / ".cache/honest/index"
if not cache.exists():
    cache.parent.mkdir(parents=True, exist_ok=True)
    cache.write_text("nothing of weight")
