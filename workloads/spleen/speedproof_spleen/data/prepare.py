"""The first step of every workflow: check that all volumes are whole and sound, and write `dataset.json`."""

from pathlib import Path

from speedproof.api import (
    DataError,
    Dataset,
    Marker,
    check_free_space,
    fetch_unpacked,
    find_entry,
    make_once,
    name_folder,
    write_json,
)
from speedproof_spleen.config import Data, Phantom
from speedproof_spleen.data import REGISTRY
from speedproof_spleen.data.phantom import make_phantom, recipe_digest
from speedproof_spleen.data.sizes import estimate_bytes
from speedproof_spleen.data.verify import inspect_dataset


def prepare_dataset(data: Data, out: Path, *, workers: int | None = None) -> Dataset:
    """Fetch or make the volumes that `data` asks for, inspect every case, and write `out` (`dataset.json`) last.

    What is there already is neither fetched nor made again. `workers` processes or threads share the work; None: one a
    core. Whatever goes wrong is a :class:`DataError`.
    """
    try:
        dataset = _prepare(data, out, workers)
        write_json(out, dataset)
    except OSError as error:
        raise DataError(f"{error.filename or data.folder}: {error.strerror}; check the disk, or set `data.folder`") from None
    return dataset


def _prepare(data: Data, out: Path, workers: int | None) -> Dataset:
    if data.source == "msd":
        entry = find_entry(REGISTRY, data.registry_entry)
        folder = fetch_unpacked(entry, Path(data.folder))
        name, version, licence = entry.title, entry.version, entry.licence
    elif data.source == "phantom":
        folder = _make_phantom_once(data.phantom, Path(data.folder), workers)
        name, version, licence = "Spleen phantom", f"{data.phantom.size}, seed {data.phantom.seed}", "Apache-2.0"
    else:
        folder = Path(data.local_folder or "")
        name, version, licence = folder.resolve().name, "unknown", "unknown"
    return Dataset(
        source=data.source,
        name=name,
        version=version,
        licence=licence,
        synthetic=data.source == "phantom",
        folder=name_folder(folder, out),
        cases=inspect_dataset(folder, workers),
    )


def _make_phantom_once(phantom: Phantom, folder: Path, workers: int | None) -> Path:
    def fill(empty: Path) -> None:
        check_free_space(empty, estimate_bytes(phantom.size), f"the phantom `{phantom.size}`")
        make_phantom(empty, phantom.size, phantom.seed, workers)

    marker: Marker = {"size": phantom.size, "seed": phantom.seed, "recipe": recipe_digest()}
    return make_once(folder / f"phantom-{phantom.size}-{phantom.seed}", marker, fill)
