"""What a run finds of earlier ones, the same for the first as for the last: nothing, or all that its folder can keep.

A variant without `prepared_folder` is cold: it prepares its volumes and compiles its kernels itself. One with a folder is warm:
both lie there before its first run.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from speedproof.config.model import Config
from speedproof.config.variant import Variant
from speedproof.measuring.process import run_process
from speedproof.own_folder import own_folder
from speedproof.records.block import PREPARED_FILE, PREPARED_FOLDER, PreparedFolder
from speedproof.records.files import read_record


def fill_prepared_folders(config: Config, config_file: Path, dataset_file: Path, block_folder: Path) -> list[PreparedFolder]:
    """Fill the folder of each measured variant that has one, and return what each took.

    Each is filled by a process of its own, with a run's environment: what it leaves on the device, or in memory, is no run's.

    Raises:
        TrainingError: a folder could not be filled.
    """
    return [
        _fill(name, config.variants[name], config_file, dataset_file, block_folder / PREPARED_FOLDER / name)
        for name in config.prepared_folders()
    ]


def _fill(name: str, variant: Variant, config_file: Path, dataset_file: Path, folder: Path) -> PreparedFolder:
    record = folder / PREPARED_FILE
    shutil.rmtree(folder, ignore_errors=True)  # an earlier attempt's
    folder.mkdir(parents=True)
    options = [f"--config={config_file}", f"--dataset={dataset_file}", f"--variant={name}", f"--out={record}"]
    with compile_cache(variant) as variables:
        run_process(["speedproof", "prepare", *options], folder, variables=variables)
    return read_record(record, PreparedFolder)


@contextmanager
def compile_cache(variant: Variant) -> Iterator[dict[str, str]]:
    """Yield variables that give a run's processes a folder for compiled code: an empty one, or that of the prepared volumes.

    By default Triton shares one among all processes of a user: the first run would compile, the next ones read what it left.
    An empty one goes when the run ends.
    """
    if variant.prepared_folder is not None:
        yield {"TRITON_CACHE_DIR": str((Path(variant.prepared_folder) / "compiled").absolute())}
        return
    with own_folder(Path(tempfile.gettempdir()), "speedproof-compiled-") as folder:
        yield {"TRITON_CACHE_DIR": str(folder)}
