"""`run_published.py PROGRAM IMAGES`: runs a published program as it is, but for two things that it takes from its surroundings.

It looks for its images in a folder of KAUST's cluster: torchvision, when asked for that, opens IMAGES here. It sets no seed:
torch has speedproof's before the program begins.
"""

import os
import sys

import torch
import torchvision

from speedproof_common.program import run_program

PUBLISHED_FOLDER = "/ibex/reference/CV/tinyimagenet"


def main(program: str, images: str) -> None:
    """Run the program in this process."""
    opened = torchvision.datasets.ImageFolder.__init__

    def open_images(self: object, root: str, *options: object, **more: object) -> None:
        opened(self, str(root).replace(PUBLISHED_FOLDER, images, 1), *options, **more)

    torchvision.datasets.ImageFolder.__init__ = open_images
    torch.manual_seed(int(os.environ.get("SPEEDPROOF_SEED") or 0))
    run_program(program)


if __name__ == "__main__":
    main(*sys.argv[1:])
