"""Prints a line after each epoch, without its time."""

import sys
import time

epoch_s, epochs = float(sys.argv[1]), int(sys.argv[2])
for epoch in range(epochs):
    time.sleep(3 * epoch_s)  # of lines that come together on a busy machine nothing could be read
    print(f"epoch {epoch} done", flush=True)
