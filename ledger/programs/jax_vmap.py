"""128 Jacobian products of a tiny logistic regression: `python jax_vmap.py vjp|jvp loop|vmap`."""

import sys

import jax
import jax.numpy as jnp
from timing import print_times

keys = jax.random.split(jax.random.key(0), 4)
inputs, weights, bias = jax.random.normal(keys[0], (4, 3)), jax.random.normal(keys[1], (3,)), jax.random.normal(keys[2], ())


def predict(weights):
    return 0.5 * (jnp.tanh((jnp.dot(inputs, weights) + bias) / 2) + 1)


def pull_back(vectors):
    _, product = jax.vjp(predict, weights)
    return jnp.vstack([product(v)[0] for v in vectors]) if looped else jax.vmap(product)(vectors)[0]


def push_forward(vectors):
    def product(v):
        return jax.jvp(predict, (weights,), (v,))[1]

    return jnp.vstack([product(v) for v in vectors]) if looped else jax.vmap(product)(vectors)


compute, length = (pull_back, 4) if sys.argv[1] == "vjp" else (push_forward, 3)
looped = sys.argv[2] == "loop"
vectors = jax.random.normal(keys[3], (128, length))


def work():
    for _ in range(5):
        compute(vectors).block_until_ready()


work()
print_times(work)
