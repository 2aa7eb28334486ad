"""An image's file, known by its header."""

import hashlib
from pathlib import Path

from speedproof.util.errors import ConfigError


def identify_image(path: Path, key: str = "container.image") -> str:
    """Return what identifies an image file without reading gigabytes: its size, and the id in its header.

    Every build draws a new id; touching or copying the file keeps it. Errors name the configuration `key`.

    Raises:
        ConfigError: there is no such file.
    """
    try:
        with path.open("rb") as file:
            header = file.read(2**16)
    except OSError as error:
        address = ", or an address as docker://host/name:tag" if key == "container.image" else ""
        raise ConfigError(f"{key}: {path}: {error.strerror}; give a .sif file{address}") from None
    return f"{path.stat().st_size}-{hashlib.sha256(header).hexdigest()[:16]}"
