"""What a run finds of earlier ones, the same for the first as for the last: nothing, or all that its folder can keep.

A variant without `prepared_folder` is cold: it prepares its volumes and compiles its kernels itself. One with a folder is warm:
both lie there before its first run.
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from speedproof.config.model import Config, Variant
from speedproof.config.workload import Workload
from speedproof.results.experiment import PREPARED_FILE, PREPARED_FOLDER, PreparedFolder
from speedproof.results.files import read_record
from speedproof.run.process import run_process
from speedproof.util.errors import ConfigError
from speedproof.util.temporary_folder import own_folder


def fill_prepared_folders(
    config: Config, workload: Workload, config_files: Sequence[Path], dataset_file: Path, experiment_folder: Path
) -> list[PreparedFolder]:
    """Fill the folder of each measured variant that has one, and return what each took.

    Each is filled by a process of its own, with a run's environment: what it leaves on the device, or in memory, is no run's.

    Raises:
        TrainingError: a folder could not be filled.
    """
    return [
        _fill(
            workload,
            name,
            config.completed_variants[name],
            config_files,
            dataset_file,
            experiment_folder / PREPARED_FOLDER / name,
        )
        for name in config.prepared_folders()
    ]


def _fill(
    workload: Workload, name: str, variant: Variant, config_files: Sequence[Path], dataset_file: Path, folder: Path
) -> PreparedFolder:
    record = folder / PREPARED_FILE
    shutil.rmtree(folder, ignore_errors=True)  # an earlier attempt's
    folder.mkdir(parents=True)
    options = [
        *(f"--config={path}" for path in config_files),
        f"--dataset={dataset_file}",
        f"--variant={name}",
        f"--out={record}",
    ]
    with compile_cache(variant) as variables:
        command = [*workload.command("fill"), *options]
        run_process(command, folder, variables=workload.environment(os.environ) | variables)
    return read_record(record, PreparedFolder)


@contextmanager
def compile_cache(variant: Variant) -> Iterator[dict[str, str]]:
    """Yield variables that give a run's processes a folder for compiled code: an empty one, or that of the prepared volumes.

    By default Triton shares one among all processes of a user: the first run would compile, the next ones read what it left.
    An empty one goes when the run ends. None for a variant with caches of its own, or its caller's.

    Raises:
        ConfigError: others may write to the prepared folder: compiled code of theirs would run in this user's processes.
    """
    if variant.caches is not None:
        yield {}
        return
    if variant.prepared_folder is not None:
        yield {"TRITON_CACHE_DIR": str(_take_code_folder(Path(variant.prepared_folder)).absolute())}
        return
    with own_folder(Path(tempfile.gettempdir()), "compiled-") as folder:
        yield {"TRITON_CACHE_DIR": str(folder / "compiled")}  # Triton makes it; beside it lies whose the folder is


def _take_code_folder(prepared: Path) -> Path:
    """Return where compiled code lies in a prepared folder: it is made for its owner alone, and taken from no other."""
    code = prepared / "compiled"
    try:
        prepared.mkdir(mode=0o755, parents=True, exist_ok=True)
        code.mkdir(mode=0o700, exist_ok=True)
        if not _is_ours_alone(prepared.stat()):
            raise ConfigError(
                f"prepared_folder: {prepared}: others may write there, so code that is compiled there could be theirs; "
                "take that right from them (`chmod go-w`), or name a folder of your own"
            )
        closed = not code.lstat().st_mode & 0o077  # then what Triton wrote, as the umask says, is out of others' reach
        kept = [status for path in (code, *code.rglob("*")) if (status := _read_status(path))]
        if code.is_symlink() or not all(_is_ours(status) if closed else _is_ours_alone(status) for status in kept):
            raise ConfigError(f"prepared_folder: {code}: others could write there; remove it: it is made again")
    except OSError as error:
        raise ConfigError(f"prepared_folder: {error.filename}: {error.strerror}; name a folder of your own") from None
    return code


def _is_ours_alone(status: os.stat_result) -> bool:
    """Return whether a file belongs to this user or the system's, and nobody else may write to it."""
    return _is_ours(status) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _is_ours(status: os.stat_result) -> bool:
    return status.st_uid in (os.geteuid(), 0)


def _read_status(path: Path) -> os.stat_result | None:
    """Return whose a file is; None where it is gone by now, as what Triton writes in between."""
    try:
        return path.lstat()
    except FileNotFoundError:
        return None
