"""Starts two ranks, of which the first one prints."""

import subprocess
import sys
import time

epoch_s, epochs = float(sys.argv[1]), int(sys.argv[2])
if len(sys.argv) == 3:
    ranks = [subprocess.Popen([sys.executable, *sys.argv, str(rank)]) for rank in range(2)]
    sys.exit(max(rank.wait() for rank in ranks))
for epoch in range(epochs):
    began = time.perf_counter()
    time.sleep(epoch_s)
    if sys.argv[3] == "0":
        print(f"epoch {epoch} took {time.perf_counter() - began:.5f} s", flush=True)
