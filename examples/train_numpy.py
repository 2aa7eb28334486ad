r"""A NumPy program that knows nothing of speedproof: it prints how long each epoch took, and how well it fits.

speedproof prove 'python train_numpy.py' 'python train_numpy.py --float32' \
    --epoch-s 'took (\S+) s' --quality 'error (\S+)' --better lower --margin 0.001
"""

import os
import sys
import time

import numpy as np

random = np.random.default_rng(int(os.environ.get("SPEEDPROOF_SEED", "0")))
precision = np.float32 if "--float32" in sys.argv else np.float64
inputs = random.normal(size=(60_000, 256)).astype(precision)
targets = inputs @ random.normal(size=(256, 64)).astype(precision)
weights = np.zeros((256, 64), dtype=precision)

for epoch in range(4):
    began = time.perf_counter()
    for batch in range(0, len(inputs), 1000):
        rows, wanted = inputs[batch : batch + 1000], targets[batch : batch + 1000]
        weights -= 0.02 * rows.T @ (rows @ weights - wanted) / len(rows)
    error = float(np.abs(inputs @ weights - targets).mean())
    print(f"epoch {epoch + 1} took {time.perf_counter() - began:.6f} s, error {error:.6f}")
