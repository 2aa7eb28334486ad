"""`run_ours.py SIDE IMAGES`: runs a side of ours for as many epochs as are documented, whoever wants another number."""

import os
import runpy
import sys


def main(side: str, images: str) -> None:
    """Run the side in this process."""
    os.environ.pop("SPEEDPROOF_EPOCHS", None)
    sys.argv = [side, images]
    runpy.run_module(f"speedproof_classifier.{side}", run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
