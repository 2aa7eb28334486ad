"""The first step of the workflow: pairs that are there, each read to its end, and the `dataset.json` that says so."""

import hashlib
import os
import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

from PIL import Image
from pydantic import Field, ValidationError, model_validator

from speedproof.common.environment import available_cores
from speedproof.common.errors import ConfigError, DataError
from speedproof.config.base import Folder, Model, Positive, Seed
from speedproof.config.problems import describe_problem
from speedproof.fetch.download import fetch_unpacked
from speedproof.fetch.folders import Marker, check_free_space, make_once
from speedproof.fetch.registry import find_entry
from speedproof.records.dataset import Dataset, name_folder
from speedproof.records.files import write_json
from speedproof_polyp.data import REGISTRY, stand_in
from speedproof_polyp.data.stand_in import StandIn, make_stand_in
from speedproof_polyp.pairs import SPLITS, LayoutError, Pair, list_pairs

HALVINGS = 8  # by which the network needs height and width to be divisible


class Data(Model):
    """Where the pairs come from, and what the sides make of them: `data` of the configuration."""

    source: Literal["download", "local", "stand_in"] = Field("download", description="The registry's, a folder, or synthetic")
    folder: Folder = Field("data", description="Where downloads, splits and stand-ins are kept, relative to the working folder")
    registry_entry: str = Field("kvasir_seg", description="The registry's entry to download")
    local_folder: Folder | None = Field(None, description="A folder of pairs, split or not (`local`)")
    split_seed: Seed = Field(0, description="By which pairs that are not split are: 8 of 10 train, 1 validates, 1 tests")
    stand_in: StandIn = StandIn()
    pixels: Positive = Field(
        256, ge=16, le=4096, multiple_of=HALVINGS, description="Height and width that pairs are resized to"
    )
    filters: Positive = Field(16, le=1024, description="Of the network's first level")
    tensorflow_image: str | None = Field(None, description="A .sif file that TensorFlow's sides run in; null: none")

    @model_validator(mode="after")
    def _local_needs_a_folder(self) -> "Data":
        if self.source == "local" and not self.local_folder:
            raise ValueError("source `local` needs `local_folder`, a folder with images/ and masks/, or with train/ and valid/")
        return self


def check_data(values: Any, origin: str) -> Data:
    """Return a configuration's `data`, or raise a :class:`ConfigError` that names `origin` and the key."""
    try:
        return Data.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"{origin}: data.{describe_problem(error, Data)}") from None


def complete(values: dict[str, Any], origin: str) -> dict[str, Any]:
    """Return a configuration with what its `data` mean for the sides, and what they need: folders, a download, room.

    Raises:
        ConfigError: `data` cannot be understood; the text names `origin` and the key.
        DataError: the registry has no such entry.
    """
    data = check_data(values.get("data", {}), origin)
    download_mib = find_entry(REGISTRY, data.registry_entry).expected_mib if data.source == "download" else 0
    made_mib = data.stand_in.estimate_bytes() / 2**20 if data.source == "stand_in" else 0.0
    sides = values["completed"].get("sides", {})
    needs = {
        "sides": {name: _complete_side(side, data) for name, side in sides.items()},
        "shared": {"pixels": data.pixels, "filters": data.filters},
        "dataset": data.source,
        "folders": {"data.folder": data.folder, "data.local_folder": data.local_folder or ""},
        "download_mib": download_mib,
        "data_mib": 3 * download_mib + made_mib,  # the archive, what is in it, and its split
    }
    return {**values, "data": data.model_dump(mode="json"), "completed": {**values["completed"], **needs}}


def _complete_side(side: dict[str, Any], data: Data) -> dict[str, Any]:
    """Return a side that trains with this many pixels and filters; one of TensorFlow's in its image, where there is one."""
    command = f"{side['command']} --pixels {data.pixels} --filters {data.filters}"
    image = side.get("image")
    if data.tensorflow_image and side["settings"]["framework"] == "tensorflow":
        image = os.path.abspath(data.tensorflow_image)  # noqa: PTH100  (Path.resolve would follow a link)
    named = {"image": Path(image).name} if image else {}
    return {**side, "command": command, "image": image, "settings": {**side["settings"], "command": command, **named}}


def prepare_dataset(data: Data, out: Path, *, workers: int | None = None) -> Dataset:
    """Fetch or make the pairs that `data` asks for, read every file once, and write `out` (`dataset.json`) last.

    What is there already is neither fetched nor made again. Whatever goes wrong is a :class:`DataError`.
    """
    try:
        dataset = _prepare(data, out, workers)
        write_json(out, dataset)
    except LayoutError as error:
        raise DataError(str(error)) from None
    except OSError as error:
        raise DataError(f"{error.filename or data.folder}: {error.strerror}; check the disk, or set `data.folder`") from None
    return dataset


