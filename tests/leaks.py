"""Whether a text stands anywhere in a folder, in Parquet tables and archives too."""

import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from speedproof.util.scrub import read_texts


class Leak(NamedTuple):
    """A forbidden text that was found in a file."""

    path: Path
    needle: str


def find_leaks(folder: Path, needles: Iterable[str]) -> list[Leak]:
    """Return each file under `folder` that holds one of `needles`: in its bytes, a Parquet table's strings, or an archive."""
    found = []
    wanted = list(needles)
    for path in sorted(file for file in folder.rglob("*") if file.is_file()):
        content = path.read_bytes()
        if path.suffix == ".parquet":
            content += read_texts(path).encode()
        found += [Leak(path, needle) for needle in wanted if needle.encode() in content]
        if path.suffix == ".zip":
            with tempfile.TemporaryDirectory() as unpacked, zipfile.ZipFile(path) as archive:
                archive.extractall(unpacked)
                packed = find_leaks(Path(unpacked), wanted)
            found += [Leak(path / leak.path.relative_to(unpacked), leak.needle) for leak in packed]
    return found
