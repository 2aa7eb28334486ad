"""Fit a support vector classifier: `python patched_svc.py scikit-learn` or `sklearnex`."""

import os
import sys

import numpy as np
from timing import print_times

if sys.argv[1] == "sklearnex":
    from sklearnex.svm import SVC
else:
    from sklearn.svm import SVC

ROWS = 8000
numbers = np.random.default_rng(int(os.environ.get("SPEEDPROOF_SEED", "0")))
x = numbers.standard_normal((ROWS + 2000, 50))
y = (x[:, :10].sum(axis=1) + numbers.standard_normal(len(x)) > 0).astype(int)


def work():
    return SVC().fit(x[:ROWS], y[:ROWS])


work()  # warms up
model = print_times(work, repetitions=3)
print(f"accuracy {model.score(x[ROWS:], y[ROWS:]):.4f}")
