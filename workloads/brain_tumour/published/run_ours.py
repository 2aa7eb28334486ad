"""`run_ours.py SIDE DATA`: runs a side of ours."""

import runpy
import sys
from pathlib import Path


def main(side: str, data: str) -> None:
    """Run the side in this process."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    sys.argv = ["train", "--side", side, "--data", f"{data}/Task01_BrainTumour"]
    runpy.run_module("speedproof_brain_tumour.train", run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
