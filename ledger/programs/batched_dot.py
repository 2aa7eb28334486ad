"""The dot products of PyTorch's benchmark recipe, on one thread: `python batched_dot.py bmm` or `mul`."""

import sys

import torch
from timing import print_times

torch.set_num_threads(1)
x = torch.randn(10000, 64)


def multiply_and_sum(a, b):
    return a.mul(b).sum(-1)


def reduce_to_bmm(a, b):
    return torch.bmm(a.reshape(-1, 1, a.shape[-1]), b.reshape(-1, b.shape[-1], 1)).flatten(-3)


function = reduce_to_bmm if sys.argv[1] == "bmm" else multiply_and_sum


def work():
    for _ in range(2000):
        function(x, x)


print_times(work)
