"""Inference of an image classifier on a GPU: `python transformers_compile.py resnet|vit BATCH eager|compiled`."""

import sys

import torch
from timing import print_times
from transformers import ResNetConfig, ResNetForImageClassification, ViTConfig, ViTForImageClassification

torch.manual_seed(0)
if sys.argv[1] == "resnet":
    model = ResNetForImageClassification(ResNetConfig(num_labels=1000))
else:
    model = ViTForImageClassification._from_config(ViTConfig(num_labels=1000), attn_implementation="eager")
model = model.cuda().eval()
compute = torch.compile(model) if sys.argv[3] == "compiled" else model
batch = int(sys.argv[2])
images = torch.randn(1, 3, 224, 224, device="cuda").repeat(batch, 1, 1, 1)


@torch.no_grad()
def work(inferences=25 if batch > 1 else 150):
    for _ in range(inferences):
        compute(pixel_values=images)
        torch.cuda.synchronize()


work()
print_times(work)
