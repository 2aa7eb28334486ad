"""What a run finds of earlier ones, the same for the first as for the last: nothing, or all that its folder can keep.

A variant without `prepared_folder` is cold: it prepares its volumes and compiles its kernels itself. One with a folder is warm:
both lie there before its first run.
"""

import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from speedproof.config.model import Config, Variant
from speedproof.config.workload import Workload
from speedproof.results.experiment import PREPARED_FILE, PREPARED_FOLDER, PreparedFolder
from speedproof.results.files import read_record
from speedproof.run.process import run_process
from speedproof.util.errors import ConfigError, StorageError
from speedproof.util.temporary_folder import RUN_PREFIX, holding_new_folder, own_folder


def fill_prepared_folders(
    config: Config, workload: Workload, config_files: Sequence[Path], dataset_file: Path, experiment_folder: Path
) -> list[PreparedFolder]:
    """Fill the folder of each measured variant that has one, and return what each took.

    A separate process with a run's environment fills each, so that nothing it leaves in memory or on the device affects a run.

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
            raise ConfigError(f"prepared_folder: {code}: other users could write there; remove it; it is created again")
    except OSError as error:
        raise ConfigError(f"prepared_folder: {error.filename}: {error.strerror}; name your own folder") from None
    return code


def _is_ours_alone(status: os.stat_result) -> bool:
    """Return whether a file belongs to this user or the system's, and nobody else may write to it."""
    return _is_ours(status) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _is_ours(status: os.stat_result) -> bool:
    return status.st_uid in (os.geteuid(), 0)


def _read_status(path: Path) -> os.stat_result | None:
    """Return whose a file is; None if it is gone by now, like Triton's temporary files."""
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


# Short names: sockets lie below TMPDIR, and the path of one may have 107 bytes.
_WORK, _TEMPORARY, _CACHES, _OVERLAYS = "w", "t", "c", "o"
# Caches of compiled code only. Those of weights and data (HF_HOME, TORCH_HOME) stay the user's: downloads fill them.
# So does Python's bytecode, which is checked against its source: a private one would compile all packages again in a warm-up.
CACHE_VARIABLES = {
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TORCH_EXTENSIONS_DIR": "extensions",
    "PYTORCH_KERNEL_CACHE_PATH": "torch",
    "TRITON_CACHE_DIR": "triton",
    "CUDA_CACHE_PATH": "cuda",
    "NUMBA_CACHE_DIR": "numba",
    "CUPY_CACHE_DIR": "cupy",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    "JAX_COMPILATION_CACHE_DIR": "jax",
}
_ONLY_IF_SET = {"JAX_COMPILATION_CACHE_DIR"}  # without the variable there is no cache, and setting it would make one


def is_private(variant: Variant) -> bool:
    return variant.caches in ("warm", "cold")


def private_place(workload: Workload) -> Path:
    """Return the folder that holds the private folders of all runs of a workload's variants."""
    named = f"{os.geteuid()} {workload.folder.resolve()}"
    return Path(tempfile.gettempdir(), f"{RUN_PREFIX}{hashlib.sha256(os.fsencode(named)).hexdigest()[:8]}")


@contextmanager
def private_folders(workload: Workload, variant: Variant) -> Iterator[Path]:
    """Yield an empty folder to work in, beside an empty TMPDIR and compile caches, which hold what the variant's warm-up left.

    With `cold` caches these are empty, too. All of it goes with the block.
    """
    place = private_place(workload)
    with _holding_own(place):
        for name in list_own_names():
            (place / name).mkdir(0o700)
        if variant.caches == "warm" and variant.kept_caches and Path(variant.kept_caches).is_dir():
            _copy_all(Path(variant.kept_caches), place / _CACHES)
        yield place / _WORK


@contextmanager
def _holding_own(place: Path) -> Iterator[None]:
    """Make a folder of a known name; remove it at the end, or leave that to the next process if this one is killed."""
    while True:
        _make_own(place)
        with holding_new_folder(place) as held:
            if held:
                try:
                    yield
                finally:
                    shutil.rmtree(place, ignore_errors=True)
                return


def private_variables(variant: Variant, work: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that lead a program to the private folders beside the one that it works in."""
    if not is_private(variant):
        return {}
    top = find_top(variant, work)
    caches = top.with_name(_CACHES)
    return {
        "TMPDIR": str(top.with_name(_TEMPORARY)),
        **{name: str(caches / folder) for name, folder in CACHE_VARIABLES.items() if _is_replaced(name, environ)},
    }


def find_top(variant: Variant, work: Path) -> Path:
    """Return the folder that holds a run's files: the one that it works in, or the highest that is mirrored above it."""
    return work.parents[variant.mirrored - 1] if variant.mirrored else work


def list_private_folders(variant: Variant, work: Path) -> list[Path]:
    top = find_top(variant, work)
    return [top.with_name(_TEMPORARY), top.with_name(_CACHES)] if is_private(variant) else []


def overlays_folder(variant: Variant, work: Path) -> Path:
    """Return the folder beside a run's own in which an isolated program's overlays are mounted."""
    return find_top(variant, work).with_name(_OVERLAYS)


def list_own_names() -> tuple[str, ...]:
    """Return what the folder that holds a run's private folders has in it at first."""
    return _WORK, _TEMPORARY, _CACHES, _OVERLAYS


def list_replaced(environ: Mapping[str, str]) -> list[str]:
    return sorted(name for name in environ if name == "TMPDIR" or name in CACHE_VARIABLES)


def keep_caches(variant: Variant, work: Path) -> int:
    """Keep the compile caches that a warm-up left, for the variant's runs; return how many files they hold."""
    if variant.caches != "warm" or variant.kept_caches is None:
        return 0
    kept, left = Path(variant.kept_caches), find_top(variant, work).with_name(_CACHES)
    shutil.rmtree(kept, ignore_errors=True)
    files = sum(len(names) for _, _, names in os.walk(left))
    if files:
        kept.mkdir(0o700, parents=True)
        _copy_all(left, kept)
    return files


def _is_replaced(name: str, environ: Mapping[str, str]) -> bool:
    return name not in _ONLY_IF_SET or name in environ


def _make_own(place: Path) -> None:
    """Make a folder that is empty and its owner's alone; its name is known, so anybody may have made another one.

    Raises :class:`ConfigError` if somebody did.
    """
    try:
        place.mkdir(0o700)
    except FileExistsError:
        status = place.lstat()
        if place.is_symlink() or not place.is_dir() or status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise ConfigError(f"{place}: other users can write there; remove it, or set TMPDIR to your own folder") from None
        shutil.rmtree(place)  # a killed run's
        place.mkdir(0o700)


def _copy_all(source: Path, target: Path) -> None:
    """Copy what a folder holds, with times and rights. `cp` is faster than Python, and may share blocks."""
    done = subprocess.run(["cp", "-a", f"{source}/.", str(target)], capture_output=True, text=True)
    if done.returncode:
        raise StorageError(
            f"{source}: its compile caches cannot be copied ({done.stderr.strip()[:200]}); --caches cold needs none"
        )
