"""Augment 100 images of 8-bit colours on one thread: `python augmentations.py flip torchvision`."""

import os
import sys

import numpy as np
from timing import print_times

CALLS = {"flip": 60, "gray": 20}  # passes over the images per repetition
name, library = sys.argv[1:]
images = np.random.default_rng(0).integers(0, 256, (100, 375, 500, 3), dtype=np.uint8)

if library == "torchvision":
    import torch
    from torchvision.transforms import v2

    torch.set_num_threads(1)
    transform = {"flip": v2.RandomHorizontalFlip(p=1), "gray": v2.Grayscale(num_output_channels=3)}[name]
    tensors = [torch.from_numpy(image).permute(2, 0, 1).contiguous() for image in images]

    def work():
        for _ in range(CALLS[name]):
            for tensor in tensors:
                transform(tensor)

else:
    os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"
    import albumentations
    import cv2

    cv2.setNumThreads(0)
    transform = {"flip": albumentations.HorizontalFlip(p=1), "gray": albumentations.ToGray(p=1)}[name]

    def work():
        for _ in range(CALLS[name]):
            for image in images:
                np.ascontiguousarray(transform(image=image)["image"])


work()  # warms up
print_times(work)
