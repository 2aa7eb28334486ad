"""`run_ours.py VARIANT DATA`: runs a variant of ours on the slides, and with the numbers, that the published program gets."""

import json
import runpy
import sys
from pathlib import Path


def main(variant: str, data: str) -> None:
    """Run the variant in this process."""
    told = json.loads(Path(data, "options.json").read_text("utf-8"))
    options = [f"--{name}={value}" for name, value in told.items()]
    sys.argv = ["train", "--variant", variant, "--data", f"{data}/slides", *options]
    runpy.run_module("speedproof_pathology.train", run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
