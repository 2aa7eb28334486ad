"""The contraction of the documentation of numpy.einsum: `python einsum.py basic` or `optimal`."""

import sys

import numpy as np
from timing import print_times

TERMS = "ijk,ilm,njm,nlk,abc->"
a = np.ones(64).reshape(2, 4, 8)
path = False if sys.argv[1] == "basic" else np.einsum_path(TERMS, a, a, a, a, a, optimize="optimal")[0]


def work():
    for _ in range(500):
        np.einsum(TERMS, a, a, a, a, a, optimize=path)


print_times(work)
