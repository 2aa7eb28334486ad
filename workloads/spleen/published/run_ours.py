"""`run_ours.py VARIANT DATA`: runs a variant of /config.yaml as the published ones run: of seed 0, under autograd's ranges."""

import sys
from contextlib import redirect_stderr
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).resolve().parents[3]


def main(variant: str, data: str) -> None:
    """Train in this process, below the working folder, and print what each training epoch took."""
    sys.path.insert(0, str(ROOT / "src"))  # the whole instrument, of which a variant's program finds the marks alone
    from speedproof.api import EPOCHS_FILE, Dataset, read_record
    from speedproof_spleen.config import load_config
    from speedproof_spleen.training.run import Request, run_training

    described, out = Path(data, "dataset.json"), Path("run")
    dataset = read_record(described, Dataset)
    request = Request(variant, mode="documented", round=0, seed=0, profiler="none")
    # To no terminal, where a progress bar would be drawn while epochs are timed: the published programs draw none.
    with Path("messages.txt").open("w", encoding="utf-8") as messages, redirect_stderr(messages):
        run_training(load_config(ROOT / "config.yaml"), dataset, dataset.files(described), request, out)
    for epoch in pd.read_csv(out / EPOCHS_FILE).itertuples():
        print(f"training epoch {epoch.epoch} took {epoch.train_s:.6f} s", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
