"""Appends a row to a CSV file after each epoch."""

import sys
import time
from pathlib import Path

epoch_s, epochs = float(sys.argv[1]), int(sys.argv[2])
with Path("log.csv").open("w") as file:
    file.write("epoch,seconds\n")
    for epoch in range(epochs):
        began = time.perf_counter()
        time.sleep(epoch_s)
        file.write(f"{epoch},{time.perf_counter() - began:.5f}\n")
        file.flush()
