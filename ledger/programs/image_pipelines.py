"""Augment photographs for classification on one thread: `python image_pipelines.py v1` or `v2`."""

import sys

import torch
from timing import print_times
from torchvision import transforms
from torchvision.transforms import v2

torch.set_num_threads(1)
torch.manual_seed(0)
images = torch.randint(0, 256, (50, 3, 400, 500), dtype=torch.uint8)
library = transforms if sys.argv[1] == "v1" else v2
to_float = transforms.ConvertImageDtype(torch.float32) if sys.argv[1] == "v1" else v2.ToDtype(torch.float32, scale=True)
pipeline = library.Compose(
    [
        library.RandomResizedCrop(224, antialias=True),
        library.RandomHorizontalFlip(),
        to_float,
        library.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]),
    ]
)


def work():
    torch.manual_seed(0)
    for _ in range(10):
        for image in images:
            pipeline(image)


work()  # warms up
print_times(work)
