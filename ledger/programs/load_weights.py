"""Load the weights of a GPT-2 of 124 million random numbers: `python load_weights.py torch` or `safetensors`."""

import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from timing import print_times

BLOCK = {
    "attn.c_attn.weight": (768, 2304), "attn.c_attn.bias": (2304,), "attn.c_proj.weight": (768, 768),
    "attn.c_proj.bias": (768,), "mlp.c_fc.weight": (768, 3072), "mlp.c_fc.bias": (3072,), "mlp.c_proj.weight": (3072, 768),
    "mlp.c_proj.bias": (768,), "ln_1.weight": (768,), "ln_1.bias": (768,), "ln_2.weight": (768,), "ln_2.bias": (768,),
}  # fmt: skip
shapes = {"wte.weight": (50257, 768), "wpe.weight": (1024, 768), "ln_f.weight": (768,), "ln_f.bias": (768,)}
shapes |= {f"h.{number}.{name}": shape for number in range(12) for name, shape in BLOCK.items()}
weights = {name: torch.randn(shape) for name, shape in shapes.items()}

if sys.argv[1] == "torch":
    torch.save(weights, "weights.bin")
else:
    save_file(weights, "weights.bin")
del weights


def work():
    for _ in range(10):
        if sys.argv[1] == "torch":
            torch.load("weights.bin", map_location="cpu", weights_only=True)
        else:
            load_file("weights.bin", device="cpu")


print_times(work)
Path("weights.bin").unlink()
