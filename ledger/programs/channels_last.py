"""A forward pass of torchvision's ResNet-50 on the CPU: `python channels_last.py`, with or without `--channels-last`."""

import sys

import torch
import torchvision
from timing import print_times

layout = torch.channels_last if "--channels-last" in sys.argv else torch.contiguous_format
model = torchvision.models.resnet50().eval().to(memory_format=layout)
images = torch.randn(8, 3, 224, 224).to(memory_format=layout)


@torch.no_grad()
def work():
    model(images)


print_times(work)
