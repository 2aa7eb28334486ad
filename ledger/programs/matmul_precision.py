"""A product of two large matrices of floats on a GPU: `python matmul_precision.py`, with or without `--tf32`."""

import sys

import torch
from timing import print_times

torch.manual_seed(0)
torch.backends.cuda.matmul.allow_tf32 = "--tf32" in sys.argv
a, b = torch.randn(10240, 10240, device="cuda"), torch.randn(10240, 10240, device="cuda")


def work():
    for _ in range(20):
        torch.matmul(a, b)
    torch.cuda.synchronize()


torch.matmul(a, b)
torch.cuda.synchronize()
print_times(work)
