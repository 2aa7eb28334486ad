"""`run_ours.py VARIANT DATA`: runs a variant of ours for one epoch more than is counted, as run_published.py does."""

import os
import runpy
import sys


def main(variant: str, data: str) -> None:
    """Run the variant in this process."""
    os.environ["SPEEDPROOF_EPOCHS"] = str(int(os.environ.get("SPEEDPROOF_EPOCHS") or 2) + 1)
    sys.argv = ["keras_train", "--variant", variant, "--data", f"{data}/pairs"]
    runpy.run_module("speedproof_polyp.keras_train", run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
