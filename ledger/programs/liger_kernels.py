"""Layers and losses of Liger Kernel, and their counterparts, on a GPU: `python liger_kernels.py rope liger` or `rope plain`."""

import sys

import liger_kernel.transformers as liger
import torch
from timing import print_times
from transformers import LlamaConfig
from transformers.models.llama import modeling_llama as llama

torch.manual_seed(0)
fast = sys.argv[2] == "liger"
on_gpu = {"device": "cuda", "requires_grad": True}


def make_rms_norm():
    layer = (liger.LigerRMSNorm if fast else llama.LlamaRMSNorm)(16384, eps=1e-6).cuda()
    inputs = torch.randn(2048, 16384, dtype=torch.bfloat16, **on_gpu)
    gradient = torch.randn_like(inputs)

    def step():
        inputs.grad = None
        layer(inputs).backward(gradient)

    return step, 300


def make_rope():
    rotate = liger.liger_rotary_pos_emb if fast else llama.apply_rotary_pos_emb
    heads = [torch.randn(1, 16384, count, 256, dtype=torch.bfloat16, **on_gpu).transpose(1, 2) for count in (32, 8)]
    gradients = [torch.randn_like(head) for head in heads]
    angles = torch.arange(16384, device="cuda")[:, None] * 10000 ** (torch.arange(0, 256, 2, device="cuda") / -256)
    angles = torch.cat([angles, angles], 1)[None]
    cos, sin = angles.cos().bfloat16(), angles.sin().bfloat16()
    return lambda: torch.autograd.grad(rotate(*heads, cos, sin), heads, gradients), 150


def make_cross_entropy():
    loss = liger.LigerCrossEntropyLoss() if fast else torch.nn.CrossEntropyLoss()
    logits, targets = torch.randn(16384, 131072, **on_gpu), torch.randint(131072, (16384,), device="cuda")
    return lambda: loss(logits, targets).backward(), 15


def make_geglu():
    config = LlamaConfig(hidden_size=4096, intermediate_size=11008, hidden_act="gelu_pytorch_tanh")
    layer = (liger.LigerGEGLUMLP if fast else llama.LlamaMLP)(config).to("cuda", torch.bfloat16)
    inputs = torch.randn(8, 4096, 4096, dtype=torch.bfloat16, **on_gpu)

    def step():
        inputs.grad = None
        outputs = layer(inputs)
        outputs.backward(torch.randn_like(outputs))

    return step, 12


def make_tvd():
    loss = liger.LigerTVDLoss() if fast else lambda p, q: torch.sum(torch.abs(p - q) / 2) / p.size(0)
    p = torch.randn(16384, 32768, **on_gpu).softmax(-1)
    q = torch.randn(16384, 32768, device="cuda").softmax(-1)
    return lambda: loss(p, q).backward(retain_graph=True), 40


makers = [make_rms_norm, make_rope, make_cross_entropy, make_geglu, make_tvd]
step, steps = {maker.__name__: maker for maker in makers}[f"make_{sys.argv[1]}"]()


def work():
    for _ in range(steps):
        step()
    torch.cuda.synchronize()


step()  # compiles the kernels
step()
torch.cuda.synchronize()
print_times(work)
