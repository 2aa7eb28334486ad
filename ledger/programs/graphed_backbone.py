"""Passes of a ResNet-50 backbone for one image on a GPU: `python graphed_backbone.py`, with or without `--graph`."""

import sys

import torch
from timing import print_times
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone

torch.manual_seed(0)
torch.backends.cudnn.benchmark = True
backbone = resnet_fpn_backbone(backbone_name="resnet50", weights=None).cuda().half()
image = torch.randn(1, 3, 800, 1344, device="cuda", dtype=torch.float16)
gradients = [torch.randn_like(feature) for feature in backbone(image).values()]


def step():
    backbone.zero_grad(set_to_none=True)
    torch.autograd.backward(list(backbone(image).values()), gradients)


stream = torch.cuda.Stream()
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream):
    for _ in range(5):
        step()
torch.cuda.synchronize()

if "--graph" in sys.argv:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        step()
    run = graph.replay
else:
    run = step


def work(steps=30):
    with torch.cuda.stream(stream):
        for _ in range(steps):
            run()
    torch.cuda.synchronize()


work(3)
print_times(work)
