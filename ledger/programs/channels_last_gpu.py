"""Training steps of ResNet-50 with AMP on a GPU: `python channels_last_gpu.py`, with or without `--channels-last`."""

import sys

import torch
import torchvision
from timing import print_times
from torch.nn.functional import cross_entropy

torch.manual_seed(0)
torch.backends.cudnn.benchmark = True
layout = torch.channels_last if "--channels-last" in sys.argv else torch.contiguous_format
model = torchvision.models.resnet50().cuda().to(memory_format=layout)
images = torch.randn(200, 3, 224, 224, device="cuda").to(memory_format=layout)
labels = torch.randint(1000, (200,), device="cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * 200 / 256, momentum=0.9, weight_decay=1e-4)
scaler = torch.amp.GradScaler("cuda")


def work(steps=6):
    for _ in range(steps):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = cross_entropy(model(images), labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    torch.cuda.synchronize()


work(3)
print_times(work)
