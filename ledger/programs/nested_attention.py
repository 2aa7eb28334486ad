"""Attention over sentences of many lengths on a GPU: `python nested_attention.py padded` or `nested`."""

import sys

import numpy
import torch
from timing import print_times
from torch.nn.functional import scaled_dot_product_attention

WIDTH, HEADS, SENTENCES = 512, 8, 512

torch.manual_seed(6)
random = numpy.random.default_rng(6)


def draw_length():
    length = 1
    while random.zipf(1.2) not in (3, 386, 858):
        length += 1
    return length


class NestedAttention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.project_in = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.project_out = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        parts = torch.chunk(self.project_in(x), 3, dim=-1)
        q, k, v = (part.unflatten(-1, [HEADS, WIDTH // HEADS]).transpose(1, 2) for part in parts)
        y = scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.project_out(y.transpose(1, 2).flatten(-2))


sentences = [torch.randn(draw_length(), WIDTH, device="cuda") for _ in range(SENTENCES)]
nested = torch.nested.nested_tensor(sentences, layout=torch.jagged)

if sys.argv[1] == "nested":
    layer = torch.compile(NestedAttention().cuda())

    def attend():
        return layer(nested)
else:
    layer = torch.compile(torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).cuda())
    padded = nested.to_padded_tensor(0.0)
    length = padded.shape[1]
    padding = torch.where(padded == 0.0, -torch.inf, 0)[:, :, 0]
    mask = torch.full((SENTENCES, length, length), -torch.inf, device="cuda")
    for i, sentence in enumerate(sentences):
        size = len(sentence)
        mask[i, :size, :size] = torch.nn.Transformer.generate_square_subsequent_mask(size)
    mask = mask.unsqueeze(1).expand(-1, HEADS, -1, -1).reshape(SENTENCES * HEADS, length, length)

    def attend():
        return layer(padded, padded, padded, attn_mask=mask, key_padding_mask=padding, need_weights=False, is_causal=True)


def work(times=40):
    for _ in range(times):
        attend()
    torch.cuda.synchronize()


work(5)
print_times(work)
