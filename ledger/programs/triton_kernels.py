"""A softmax and a matrix product by Triton, TorchScript and PyTorch, on a GPU: `python triton_kernels.py softmax triton`."""

import sys

import torch
import triton
import triton.language as tl
from timing import print_times


@torch.jit.script
def scripted_softmax(x):
    powers = torch.exp(x - x.max(dim=1)[0][:, None])
    return powers / powers.sum(dim=1)[:, None]


@triton.jit
def softmax_kernel(out, x, width: tl.constexpr):
    offsets = tl.program_id(0) * width + tl.arange(0, width)
    row = tl.load(x + offsets)
    powers = tl.exp(row - tl.max(row, 0))
    tl.store(out + offsets, powers / tl.sum(powers, 0))


def triton_softmax(x):
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](out, x, x.shape[1], num_warps=8)
    return out


@triton.jit
def product_kernel(out, a, b, size: tl.constexpr, m: tl.constexpr, n: tl.constexpr, k: tl.constexpr, group: tl.constexpr):
    program, band = tl.program_id(0), group * (size // n)  # a band of `group` rows of blocks shares what the cache holds
    down = program // band * group + program % band % group
    across = program % band // group
    rows, columns, depth = down * m + tl.arange(0, m), across * n + tl.arange(0, n), tl.arange(0, k)
    total = tl.zeros((m, n), dtype=tl.float32)
    for start in range(0, size, k):
        left = tl.load(a + rows[:, None] * size + (start + depth)[None, :])
        right = tl.load(b + (start + depth)[:, None] * size + columns[None, :])
        total = tl.dot(left, right, total)
    tl.store(out + rows[:, None] * size + columns[None, :], total.to(tl.float16))


def triton_product(a, b):
    out = torch.empty_like(a)
    size = a.shape[0]
    product_kernel[(size // 128 * (size // 256),)](out, a, b, size, 128, 256, 64, 8, num_stages=3, num_warps=8)
    return out


torch.manual_seed(0)
variants = {
    "softmax torchscript": (scripted_softmax, [(4096, 8192)], torch.float32, 1000),
    "softmax triton": (triton_softmax, [(4096, 8192)], torch.float32, 1000),
    "product torch": (torch.matmul, [(4096, 4096)] * 2, torch.float16, 1500),
    "product triton": (triton_product, [(4096, 4096)] * 2, torch.float16, 1500),
}
compute, shapes, kind, calls = variants[" ".join(sys.argv[1:])]
inputs = [torch.randn(shape, dtype=kind, device="cuda") for shape in shapes]


def work():
    for _ in range(calls):
        result = compute(*inputs)
    torch.cuda.synchronize()
    return result


for _ in range(10):  # compiles the kernel
    compute(*inputs)
torch.cuda.synchronize()
result = print_times(work)
expected = torch.softmax(*inputs, 1) if sys.argv[1] == "softmax" else torch.matmul(*inputs)
torch.testing.assert_close(result, expected, rtol=0.01, atol=0.01 if sys.argv[1] == "softmax" else 0.5)
