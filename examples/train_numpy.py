r"""A NumPy program that knows nothing of speedproof: it prints how long each epoch took, and how well it fits.

speedproof prove 'python train_numpy.py' 'python train_numpy.py --vectorised' \
    --epoch-s 'took (\S+) s' --quality 'error (\S+)' --better lower --margin 0.001
"""

import os
import sys
import time

import numpy as np

random = np.random.default_rng(int(os.environ.get("SPEEDPROOF_SEED", "0")))
inputs = random.normal(size=(2000, 16))
targets = inputs @ np.arange(16)
weights = np.zeros(16)

for epoch in range(4):
    begun = time.perf_counter()
    if "--vectorised" in sys.argv:
        gradient = inputs.T @ (inputs @ weights - targets)
    else:
        gradient = sum((row @ weights - target) * row for row, target in zip(inputs, targets, strict=True))
    weights = weights - gradient / len(inputs)
    error = float(np.abs(inputs @ weights - targets).mean())
    print(f"epoch {epoch + 1} took {time.perf_counter() - begun:.6f} s, error {error:.6f}")
