"""A product of a matrix with its centred self: `python jax_numpy.py numpy|jax SIZE EVALUATIONS`; JAX on a GPU."""

import sys

import numpy as np
from timing import print_times


def evaluate(x):
    return x.T @ (x - x.mean(axis=0))


size, evaluations = int(sys.argv[2]), int(sys.argv[3])
x = np.ones((size, size), dtype=np.float32)
compute = evaluate
if sys.argv[1] == "jax":
    import jax

    x = jax.device_put(x, jax.devices("gpu")[0]).block_until_ready()
    compiled = jax.jit(evaluate)

    def compute(x):
        return compiled(x).block_until_ready()


def work():
    for _ in range(evaluations):
        compute(x)


work()
print_times(work)
