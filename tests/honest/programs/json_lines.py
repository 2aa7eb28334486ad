"""Appends a JSON object after each epoch."""

import json
import sys
import time
from pathlib import Path

epoch_s, epochs = float(sys.argv[1]), int(sys.argv[2])
with Path("log.jsonl").open("w") as file:
    for epoch in range(epochs):
        began = time.perf_counter()
        time.sleep(epoch_s)
        file.write(json.dumps({"epoch": epoch, "seconds": time.perf_counter() - began}) + "\n")
        file.flush()