def _prepare(data: Data, out: Path, workers: int | None) -> Dataset:
    if data.source == "download":
        entry = find_entry(REGISTRY, data.registry_entry)
        folder = _split_once(fetch_unpacked(entry, Path(data.folder)), data, entry.checksum[1])
        name, version, licence = entry.title, f"{entry.version}, split by seed {data.split_seed}", entry.licence
    elif data.source == "stand_in":
        folder = _make_once(data.stand_in, Path(data.folder), workers)
        name, version, licence = "Kvasir-SEG stand-in", _describe(data.stand_in), "Apache-2.0"
    else:
        given = Path(data.local_folder or "")
        folder = given if (given / SPLITS[0]).is_dir() else _split_once(given, data, _digest_files(given))
        name, version, licence = given.resolve().name, "unknown", "unknown"
    return Dataset(
        source=data.source,
        name=name,
        version=version,
        licence=licence,
        synthetic=data.source == "stand_in",
        folder=name_folder(folder, out),
        content_sha256=digest_content(folder),
    )


def _describe(asked: StandIn) -> str:
    (least_wide, least_high), (most_wide, most_high) = asked.smallest, asked.largest
    return f"{asked.pairs} pairs of {least_wide}×{least_high} to {most_wide}×{most_high}, seed {asked.seed}"


def _make_once(asked: StandIn, folder: Path, workers: int | None) -> Path:
    def fill(empty: Path) -> None:
        check_free_space(empty, asked.estimate_bytes(), f"the stand-in of {asked.pairs:,} pairs")
        make_stand_in(empty, asked, workers)

    recipe = hashlib.sha256(Path(stand_in.__file__).read_bytes()).hexdigest()[:16]
    told = asked.model_dump_json()
    digest = hashlib.sha256(told.encode()).hexdigest()[:8]
    return make_once(folder / f"polyp-stand-in-{digest}", {"asked": told, "recipe": recipe}, fill)


def _split_once(whole: Path, data: Data, digest: str) -> Path:
    """Return a folder with the pairs of `whole` copied into train/, valid/ and test/."""
    marker: Marker = {"digest": digest, "seed": data.split_seed}
    place = Path(data.folder) / f"polyp-split-{digest[:8]}-{data.split_seed}"
    return make_once(place, marker, lambda empty: split_pairs(_find_pairs(whole), data.split_seed, empty))


def _find_pairs(whole: Path) -> list[Pair]:
    """Return the pairs of an archive's folder, or of one in it."""
    inside = [found.parent for found in sorted(whole.glob("*/images"))]
    return list_pairs(inside[0] if inside and not (whole / "images").is_dir() else whole)


def split_pairs(pairs: list[Pair], seed: int, folder: Path) -> None:
    """Copy pairs, in an order drawn by the seed, into train/, valid/ and test/: a tenth validates, a tenth tests."""
    drawn = sorted(pairs)
    random.Random(seed).shuffle(drawn)
    tenth = max(1, len(drawn) // 10)
    if len(drawn) < 3:
        raise LayoutError(f"{pairs[0].image.parent.parent}: {len(drawn)} pairs, where three or more can be split; add some")
    shares = {"valid": drawn[:tenth], "test": drawn[tenth : 2 * tenth], "train": drawn[2 * tenth :]}
    for split, own in shares.items():
        for part in ("images", "masks"):
            (folder / split / part).mkdir(parents=True)
        for pair in own:
            shutil.copyfile(pair.image, folder / split / "images" / pair.image.name)
            shutil.copyfile(pair.mask, folder / split / "masks" / pair.mask.name)


def digest_content(folder: Path) -> str:
    """Return a digest of names and contents of all pairs, each read to its end.

    Raises:
        LayoutError: `train` or `valid` has no pairs, one is not whole, or image and mask are not of one size.
    """
    splits = [split for split in SPLITS if split != "test" or (folder / split).is_dir()]
    pairs = [pair for split in splits for pair in _list_split(folder, split)]
    with ThreadPoolExecutor(available_cores()) as pool:
        checked = list(pool.map(_digest_pair, pairs))
    digest = hashlib.sha256()
    for pair, own in zip(pairs, checked, strict=True):
        digest.update(f"{os.path.relpath(pair.image, folder)}\0{own}\0".encode())
    return digest.hexdigest()


def _list_split(folder: Path, split: str) -> list[Pair]:
    if split == "test" and not any((folder / split).glob("*/*")):
        return []
    return list_pairs(folder / split)


def _digest_pair(pair: Pair) -> str:
    sizes = []
    for path in pair:
        try:
            with Image.open(path) as image:
                image.load()
                sizes.append(image.size)
        except (OSError, SyntaxError, ValueError):
            raise LayoutError(f"{path}: is no whole image; get it again, or remove it and its pair") from None
    if sizes[0] != sizes[1]:
        raise LayoutError(f"{pair.mask}: {sizes[1][0]}×{sizes[1][1]}, its image {sizes[0][0]}×{sizes[0][1]}; remove the pair")
    return hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in pair)).hexdigest()


def _digest_files(whole: Path) -> str:
    """Return a digest of pairs that are to be split."""
    return hashlib.sha256("".join(_digest_pair(pair) for pair in _find_pairs(whole)).encode()).hexdigest()
