"""`run_published.py PROGRAM DATA`: runs a published program as it is, with its volumes where it looks for them.

The scripts draw the name of a folder in /tmp from a generator of seed 0, and download 1.6 GB there unless the folder has
volumes: it gets a link to them. They always train with seed 0.

The notebook's cells are run as they are, up to the one that trains its fast program. Left out are those that install packages,
and the one that trains its regular program, which takes an hour. Three things come from outside: MONAI_DATA_DIRECTORY, a
documented variable, names the run's own folder; `set_determinism` gets speedproof's seed, since with one seed all runs would
be the same training; and `print_config` prints nothing, which makes the start shorter.

Either ends after SPEEDPROOF_EPOCHS epochs.
"""

import copy
import gc
import json
import os
import random
import string
import sys
import types
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import monai
import torch
from kept_weights import keep_weights
from monai import utils
from monai.metrics import DiceMetric
from monai.networks.nets import UNet
from torch import nn

from speedproof import marks
from speedproof_common.marked_output import MarkedOutput, marking, watch_dice
from speedproof_common.program import run_program, say_digest

PLACE = "programs/performance_profiling/radiology"
NOTEBOOK = "programs/acceleration/fast_training_tutorial.ipynb"
PATCH_SIZE, PATCHES, VALIDATION_CASES = (96, 96, 96), 4, 9  # as all of them say
VALIDATE_EVERY = {".py": 2, ".ipynb": 5}
REGULAR, FAST = ") = train_process(fast=False)", ") = train_process(fast=True)"
SCRIPTS_WEIGHTS, NOTEBOOKS_WEIGHTS = "*/best_metric_model.pth", "*/best_metric_model.pt"


def published_folder() -> Path:
    """Return the folder that the scripts name."""
    drawn = random.Random(0)
    return Path("/tmp/tmp" + "".join(drawn.choice(string.ascii_lowercase) for _ in range(16)), "Task09_Spleen")


def link_volumes(volumes: Path, place: Path) -> None:
    """Link `place` to the volumes; raise FileExistsError if it is not a link, or if its folder is another user's."""
    place.parent.mkdir(mode=0o700, exist_ok=True)
    if place.parent.stat().st_uid != os.getuid() or (place.exists() and not place.is_symlink()):
        raise FileExistsError(f"{place}: the program looks for its volumes there, and something else has the place; remove it")
    link = place.with_name(f"{place.name}-{os.getpid()}")
    link.symlink_to(volumes)
    link.replace(place)


def list_cells(notebook: Path) -> list[str]:
    """Return the cells that train the fast program; raise ValueError if they are not there once."""
    cells = [
        "".join(cell["source"]) for cell in json.loads(notebook.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"
    ]
    for wanted in (REGULAR, FAST):
        if sum(wanted in cell for cell in cells) != 1:
            raise ValueError(f"{notebook.name}: `{wanted}` does not stand in one cell")
    last = next(number for number, cell in enumerate(cells) if FAST in cell)
    return [cell for cell in cells[: last + 1] if not cell.startswith(("!", "%")) and REGULAR not in cell]


def run_notebook(notebook: Path, volumes: Path) -> None:
    """Run the cells in this process, with the run's seed, and its own folder for data."""
    say_digest(str(notebook))
    seed, seeded = int(os.environ.get("SPEEDPROOF_SEED") or 0), utils.set_determinism
    utils.set_determinism = lambda **_: seeded(seed=seed)
    monai.config.print_config = lambda: None
    if find_spec("matplotlib") is None:  # which only draws, in cells that are left out
        for name in ("matplotlib", "matplotlib.pyplot"):
            sys.modules[name] = types.ModuleType(name)
    directory = Path("tutorial").resolve()
    directory.mkdir()
    (directory / "Task09_Spleen").symlink_to(volumes)
    os.environ["MONAI_DATA_DIRECTORY"] = str(directory)
    space: dict[str, Any] = {"__name__": "__main__"}
    for cell in list_cells(notebook):
        exec(compile(cell, notebook.name, "exec"), space)


def find_foreground_dice(metric: DiceMetric, _means: Any) -> float:
    """Return the mean of the last class: train_fast_nvtx.py prints the mean with the background's, which is another number."""
    foreground = metric.get_buffer()[:, -1]
    return float(foreground[~foreground.isnan()].mean())


def mark_flop(patches: int) -> None:
    """Mark what an epoch of the program's network computes; nothing is computed for it."""
    networks = [found for found in gc.get_objects() if type(found) is UNet]
    if len(networks) == 1:
        marks.flop(count_flop(networks[0], patches))


def count_flop(network: nn.Module, patches: int) -> int:
    """Return the FLOP of forward and backward, as torch counts them (`count_work` of ours does the same)."""
    from torch.utils.flop_counter import FlopCounterMode

    followed = copy.deepcopy(network).to("meta").train()
    with FlopCounterMode(display=False) as counter:
        followed(torch.empty((2, 1, *PATCH_SIZE), device="meta")).sum().backward()
    return counter.get_total_flops() // 2 * patches


def main(program: str, data: str) -> None:
    """Run the program in this process."""
    volumes, name = Path(data).resolve(), Path(program)
    patches = PATCHES * (len(list((volumes / "imagesTr").glob("*.nii.gz"))) - VALIDATION_CASES)
    wanted = int(os.environ.get("SPEEDPROOF_EPOCHS") or sys.maxsize)
    output = MarkedOutput(sys.stdout, VALIDATE_EVERY[name.suffix], wanted, patches, lambda: mark_flop(patches))
    watch_dice(output.take_dice, find_foreground_dice)
    with marking(output):
        if name.suffix == ".ipynb":
            run_notebook(volumes / NOTEBOOK, volumes)
        else:
            link_volumes(volumes, published_folder())
            run_program(f"{data}/{PLACE}/{program}")
    weights = NOTEBOOKS_WEIGHTS if name.suffix == ".ipynb" else SCRIPTS_WEIGHTS
    with suppress(StopIteration):
        keep_weights(next(Path().glob(weights)), f"published_{name.stem}", output.saved_dice)


if __name__ == "__main__":
    main(*sys.argv[1:])
