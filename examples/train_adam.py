r"""A linear model in NumPy, trained by Adam. `--in-place` and `--prefetch` should both make it faster. One of them does:

speedproof prove 'python train_adam.py' 'python train_adam.py --in-place' --epoch-s 'took (\S+) s'
"""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

random = np.random.default_rng(int(os.environ.get("SPEEDPROOF_SEED", "0")))
inputs = random.normal(size=(24_000, 192)).astype("f4")
targets = inputs @ random.normal(size=(192, 192)).astype("f4") + random.normal(size=(24_000, 192)).astype("f4")
weights, mean, square, scratch = np.zeros((4, 192, 192), "f4")
draw = ThreadPoolExecutor(1).map if "--prefetch" in sys.argv else map


def update(gradient):
    global weights, mean, square
    if "--in-place" in sys.argv:
        mean *= 0.9
        mean += np.multiply(gradient, 0.1, out=scratch)
        square *= 0.999
        square += np.multiply(np.square(gradient, out=gradient), 0.001, out=gradient)
        np.add(np.sqrt(square, out=scratch), 1e-8, out=scratch)
        weights -= np.multiply(np.divide(mean, scratch, out=scratch), 0.001, out=scratch)
    else:
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        weights = weights - 0.001 * mean / (np.sqrt(square) + 1e-8)


for epoch in range(5):
    began = time.perf_counter()
    for rows, wanted in draw(lambda drawn: (inputs[drawn], targets[drawn]), random.permutation(24_000).reshape(-1, 6)):
        update(rows.T @ (rows @ weights - wanted) / 6)
    print(f"epoch {epoch + 1} took {time.perf_counter() - began:.6f} s, error {np.abs(inputs @ weights - targets).mean():.4f}")
