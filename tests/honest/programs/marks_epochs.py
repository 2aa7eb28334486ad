"""Marks its epochs."""

import sys
import time

import marks

epoch_s, epochs = float(sys.argv[1]), int(sys.argv[2])
for _ in marks.epochs(epochs):
    time.sleep(epoch_s)
