"""Whether a text stands anywhere in a folder, in Parquet tables too."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from speedproof.common.scrub import read_texts


class Leak(NamedTuple):
    """A forbidden text that was found in a file."""

    path: Path
    needle: str


def find_leaks(folder: Path, needles: Iterable[str]) -> list[Leak]:
    """Return each file under `folder` that holds one of `needles`: in its bytes, or in the strings of a Parquet table."""
    found = []
    wanted = list(needles)
    for path in sorted(file for file in folder.rglob("*") if file.is_file()):
        content = path.read_bytes()
        if path.suffix == ".parquet":
            content += read_texts(path).encode()
        found += [Leak(path, needle) for needle in wanted if needle.encode() in content]
    return found
