"""Loads the next batch in a thread while it trains."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor

epoch_s, epochs = float(sys.argv[1]), int(sys.argv[2])
with ThreadPoolExecutor(1) as pool:
    for epoch in range(epochs):
        began = time.perf_counter()
        following = pool.submit(time.sleep, epoch_s / 2)
        time.sleep(epoch_s)
        following.result()
        print(f"epoch {epoch} took {time.perf_counter() - began:.5f} s", flush=True)
