"""The first step of the workflow: check that all images exist, and write `dataset.json`."""

import hashlib
import io
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import ClassVar

from PIL import Image
from pydantic import Field

from speedproof.api import Dataset, available_cores, digest_of
from speedproof_classifier.data import REGISTRY, stand_in
from speedproof_classifier.data.stand_in import StandIn, make_stand_in
from speedproof_classifier.folder import FolderError, list_images
from speedproof_common.data import Found, Source, complete_source, download, find_local, make_stand_in_once, write_dataset

_CLASSES = 1000  # outputs of the network: resnet.py, which imports torch


class Data(Source):
    """Where the images come from: `data` of the configuration."""

    registry: ClassVar[Path] = REGISTRY

    registry_entry: str = Field("tiny_imagenet_200", description="The registry's entry to download")
    stand_in: StandIn = StandIn()

    def describe_layout(self) -> str:
        """Return what a local folder is."""
        return "a folder with train/ and val/"


complete = partial(complete_source, Data)


def prepare_dataset(data: Data, out: Path, *, workers: int | None = None) -> Dataset:
    """Fetch or make the images that `data` asks for, read every file once, and write `out` (`dataset.json`) last.

    What is there already is neither fetched nor made again. Whatever goes wrong is a :class:`DataError`.
    """
    return write_dataset(data, out, lambda: _find(data, workers), digest_content, FolderError)


def _find(data: Data, workers: int | None) -> Found:
    if data.source == "download":
        return download(data)
    if data.source == "stand_in":
        asked = data.stand_in
        place = Path(data.folder, f"tiny-imagenet-stand-in-{digest_of(asked.model_dump())[:8]}")
        room = asked.estimate_bytes()
        made = make_stand_in_once(place, asked.model_dump(), room, stand_in, lambda empty: make_stand_in(empty, asked, workers))
        version = f"{asked.images} JPEGs of {asked.pixels}×{asked.pixels}, seed {asked.seed}"
        return Found(made, "Tiny ImageNet stand-in", version, "Apache-2.0")
    return find_local(data)


def digest_content(folder: Path) -> str:
    """Return a digest of names and contents of all images, each decoded, and of what says which class each is of.

    Raises:
        FolderError: `train` or `val` has no images, or one whose class is not known, that cannot be decoded, or of another size
            than the first; or there are fewer than two classes, or more than the network has.
    """
    digest = hashlib.sha256()
    parts = [part for part in ("train", "val", "test") if part != "test" or (folder / part).is_dir()]
    classes = list_images(folder / "train").classes
    if not 2 <= len(classes) <= _CLASSES:
        raise FolderError(f"{folder / 'train'}: {len(classes)} classes, where the network tells 2 to {_CLASSES} apart")
    first = None
    for part in parts:
        images = list_images(folder / part, classes if part == "val" else None)
        with ThreadPoolExecutor(available_cores()) as pool:
            for path, label, (own, size) in zip(images.paths, images.labels, pool.map(_read, images.paths), strict=True):
                first = first or size
                if size != first:
                    raise FolderError(f"{path}: {size[0]}×{size[1]} pixels, others {first[0]}×{first[1]}; scale or remove it")
                digest.update(f"{os.path.relpath(path, folder)}\0{label}\0".encode())
                digest.update(own)
    return digest.hexdigest()


def _read(path: str) -> tuple[bytes, tuple[int, int]]:
    """Return a digest of an image's file, and its width and height; it is decoded to its end."""
    content = Path(path).read_bytes()
    try:
        with Image.open(io.BytesIO(content)) as image:
            image.load()
            return hashlib.sha256(content).digest(), image.size
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        raise FolderError(f"{path}: is not a whole image; get it again, or remove it") from None
