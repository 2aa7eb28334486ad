"""What a program's source files and its output say: the paths that they name are looked for."""

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from speedproof.run.process import read_end

_SUFFIXES = {".py", ".sh", ".yaml", ".yml", ".json", ".toml", ".cfg", ".ini", ".r", ".R", ".jl", ".ipynb", ".lua", ""}
_LARGEST, _MOST_FILES = 2**20, 2000  # bytes; files


def read_program_texts(tree: Path | None, log_file: Path) -> Iterator[str]:
    """Yield the end of a program's output, then the contents of its source files."""
    yield read_end(log_file)
    yield from read_sources(tree)


def read_sources(tree: Path | None) -> Iterator[str]:
    """Yield the contents of a program's source files."""
    paths = (Path(folder, name) for folder, _, names in os.walk(tree or "") for name in names)
    for path in islice(paths, _MOST_FILES):
        if path.suffix in _SUFFIXES and path.is_file() and path.stat().st_size <= _LARGEST:
            yield path.read_text(encoding="utf-8", errors="replace")
