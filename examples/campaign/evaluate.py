"""Print how far the weights of a run are from the truth: python evaluate.py RUN."""

import sys

import numpy as np

truth = np.random.default_rng(1).normal(size=(256, 64))
print(f"error {np.abs(np.load(f'{sys.argv[1]}/weights.npy') - truth).mean():.6f}")
