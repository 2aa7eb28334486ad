"""Private folders of a run: where it works, its TMPDIR, and its compile caches; at one path for all runs of a proof.

A program cannot tell runs or variants by the path. It is the same each time, since caches know sources by their path (Numba's),
and compiled code may hold it.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from speedproof.config.model import Variant
from speedproof.config.workload import Workload
from speedproof.util.errors import ConfigError, StorageError

# Short names: sockets lie below TMPDIR, and the path of one may have 107 bytes.
_WORK, _TEMPORARY, _CACHES, _OVERLAYS = "w", "t", "c", "o"
# Of compiled code alone. Caches of weights and data (HF_HOME, TORCH_HOME) stay the user's own: they are filled by downloads.
# So does Python's bytecode, which is checked against its source: a private one would compile all packages anew in a warm-up.
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
    return Path(tempfile.gettempdir(), f"run-{hashlib.sha256(os.fsencode(named)).hexdigest()[:8]}")


@contextmanager
def private_folders(workload: Workload, variant: Variant) -> Iterator[Path]:
    """Yield an empty folder to work in, beside an empty TMPDIR and compile caches, which hold what the variant's warm-up left.

    With `cold` caches these are empty, too. All of it goes with the block.
    """
    place = private_place(workload)
    _make_own(place)
    try:
        for name in (_WORK, _TEMPORARY, _CACHES, _OVERLAYS):
            (place / name).mkdir(0o700)
        if variant.caches == "warm" and variant.kept_caches and Path(variant.kept_caches).is_dir():
            _copy_all(Path(variant.kept_caches), place / _CACHES)
        yield place / _WORK
    finally:
        shutil.rmtree(place, ignore_errors=True)


def private_variables(variant: Variant, work: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that lead a program to the private folders beside the one that it works in."""
    if not is_private(variant):
        return {}
    caches = work.with_name(_CACHES)
    return {
        "TMPDIR": str(work.with_name(_TEMPORARY)),
        **{name: str(caches / folder) for name, folder in CACHE_VARIABLES.items() if _is_replaced(name, environ)},
    }


def list_private_folders(variant: Variant, work: Path) -> list[Path]:
    return [work.with_name(_TEMPORARY), work.with_name(_CACHES)] if is_private(variant) else []


def overlays_folder(work: Path) -> Path:
    """Return the folder beside a run's own in which an isolated program's overlays are mounted."""
    return work.with_name(_OVERLAYS)


def list_replaced(environ: Mapping[str, str]) -> list[str]:
    return sorted(name for name in environ if name == "TMPDIR" or name in CACHE_VARIABLES)


def keep_caches(variant: Variant, work: Path) -> int:
    """Keep the compile caches that a warm-up left, for the variant's runs; return how many files they hold."""
    if variant.caches != "warm" or variant.kept_caches is None:
        return 0
    kept, left = Path(variant.kept_caches), work.with_name(_CACHES)
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
            raise ConfigError(f"{place}: others can write there; remove it, or set TMPDIR to a folder of your own") from None
        shutil.rmtree(place)  # a killed run's
        place.mkdir(0o700)


def _copy_all(source: Path, target: Path) -> None:
    """Copy what a folder holds, with times and rights. `cp` is faster than Python, and may share blocks."""
    done = subprocess.run(["cp", "-a", f"{source}/.", str(target)], capture_output=True, text=True)
    if done.returncode:
        raise StorageError(
            f"{source}: its compile caches cannot be copied ({done.stderr.strip()[:200]}); --caches cold has none"
        )
