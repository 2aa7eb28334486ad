"""A published training with random images instead of CIFAR-10: `python bootcamp.py train_v1`, with or without `--workers`."""

import importlib
import sys

import numpy as np
import torchvision
from timing import print_times

numbers = np.random.default_rng(0)
DATA, TARGETS = numbers.integers(0, 256, (50_000, 32, 32, 3), np.uint8), numbers.integers(10, size=50_000).tolist()


class RandomImages(torchvision.datasets.CIFAR10):
    """Images in memory that are read as those of CIFAR-10."""

    def __init__(self, root, train, download, transform):
        torchvision.datasets.VisionDataset.__init__(self, root, transform=transform)
        self.data, self.targets = DATA, TARGETS


torchvision.datasets.CIFAR10 = RandomImages
sys.path.insert(0, "workspace/source_code/intro")
program = importlib.import_module(sys.argv[1])
if "--workers" in sys.argv:
    program.NUM_WORKERS, program.PIN_MEMORY = 4, True

steps, program.NUM_ITERS = program.NUM_ITERS, program.WARMUP_ITERS + 1
program.train()  # warm-up
program.NUM_ITERS = steps
print_times(program.train, 3)
