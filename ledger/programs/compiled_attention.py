"""One block of attention on a GPU, without training: `python compiled_attention.py`, with or without `--compile`."""

import sys

import torch
from timing import print_times
from torch.nn.functional import scaled_dot_product_attention

torch.manual_seed(0)


class Attention(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.project_in = torch.nn.Linear(width, 3 * width, bias=False)
        self.project_out = torch.nn.Linear(width, width, bias=False)
        self.dropout = torch.nn.Dropout(0.1)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.project_in(x).chunk(3, -1)
        q, k, v = (part.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for part in parts)
        y = scaled_dot_product_attention(q, k, v)
        return self.dropout(self.project_out(y.transpose(1, 2).reshape(batch, length, width)))


model = Attention(512, 8).cuda().half().eval()
x = torch.rand(32, 256, 512, device="cuda", dtype=torch.float16)
function = torch.compile(model) if "--compile" in sys.argv else model


def work(calls=4000):
    for _ in range(calls):
        function(x)
    torch.cuda.synchronize()


work(100)
print_times(work)
