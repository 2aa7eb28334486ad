"""`run_published.py script|notebook DATA`: run a published program as it is, except for its duration and its data.

The notebook runs up to its training loop, without the cells that draw. It is changed to download nothing, to train the wanted
number of epochs and not to validate; the script has options for this. Both get speedproof's seed.
"""

import json
import os
import sys
import types
from importlib.machinery import ModuleSpec
from pathlib import Path

import torch
from monai.utils import set_determinism

from speedproof_common.program import run_program, say_digest

SCRIPT = "programs/acceleration/distributed_training/brats_training_ddp.py"
NOTEBOOK = "programs/3d_segmentation/brats_segmentation_3d.ipynb"
NEVER = 1_000_000
LOOP = "for epoch in range(max_epochs)"
UNUSED = ("matplotlib", "matplotlib.pyplot", "onnxruntime", "tqdm")  # which it imports, and which need not be here


def main(kind: str, data: str) -> None:
    """Run the program in this process."""
    epochs, seed = int(os.environ.get("SPEEDPROOF_EPOCHS") or 3), int(os.environ.get("SPEEDPROOF_SEED") or 0)
    if kind == "script":
        place = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
        os.environ.update({name: os.environ.get(name, value) for name, value in place.items()})
        # Its own --seed would take cuDNN's deterministic kernels, too, and nothing documented was measured with it.
        set_determinism(seed=seed)
        torch.backends.cudnn.deterministic = False
        run_program(f"{data}/{SCRIPT}", "-d", data, "--epochs", str(epochs), "--val_interval", str(NEVER))
        return
    for name in UNUSED:
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__spec__ = ModuleSpec(name, None)
    sys.modules["tqdm"].tqdm = list  # type: ignore[attr-defined]
    os.environ["MONAI_DATA_DIRECTORY"] = data
    say_digest(f"{data}/{NOTEBOOK}")
    space: dict[str, object] = {"__name__": "__main__"}
    for cell in list_cells(Path(data, NOTEBOOK), epochs, seed):
        exec(compile(cell, NOTEBOOK, "exec"), space)


def list_cells(notebook: Path, epochs: int, seed: int) -> list[str]:
    """Return the cells that train, with these epochs and data; raise ValueError if the cells do not set one of them."""
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
        ("max_epochs = 300", f"max_epochs = {epochs}"),
        ("val_interval = 1", f"val_interval = {NEVER}"),
        ("set_determinism(seed=0)", f"set_determinism(seed={seed})"),
    ):
        if text.count(before) != 1:
            raise ValueError(f"{notebook.name}: `{before}` does not stand in it once")
        text = text.replace(before, after)
    return text.split("\0")


if __name__ == "__main__":
    main(*sys.argv[1:])
