"""The first step of the workflow: check that all pairs exist, read each to its end, and write `dataset.json`."""

import hashlib
import os
import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from PIL import Image
from pydantic import Field

from speedproof.api import (
    ConfigError,
    Dataset,
    Marker,
    Positive,
    Seed,
    available_cores,
    digest_of,
    find_entry,
    identify_image,
    make_once,
)
from speedproof_common.data import Found, Source, check_source, download, make_stand_in_once, write_dataset
from speedproof_polyp.data import REGISTRY, stand_in
from speedproof_polyp.data.stand_in import StandIn, make_stand_in
from speedproof_polyp.pairs import SPLITS, LayoutError, Pair, list_pairs

_HALF = 128  # of white, from which on a pixel is one of a polyp
HALVINGS = 8  # by which the network needs height and width to be divisible


class Data(Source):
    """Where the pairs come from, and what the variants make of them: `data` of the configuration."""

    registry: ClassVar[Path] = REGISTRY

    registry_entry: str = Field("kvasir_seg", description="The registry's entry to download")
    split_seed: Seed = Field(0, description="By which pairs that are not split are: 8 of 10 train, 1 validates, 1 tests")
    stand_in: StandIn = StandIn()
    pixels: Positive = Field(
        256, ge=16, le=4096, multiple_of=HALVINGS, description="Height and width that pairs are resized to"
    )
    filters: Positive = Field(16, le=1024, description="Of the network's first level")
    tensorflow_image: str | None = Field(None, description="A .sif file that TensorFlow's variants run in; null: none")

    def describe_layout(self) -> str:
        """Return what a local folder is."""
        return "a folder with images/ and masks/, or with train/ and valid/"


def complete(values: dict[str, Any], origin: str) -> dict[str, Any]:
    """Return a configuration with what its `data` mean for the variants, and what they need: folders, a download, room.

    Raises:
        ConfigError: `data` cannot be understood, or asks for an image for variants that are not measured; the text names
            `origin` and the key.
        DataError: the registry has no such entry.
    """
    data = check_source(Data, values.get("data", {}), origin)
    variants = values["completed"].get("variants", {})
    measured = [variants[name] for name in values.get("measurement", {}).get("variants") or [] if name in variants]
    if data.tensorflow_image and measured and not any(map(_is_tensorflows, measured)):
        raise ConfigError(
            f"{origin}: data.tensorflow_image: none of measurement.variants is a variant of TensorFlow's; name some, as "
            "config/tensorflow.yaml does, or leave the image out"
        )
    needs = {
        **data.describe_needs(),
        "variants": {name: _complete_variant(variant, data) for name, variant in variants.items()},
        "shared": {"pixels": data.pixels, "filters": data.filters},
    }
    return {**values, "data": data.model_dump(mode="json"), "completed": {**values["completed"], **needs}}


def _complete_variant(variant: dict[str, Any], data: Data) -> dict[str, Any]:
    """Return a variant that trains with this many pixels and filters; one of TensorFlow's in its image, if any."""
    command = f"{variant['command']} --pixels {data.pixels} --filters {data.filters}"
    image, named = variant.get("image"), {}
    if data.tensorflow_image and _is_tensorflows(variant):
        image = os.path.abspath(data.tensorflow_image)  # noqa: PTH100  (Path.resolve would follow a link)
        named = {"image": Path(image).name, "image_id": identify_image(Path(image), "data.tensorflow_image")}
    return {**variant, "command": command, "image": image, "settings": {**variant["settings"], "command": command, **named}}


def _is_tensorflows(variant: dict[str, Any]) -> bool:
    return bool(variant["settings"]["framework"] == "tensorflow")


def prepare_dataset(data: Data, out: Path, *, workers: int | None = None) -> Dataset:
    """Fetch or make the pairs that `data` asks for, read every file once, and write `out` (`dataset.json`) last.

    What is there already is neither fetched nor made again. Whatever goes wrong is a :class:`DataError`.
    """
    return write_dataset(data, out, lambda: _find(data, workers), digest_content, LayoutError)


def _find(data: Data, workers: int | None) -> Found:
    if data.source == "download":
        whole = download(data)
        folder = _split_once(whole.folder, data, find_entry(REGISTRY, data.registry_entry).checksum[1])
        return replace(whole, folder=folder, version=f"{whole.version}, split by seed {data.split_seed}")
    if data.source == "stand_in":
        asked = data.stand_in
        told = {"asked": asked.model_dump_json()}
        place = Path(data.folder, f"polyp-stand-in-{digest_of(told)[:8]}")
        room = asked.estimate_bytes()
        made = make_stand_in_once(place, told, room, stand_in, lambda empty: make_stand_in(empty, asked, workers))
        return Found(made, "Kvasir-SEG stand-in", _describe(asked), "Apache-2.0")
    given = Path(data.local_folder or "")
    folder = given if (given / SPLITS[0]).is_dir() else _split_once(given, data, _digest_files(given))
    return Found(folder, given.resolve().name)


def _describe(asked: StandIn) -> str:
    (least_wide, least_high), (most_wide, most_high) = asked.smallest, asked.largest
    return f"{asked.pairs} pairs of {least_wide}×{least_high} to {most_wide}×{most_high}, seed {asked.seed}"


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
                brightest = int(np.asarray(image.convert("L")).max())  # at last that of the mask
        except Image.DecompressionBombError:
            raise LayoutError(f"{path}: has more pixels than fit into memory; make it and its pair smaller") from None
        except (OSError, SyntaxError, ValueError):
            raise LayoutError(f"{path}: is not a whole image; get it again, or remove it and its pair") from None
    if 0 < brightest < _HALF:
        raise LayoutError(f"{pair.mask}: its brightest pixel is {brightest} of 255; write polyps as white (255)")
    if sizes[0] != sizes[1]:
        raise LayoutError(f"{pair.mask}: {sizes[1][0]}×{sizes[1][1]}, its image {sizes[0][0]}×{sizes[0][1]}; remove the pair")
    return hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in pair)).hexdigest()


def _digest_files(whole: Path) -> str:
    """Return a digest of pairs that are to be split."""
    return hashlib.sha256("".join(_digest_pair(pair) for pair in _find_pairs(whole)).encode()).hexdigest()
