"""A thousand small tensors are copied to a GPU: `python pin_then_copy.py`, with or without `--pin`."""

import sys

import torch
from timing import print_times

torch.manual_seed(0)
tensors = [torch.randn(1000) for _ in range(1000)]


def copy():
    return [tensor.to("cuda") for tensor in tensors]


def pin_and_copy():
    return [tensor.pin_memory().to("cuda", non_blocking=True) for tensor in tensors]


function = pin_and_copy if "--pin" in sys.argv else copy


def work(times=50):
    for _ in range(times):
        function()
        torch.cuda.synchronize()


work(3)
print_times(work)
