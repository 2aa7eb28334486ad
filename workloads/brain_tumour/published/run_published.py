"""`run_published.py script|notebook DATA`: runs a published program as it is, and marks its epochs.

The files are unmodified. We change the following at run time:

- both: what they print is read as it is printed, phases are named for profilers (named_phases.py), `DiceMetric` reports its
  mean, and the program is ended after SPEEDPROOF_EPOCHS of its 300 epochs
- script: the volumes and how often it validates, by its options; `set_determinism` with the run's seed, and then cuDNN's
  nondeterministic kernels, as without its `--seed`; torchrun's variables for one process
- notebook: the folder of the volumes, without a download; the seed, and how often it validates; cells that install packages or
  draw are left out; packages that it imports for these are empty modules if they are not installed
"""

import json
import os
import sys
import types
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from monai.metrics import DiceMetric
from monai.utils import set_determinism
from named_phases import named_phases

from speedproof_brain_tumour.cases import list_cases, split_cases
from speedproof_common.marked_output import MarkedOutput, marking, watch_dice
from speedproof_common.program import run_program, say_digest

SCRIPT = "programs/acceleration/distributed_training/brats_training_ddp.py"
NOTEBOOK = "programs/3d_segmentation/brats_segmentation_3d.ipynb"
VOLUMES = "Task01_BrainTumour"
VALIDATE_EVERY = {"script": 20, "notebook": 1}  # as published
LOOP = "for epoch in range(max_epochs)"
UNUSED = ("matplotlib", "matplotlib.pyplot", "onnxruntime", "tqdm")  # which it imports, and which need not be here


def main(kind: str, data: str) -> None:
    """Run the program in this process."""
    seed = int(os.environ.get("SPEEDPROOF_SEED") or 0)
    wanted = int(os.environ.get("SPEEDPROOF_EPOCHS") or sys.maxsize)
    validate_every = int(os.environ.get("SPEEDPROOF_VALIDATE_EVERY") or VALIDATE_EVERY[kind])
    training, _ = split_cases(list_cases(Path(data, VOLUMES)))
    output = MarkedOutput(sys.stdout, validate_every, wanted, len(training), names_epochs=True)
    watch_dice(output.take_dice, find_mean_dice)
    with marking(output), named_phases():
        if kind == "script":
            run_script(data, seed, validate_every)
        else:
            run_notebook(data, seed, validate_every)
    if torch.distributed.is_initialized():  # which the script leaves at its end
        torch.distributed.destroy_process_group()


def run_script(data: str, seed: int, validate_every: int) -> None:
    """Run the script as torchrun would start it on one GPU."""
    place = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "0"}  # 0: any
    os.environ.update(place)
    # Its own --seed would take cuDNN's deterministic kernels, too, and nothing documented was measured with it.
    set_determinism(seed=seed)
    torch.backends.cudnn.deterministic = False
    run_program(f"{data}/{SCRIPT}", "-d", data, "--val_interval", str(validate_every))


def run_notebook(data: str, seed: int, validate_every: int) -> None:
    """Run the cells that train."""
    for name in [name for name in UNUSED if is_missing(name.partition(".")[0])]:
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__spec__ = ModuleSpec(name, None)
        sys.modules[name].tqdm = list  # type: ignore[attr-defined]
    say_digest(f"{data}/{NOTEBOOK}")
    directory = Path("tutorial").resolve()  # of the run, since the best weights go there
    directory.mkdir(exist_ok=True)
    link = directory / VOLUMES
    link.symlink_to(Path(data, VOLUMES).resolve())
    os.environ["MONAI_DATA_DIRECTORY"] = str(directory)
    space: dict[str, object] = {"__name__": "__main__"}
    try:
        for cell in list_cells(Path(data, NOTEBOOK), seed, validate_every):
            exec(compile(cell, NOTEBOOK, "exec"), space)
    finally:
        link.unlink()  # the run's folder would seem to hold all volumes


def is_missing(package: str) -> bool:
    """Return whether a package can not be imported."""
    return package not in sys.modules and find_spec(package) is None


def list_cells(notebook: Path, seed: int, validate_every: int) -> list[str]:
    """Return the cells that train, with what comes from outside; raise ValueError if the cells do not set one of them."""
    cells = [
        "".join(cell["source"]) for cell in json.loads(notebook.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"
    ]
    cells = [cell for cell in cells if not cell.startswith(("!", "%")) and "plt.show" not in cell]
    last = next((number for number, cell in enumerate(cells) if LOOP in cell), None)
    if last is None:
        raise ValueError(f"{notebook.name}: no cell has `{LOOP}`")
    text = "\0".join(cells[: last + 1])
    for before, after in (
        ("download=True", "download=False"),
        ("val_interval = 1", f"val_interval = {validate_every}"),
        ("set_determinism(seed=0)", f"set_determinism(seed={seed})"),
    ):
        if text.count(before) != 1:
            found = text.count(before)
            raise ValueError(f"{notebook.name}: has `{before}` {found} times, not once; is it of the commit in published.yaml?")
        text = text.replace(before, after)
    return text.split("\0")


def find_mean_dice(metric: DiceMetric, means: Any) -> float | None:
    """Return the mean Dice that both programs print and keep the best weights by; another metric has each region's."""
    return float(means) if metric.reduction == "mean" else None


if __name__ == "__main__":
    main(*sys.argv[1:])
