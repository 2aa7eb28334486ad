"""A ResNet-50 in mixed precision: `python resnet_inference.py 512`, or with `--channels-last` or `--compile`."""

import sys

import torch
import torchvision
from timing import print_times

torch.backends.cudnn.benchmark = True
torch.manual_seed(0)
layout = torch.channels_last if "--channels-last" in sys.argv else torch.contiguous_format
net = torchvision.models.resnet50(zero_init_residual=True).cuda().eval().to(memory_format=layout)
images = torch.randn(int(sys.argv[1]), 3, 224, 224, device="cuda").to(memory_format=layout)
if "--compile" in sys.argv:
    net = torch.compile(net)


@torch.inference_mode()
def work():
    for _ in range(4096 // len(images)):
        with torch.autocast("cuda", torch.float16):
            net(images)
    torch.cuda.synchronize()


work()
print_times(work)
