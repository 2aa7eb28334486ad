"""`run_published.py PROGRAM DATA`: runs a published program as it is, with its pairs where it looks for them.

It trains, by its own option, one epoch more than is counted: the first one has the building of TensorFlow's graphs in it. It
sets no seed: all generators have speedproof's before it begins.
"""

import os
import sys
from pathlib import Path

import keras

from speedproof_common.program import run_program

PLACE = Path("data/Kvasir-SEG")


def main(program: str, data: str) -> None:
    """Run the program in this process, below the working folder."""
    PLACE.parent.mkdir(exist_ok=True)
    PLACE.symlink_to(Path(data, "pairs").resolve())
    sys.path.insert(0, f"{data}/programs")  # where its own modules lie
    keras.utils.set_random_seed(int(os.environ.get("SPEEDPROOF_SEED") or 0))
    epochs = int(os.environ.get("SPEEDPROOF_EPOCHS") or 2) + 1
    run_program(f"{data}/programs/{program}", f"--epochs={epochs}")


if __name__ == "__main__":
    main(*sys.argv[1:])
