"""Which images a folder of Tiny ImageNet's layout holds, and of which class each is. Nothing but the standard library."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ANNOTATIONS_FILE = "val_annotations.txt"  # beside images/: file, class and a box in each line
SUFFIXES = (".jpeg", ".jpg", ".png")


class FolderError(ValueError):
    """A folder that is none of images by class; its text is one line."""


@dataclass(frozen=True)
class Images:
    """Image files in a fixed order, the number of each one's class, and the classes by number."""

    paths: list[str]
    labels: list[int]
    classes: list[str]


def list_images(folder: Path, classes: Sequence[str] | None = None) -> Images:
    """Return the images of a split: `<class>/**/<image>`, or `images/<image>` with a file of annotations beside.

    `classes` are those of the training images, by which others are numbered; None: the folder's own, sorted by name.

    Raises:
        FolderError: there are no images, or one is of a class that is not among `classes`.
    """
    named = list(_annotated(folder) if (folder / ANNOTATIONS_FILE).is_file() else _in_folders(folder))
    if not named:
        raise FolderError(
            f"{folder}: no images of the form CLASS/*.JPEG; name a folder with train/ and val/ as in Tiny ImageNet"
        )
    known = list(classes) if classes is not None else sorted({name for _, name in named})
    numbers = {name: number for number, name in enumerate(known)}
    strange = next((path for path, name in named if name not in numbers), None)
    if strange is not None:
        raise FolderError(f"{strange}: its class is none of the {len(known)} that train; correct the folder or its annotations")
    return Images([path for path, _ in named], [numbers[name] for _, name in named], known)


def _annotated(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield each annotated image and its class, by the image's name."""
    try:
        text = (folder / ANNOTATIONS_FILE).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise FolderError(f"{folder / ANNOTATIONS_FILE}: is not text in UTF-8; get it again") from None
    lines = (line.split("\t") for line in text.splitlines() if line)
    return iter(sorted((str(folder / "images" / words[0]), words[1] if len(words) > 1 else "") for words in lines))


def _in_folders(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield each image and the name of the folder of its class, sorted by both."""
    tops = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    for top in tops:
        for place, _, files in sorted(os.walk(top)):
            yield from ((f"{place}{os.sep}{file}", top.name) for file in sorted(files) if file.lower().endswith(SUFFIXES))
