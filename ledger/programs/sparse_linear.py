"""A linear layer whose weights are 2:4 sparse, on a GPU: `python sparse_linear.py`, with or without `--sparse`."""

import sys

import torch
from timing import print_times
from torch.sparse import to_sparse_semi_structured

torch.manual_seed(0)


@torch.inference_mode()
def main():
    mask = torch.tensor([False, False, True, True], device="cuda").tile((3072, 2560))
    linear = torch.nn.Linear(10240, 3072).half().cuda().eval()
    weight = mask * linear.weight
    linear.weight = torch.nn.Parameter(to_sparse_semi_structured(weight) if "--sparse" in sys.argv else weight)
    x = torch.rand(3072, 10240, device="cuda", dtype=torch.float16)

    def work():
        for _ in range(1000):
            linear(x)
        torch.cuda.synchronize()

    work()
    print_times(work)


main()
