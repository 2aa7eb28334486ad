"""An experiment's own folder on its node's disk, for volumes and profiles. It is removed when the `with` block ends."""

import logging
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from speedproof.results.dataset import Dataset
from speedproof.results.files import read_record, sha256_of, write_json
from speedproof.util.environment import available_cores, expand_variables
from speedproof.util.errors import ConfigError, DataError, RecordError
from speedproof.util.temporary_folder import own_folder

log = logging.getLogger("speedproof")


@dataclass(frozen=True)
class Place:
    """Where an experiment's runs find their volumes, and where profilers write; None: into the run's folder."""

    dataset_file: Path
    profiles: Path | None = None


@contextmanager
def take_place(scratch: str | None, dataset_file: Path, environ: Mapping[str, str]) -> Iterator[Place]:
    """Yield where an experiment works: without scratch where its dataset and runs are, else in a folder below it, with a copy.

    `scratch` may name variables of the job, as `$TMPDIR`.

    Raises:
        ConfigError: there is no such folder or variable, or too little room.
        DataError: a volume is not what `dataset.json` says.
    """
    if scratch is None:
        _check_volumes(dataset_file)
        yield Place(dataset_file)
        return
    folder = expand_variables(scratch, environ, "resources.scratch")
    if not folder.is_dir():
        raise ConfigError(f"resources.scratch: {folder}: no such folder on this node; name another one, or set it to null")
    with own_folder(folder, "speedproof-") as own:
        copied = _copy_dataset(dataset_file, own / "data")
        log.info("volumes are read on the node's own disk, profiles written there")
        profiles = own / "profiles"
        profiles.mkdir()
        yield Place(copied, profiles)


@contextmanager
def writing_apart(scratch: Path | None, target: Path, names: list[str], keep: bool) -> Iterator[Path]:
    """Yield a folder that only its owner can read, on scratch or in `target`, for files of which none else may see anything.

    With `keep`, and if the `with` block fails, so that the recording can be looked at, those of `names` move to `target`, for
    their owner only; each is whole or not there. The others are removed.
    """
    with own_folder(scratch or target, ".profiles-") as folder:
        try:
            yield folder
        except BaseException:
            keep = True
            raise
        finally:
            for name in names if keep else []:
                if (made := folder / name).exists():
                    _move_private(made, target / name)


def _move_private(made: Path, target: Path) -> None:
    """Move a file over, whole, readable for its owner only all the while."""
    made.chmod(0o600)
    if made.stat().st_dev == target.parent.stat().st_dev:
        made.replace(target)
        return
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".profiles-") as folder:
        shutil.copyfile(made, copied := Path(folder, made.name))
        copied.chmod(0o600)
        copied.replace(target)


def _check_volumes(dataset_file: Path) -> None:
    """Check that every volume is still what `dataset.json` says, whose digest the runs will bear: seconds for gigabytes."""
    dataset = read_record(dataset_file, Dataset)
    digests = dataset.checksums(dataset.files(dataset_file))
    with ThreadPoolExecutor(available_cores()) as pool:  # checksums are computed without Python's lock
        for path, found in zip(digests, pool.map(_digest_volume, digests), strict=True):
            if found != digests[path]:
                raise _changed(Path(path), dataset_file)


def _digest_volume(path: str) -> str | None:
    try:
        return sha256_of(Path(path))
    except (OSError, RecordError):  # missing, or no file
        return None


def _changed(path: Path, dataset_file: Path) -> DataError:
    what = "was changed" if path.exists() else "is missing"
    return DataError(
        f"{path}: {what} since {dataset_file} was made; restore it, or delete that file and run the workflow again"
    )


def _copy_dataset(dataset_file: Path, target: Path) -> Path:
    """Copy a dataset's volumes into a new folder, check each, and return the `dataset.json` beside them."""
    dataset = read_record(dataset_file, Dataset)
    source = dataset_file.parent / dataset.folder
    if dataset.content_sha256:
        _require_space(target.parent, sum(path.stat().st_size for path in source.rglob("*") if path.is_file()))
        shutil.copytree(source, target, ignore=shutil.ignore_patterns(dataset_file.name))
    files = {case.image: case.image_sha256 for case in dataset.cases} | {
        case.label: case.label_sha256 for case in dataset.cases
    }
    if missing := [name for name in files if not (source / name).is_file()]:
        raise _changed(source / missing[0], dataset_file)
    target.mkdir(exist_ok=True)
    _require_space(target, sum((source / name).stat().st_size for name in files))
    for name, digest in files.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, target / name)
        if sha256_of(target / name) != digest:
            raise _changed(source / name, dataset_file)
    copied = target / dataset_file.name
    write_json(copied, dataset.model_copy(update={"folder": "."}))
    return copied


def _require_space(folder: Path, needed_bytes: int) -> None:
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < needed_bytes:
        raise ConfigError(
            f"resources.scratch: {folder.parent}: {free_bytes / 2**20:,.0f} MiB free, the volumes need "
            f"{needed_bytes / 2**20:,.0f} MiB; name a larger disk, or set it to null"
        )
