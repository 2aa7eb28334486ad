"""The best weights of a run, kept where KEPT_WEIGHTS says, so that check_checkpoint.py can validate them again."""

import json
import os
import shutil
from pathlib import Path

FOLDER_VARIABLE = "KEPT_WEIGHTS"


def keep_weights(weights: Path, variant: str, dice: float | None) -> None:
    """Copy weights, with the Dice that their program found, to the folder; without one, do nothing."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder or not weights.is_file():
        return
    seed = int(os.environ.get("SPEEDPROOF_SEED") or 0)
    place = Path(folder, f"{variant}-seed{seed}-{os.getpid()}{weights.suffix}")
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(weights, place)
    place.with_suffix(".json").write_text(json.dumps({"variant": variant, "seed": seed, "dice": dice}))
