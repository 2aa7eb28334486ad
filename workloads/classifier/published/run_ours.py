"""`run_ours.py VARIANT IMAGES`: runs a variant of ours for as many epochs as are documented, whoever wants another number."""

import os
import runpy
import sys


def main(variant: str, images: str) -> None:
    """Run the variant in this process."""
    os.environ.pop("SPEEDPROOF_EPOCHS", None)
    sys.argv = [variant, images]
    runpy.run_module(f"speedproof_classifier.{variant}", run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
