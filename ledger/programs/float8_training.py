"""Training steps of four layers of a Llama 3 8B by 8192 tokens: `python float8_training.py bfloat16|tensorwise|rowwise`."""

import sys

import torch
from timing import print_times
from torch import nn
from torch.nn.functional import scaled_dot_product_attention, silu

WIDTH, HEADS, KEY_HEADS, HIDDEN, TOKENS = 4096, 32, 8, 14336, 8192


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        size = WIDTH // HEADS
        self.norms = nn.ModuleList([nn.RMSNorm(WIDTH) for _ in range(2)])
        self.query, self.out = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.key, self.value = (nn.Linear(WIDTH, KEY_HEADS * size, bias=False) for _ in range(2))
        self.gate, self.up = nn.Linear(WIDTH, HIDDEN, bias=False), nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x, cos, sin):
        y = self.norms[0](x)
        q, k, v = (f(y).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for f in (self.query, self.key, self.value))
        y = scaled_dot_product_attention(rotate(q, cos, sin), rotate(k, cos, sin), v, is_causal=True, enable_gqa=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        y = self.norms[1](x)
        return x + self.down(silu(self.gate(y)) * self.up(y))


def rotate(x, cos, sin):
    left, right = x.chunk(2, dim=-1)
    return torch.cat([left * cos - right * sin, right * cos + left * sin], dim=-1)


class Layers(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.layers = nn.ModuleList([Layer() for _ in range(count)])

    def forward(self, x, cos, sin):
        for layer in self.layers:
            x = layer(x, cos, sin)
        return x


torch.manual_seed(0)
with torch.device("cuda"):
    model = Layers(4).bfloat16()
    x = torch.randn(1, TOKENS, WIDTH, dtype=torch.bfloat16)
    half = WIDTH // HEADS // 2
    angles = torch.outer(torch.arange(TOKENS).float(), 500_000.0 ** (-torch.arange(half).float() / half))
if sys.argv[1] != "bfloat16":
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training

    convert_to_float8_training(model, config=Float8LinearConfig.from_recipe_name(sys.argv[1]))
cos, sin = angles.cos().bfloat16(), angles.sin().bfloat16()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
compute = torch.compile(model)


def work(steps=6):
    for _ in range(steps):
        compute(x, cos, sin).float().pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()


work(steps=3)
print_times(work)
