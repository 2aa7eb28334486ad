"""200 tokens from a Llama-2-7B of random weights, with published programs: `python gpt_fast.py`, with or without `--int8`."""

import sys
from importlib import import_module
from types import SimpleNamespace

import torch
from timing import print_times

sys.modules["tokenizer"] = SimpleNamespace(get_tokenizer=None)  # the prompt is random numbers
program, quantize = import_module("generate"), import_module("quantize")

torch.manual_seed(0)
torch.set_default_dtype(torch.bfloat16)
with torch.device("cuda"):
    model = program.Transformer.from_name("7B").eval()
    prompt = torch.randint(32_000, (5,), dtype=torch.int)
torch.set_default_dtype(torch.float32)
if "--int8" in sys.argv:
    quantizer = quantize.WeightOnlyInt8QuantHandler(model)
    weights = quantizer.create_quantized_state_dict()
    model = quantizer.convert_for_runtime()
    model.load_state_dict(weights, assign=True)

program.decode_one_token = torch.compile(program.decode_one_token, mode="reduce-overhead", fullgraph=True)
options = {"batch_size": 1, "interactive": False, "draft_model": None, "temperature": 0.8, "top_k": 200}


def work():
    program.generate(model, prompt, 200, **options)
    torch.cuda.synchronize()


work()
print_times(work, 4)
