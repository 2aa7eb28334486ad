"""Causal attention on a GPU, forward: `python causal_attention.py flash`, `score` or `mask` (FlexAttention's two ways)."""

import sys

import torch
from timing import print_times
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

torch.manual_seed(0)
length = 4096
q, k, v = (torch.rand(8, 16, length, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))


def is_visible(b, h, q_idx, kv_idx):
    return q_idx >= kv_idx


def hide_later(score, b, h, q_idx, kv_idx):
    return torch.where(q_idx >= kv_idx, score, -float("inf"))


def run_flash():
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return scaled_dot_product_attention(q, k, v, is_causal=True)


if sys.argv[1] == "flash":
    attend = run_flash
else:
    flex = torch.compile(flex_attention)
    block_mask = create_block_mask(is_visible, None, None, length, length, device="cuda")
    options = {"block_mask": block_mask} if sys.argv[1] == "mask" else {"score_mod": hide_later}

    def attend():
        return flex(q, k, v, **options)


def work(calls=400):
    for _ in range(calls):
        attend()
    torch.cuda.synchronize()


work(20)
print_times(work)
