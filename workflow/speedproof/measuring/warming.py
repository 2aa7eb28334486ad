"""What a run finds of earlier ones, the same for the first as for the last: all of its prepared volumes, no compiled code."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from speedproof.config.model import Config
from speedproof.measuring.process import run_process
from speedproof.records.block import PREPARED_FILE, PREPARED_FOLDER, PreparedFolder
from speedproof.records.files import read_record


def fill_prepared_folders(config: Config, config_file: Path, dataset_file: Path, block_folder: Path) -> list[PreparedFolder]:
    """Fill the folder of each measured variant that has one, and return what each took.

    Each is filled by a process of its own, with a run's environment: what it leaves on the device, or in memory, is no run's.

    Raises:
        TrainingError: a folder could not be filled.
    """
    return [_fill(name, config_file, dataset_file, block_folder / PREPARED_FOLDER / name) for name in config.prepared_folders()]


def _fill(variant: str, config_file: Path, dataset_file: Path, folder: Path) -> PreparedFolder:
    record = folder / PREPARED_FILE
    shutil.rmtree(folder, ignore_errors=True)  # an earlier attempt's
    folder.mkdir(parents=True)
    options = [f"--config={config_file}", f"--dataset={dataset_file}", f"--variant={variant}", f"--out={record}"]
    run_process(["speedproof", "prepare", *options], folder)
    return read_record(record, PreparedFolder)


@contextmanager
def own_compile_cache() -> Iterator[dict[str, str]]:
    """Yield variables that give a run's processes an empty folder for compiled code, which goes when the run ends.

    By default torch.compile and Triton share theirs among all processes of a user: the first run would compile, the next ones
    read what it left.
    """
    with tempfile.TemporaryDirectory(prefix="speedproof-compiled-", ignore_cleanup_errors=True) as folder:
        yield {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor", "TRITON_CACHE_DIR": f"{folder}/triton"}
