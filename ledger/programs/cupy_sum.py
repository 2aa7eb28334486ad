"""The sum of 256 x 256 x 256 numbers on a GPU: `python cupy_sum.py own` or `cub`."""

import os
import sys

from timing import print_times

os.environ["CUPY_ACCELERATORS"] = "cub" if sys.argv[1] == "cub" else ""  # read when CuPy is imported

import cupy as cp

numbers = cp.random.random((256, 256, 256), dtype=cp.float32)


def work(sums=150):
    for _ in range(sums):
        numbers.sum()
    cp.cuda.Device().synchronize()


work(sums=10)
print_times(work)
