"""An fp16 product with a large inner dimension: `python fp16_reduction.py`, with or without `--reduced`."""

import sys

import torch
from timing import print_times

torch.manual_seed(0)
torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = "--reduced" in sys.argv
a = torch.randn(4096, 16384, device="cuda", dtype=torch.float16)
b = torch.randn(16384, 4096, device="cuda", dtype=torch.float16)


def work():
    for _ in range(500):
        torch.matmul(a, b)
    torch.cuda.synchronize()


work()
print_times(work)
