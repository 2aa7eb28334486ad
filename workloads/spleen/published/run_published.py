"""`run_published.py PROGRAM DATA`: runs a published program as it is, with its volumes where it looks for them.

Both draw the name of a folder in /tmp from a generator of seed 0, and download 1.6 GB there unless the folder has volumes: it
gets a link to them.
"""

import os
import random
import string
import sys
from pathlib import Path

from speedproof_common.program import run_program

PLACE = "programs/performance_profiling/radiology"


def published_folder() -> Path:
    """Return the folder that the programs name."""
    drawn = random.Random(0)
    return Path("/tmp/tmp" + "".join(drawn.choice(string.ascii_lowercase) for _ in range(16)), "Task09_Spleen")


def link_volumes(volumes: Path, place: Path) -> None:
    """Link `place` to the volumes; raise FileExistsError if it is not a link, or if its folder is another user's."""
    place.parent.mkdir(mode=0o700, exist_ok=True)
    if place.parent.stat().st_uid != os.getuid() or (place.exists() and not place.is_symlink()):
        raise FileExistsError(f"{place}: the program looks for its volumes there, and something else has the place; remove it")
    link = place.with_name(f"{place.name}-{os.getpid()}")
    link.symlink_to(volumes)
    link.replace(place)


def main(program: str, data: str) -> None:
    """Run the program in this process."""
    link_volumes(Path(data).resolve(), published_folder())
    run_program(f"{data}/{PLACE}/{program}")


if __name__ == "__main__":
    main(*sys.argv[1:])
