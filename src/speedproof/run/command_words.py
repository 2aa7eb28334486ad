"""The words of a command: with the folders that it names, and with what enters an image before it."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from speedproof.cluster.apptainer import enter_command, find_apptainer, sees_gpu
from speedproof.config.model import Config, Variant
from speedproof.config.workload import Workload


def program_command(workload: Workload, variant: Variant, data: Path | None = None, run: Path | None = None) -> list[str]:
    """Return the words of a variant's command; `{workload}` is the workload's folder, `{data}` that of its prepared data,
    `{python}` this interpreter, `{run}` the fresh folder of one run.
    """
    places = {"{workload}": str(workload.folder), "{python}": sys.executable}
    if data is not None:
        places["{data}"] = str(data.resolve())  # what dataset.json names may lead up, out of folders that no image has
    if run is not None:
        places["{run}"] = str(run)
    words = shlex.split(variant.command or "")
    for place, value in places.items():
        words = [word.replace(place, value) for word in words]
    return words


def enter_image(config: Config, variant: Variant, place: Path, folders: Sequence[Path]) -> list[str]:
    """Return the words that run a command in its variant's image; none without an image."""
    if variant.image is None:
        return []
    seen = [*(folder.absolute() for folder in folders), *map(Path, variant.linked.values())]
    program = find_apptainer("remove the variant's image")
    return enter_command(program, variant.image, place, seen, config.measurement.device != "cpu" and sees_gpu())
