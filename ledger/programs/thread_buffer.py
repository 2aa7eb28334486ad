"""Epochs of a small 2D UNet on images that are made as they are read: `python thread_buffer.py`, with or without `--buffer`."""

import sys

import numpy as np
import torch
from monai.data import DataLoader, Dataset, ThreadBuffer, create_test_image_2d
from monai.losses import Dice
from monai.networks.nets import UNet
from timing import print_times

torch.manual_seed(0)


def make_pair(seed):
    image, mask = create_test_image_2d(256, 256, num_seg_classes=1, random_state=np.random.RandomState(seed))
    return {"image": image[None], "mask": mask[None]}


seeds = [int(seed) for seed in np.random.RandomState(0).randint(0, 2**32 - 1, 1000, np.uint32)]
loader = DataLoader(Dataset(seeds, make_pair), batch_size=20, shuffle=True, num_workers=0)
net = UNet(2, 1, 1, (8, 16, 32), (2, 2), num_res_units=2).cuda()
loss_function, optimizer = Dice(sigmoid=True), torch.optim.Adam(net.parameters(), 1e-5)


def take_step(batch):
    images, masks = batch["image"].cuda(), batch["mask"].cuda()
    optimizer.zero_grad()
    loss_function(net(images), masks).backward()
    optimizer.step()


def train():
    for batch in ThreadBuffer(loader, 1) if "--buffer" in sys.argv else loader:
        take_step(batch)
    torch.cuda.synchronize()


take_step(next(iter(loader)))
print_times(train, 3)
