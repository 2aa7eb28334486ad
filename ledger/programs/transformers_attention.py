"""Training steps of a BERT in half precision, 16 x 512 tokens: `python transformers_attention.py eager` or `sdpa`."""

import sys

import torch
from timing import print_times
from transformers import BertConfig, BertForMaskedLM

torch.manual_seed(0)
model = BertForMaskedLM._from_config(BertConfig(), attn_implementation=sys.argv[1]).half().cuda().train()
tokens = torch.randint(100, 30000, (16, 512), device="cuda")


def work(steps=15):
    for _ in range(steps):
        model.zero_grad()
        model(input_ids=tokens).logits.sum().backward()
    torch.cuda.synchronize()


work(steps=10)
print_times(work)
