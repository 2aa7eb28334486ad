"""Attention of BERT-base's heads and its gradients, on a GPU: `python attention.py standard` or `flash`."""

import sys

import torch
from timing import print_times
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

torch.manual_seed(0)
# Sequences, tokens, query or key or value, heads, size of a head.
inputs = torch.randn(8, 2048, 3, 12, 64, dtype=torch.float16, device="cuda", requires_grad=True)
gradient = torch.randn(8, 2048, 12, 64, dtype=torch.float16, device="cuda")


def attend():
    query, key, value = inputs.unbind(2)
    scores = torch.einsum("bthd,bshd->bhts", query, key / 8)
    return torch.einsum("bhts,bshd->bthd", torch.softmax(scores, -1), value)


def attend_flash():
    query, key, value = (part.transpose(1, 2) for part in inputs.unbind(2))
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return scaled_dot_product_attention(query, key, value).transpose(1, 2)


compute = attend_flash if sys.argv[1] == "flash" else attend


def work():
    for _ in range(150):
        torch.autograd.grad(compute(), inputs, gradient)
    torch.cuda.synchronize()


torch.autograd.grad(compute(), inputs, gradient)
torch.cuda.synchronize()
print_times(work)
