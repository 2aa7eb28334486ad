"""Prints its times as h:mm:ss."""

import sys
import time
from datetime import timedelta

epoch_s, epochs = float(sys.argv[1]), int(sys.argv[2])
for epoch in range(epochs):
    began = time.perf_counter()
    time.sleep(epoch_s)
    print(f"epoch {epoch} took {timedelta(seconds=time.perf_counter() - began)}", flush=True)
