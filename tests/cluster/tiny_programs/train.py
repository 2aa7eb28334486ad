"""A program that marks its epochs and trains nothing: what is around it, jobs and containers, needs no more."""

import sys
import time

import nvtx

from speedproof import marks

for epoch in marks.epochs(2):
    with nvtx.annotate("epoch"), nvtx.annotate("forward"):
        time.sleep(0.05)
    marks.validation()
    marks.quality(0.9)
    print(f"epoch {epoch + 1}/2", flush=True)
    taken = b"x" * 2**30 if "hungry" in sys.argv else b""
    while len(sys.argv) > 1:
        time.sleep(1)
