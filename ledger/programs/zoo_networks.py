"""Forward passes of a network of MONAI's model zoo on random numbers: `python zoo_networks.py spleen`, or with `--amp`."""

import sys

import torch
from monai.networks.nets import DynUNet, SegResNet, UNet
from timing import print_times

torch.manual_seed(0)
match sys.argv[1]:
    case "deepedit":
        strides, shape, passes = [2, 2, 2, 2, [2, 2, 1]], (1, 3, 128, 128, 128), 20
        net = DynUNet(3, 3, 2, [3] * 6, [1, *strides], strides, norm_name="instance", res_block=True)
    case "spleen":
        shape, passes = (1, 1, 96, 96, 96), 100
        net = UNet(3, 1, 2, (16, 32, 64, 128, 256), (2, 2, 2, 2), num_res_units=2, norm="batch")
    case "whole-body":
        shape, passes = (1, 1, 96, 96, 96), 30
        net = SegResNet(3, 32, 1, 105, 0.2, blocks_down=(1, 2, 2, 4), blocks_up=(1, 1, 1))
        torch.backends.cudnn.benchmark = True
net, images = net.cuda().eval(), torch.randn(shape, device="cuda")


@torch.no_grad()
def work():
    for _ in range(passes):
        with torch.autocast("cuda", torch.float16, enabled="--amp" in sys.argv):
            net(images)
    torch.cuda.synchronize()


work()
print_times(work)
